"""The paper's budget of each task in decisions, by operator family."""

from __future__ import annotations

__all__ = ["BISIMULATION", "INDEPENDENT", "WALKER_RUN", "WALKER_RUN_TRACE", "WALKER_WALK"]

BISIMULATION = {
    "cartpole_swingup": 200_000,
    "cheetah_run": 1_000_000,
    "finger_spin": 150_000,
    "hopper_hop": 2_000_000,
}
"""tab:dbc_det_comparison."""

INDEPENDENT = {
    "acrobot_swingup": 2_000_000,  # The published 237 was read at this point of fig:result1.
    "cheetah_run": 1_000_000,
    "hopper_hop": 1_000_000,
    "point_mass_easy": 500_000,  # The end of the axis in fig:result1.
}
"""fig:result1, bottom row; tab:recent_visual_rl_comparison."""

WALKER_RUN = 500_000
"""tab:recent_visual_rl_comparison."""
WALKER_RUN_TRACE = 600_000
"""The end of the axis in fig:trace_ablation."""
WALKER_WALK = 1_000_000
"""fig:result2; not stated in the text."""
