"""Finite MDPs and their exact behavioral metrics in plain numpy, for use as ground truth."""

from __future__ import annotations

from pamd.exact.build import MDPBuilder, duplicated, garnet, grid_world
from pamd.exact.counter_example import counter_example
from pamd.exact.dimension import (
    Covering,
    covering,
    covering_number,
    doubling_dimension,
    effective_dimension,
    pseudometric,
)
from pamd.exact.family import (
    METRICS,
    kernel,
    kernel_distance,
    kernel_operator,
    metric,
    n_step,
    n_step_operator,
    state_action,
    state_action_operator,
)
from pamd.exact.mdp import FiniteMDP, uniform_policy, value
from pamd.exact.metrics import (
    bisimulation,
    bisimulation_operator,
    fixed_point,
    mico,
    mico_operator,
    policy_bisimulation,
    policy_bisimulation_operator,
    reduced,
)
from pamd.exact.transport import wasserstein
from pamd.exact.values import action_value, advantage_gap, expected_gap, value_difference_operator, value_gap

__all__ = [
    "METRICS",
    "Covering",
    "FiniteMDP",
    "MDPBuilder",
    "action_value",
    "advantage_gap",
    "bisimulation",
    "bisimulation_operator",
    "counter_example",
    "covering",
    "covering_number",
    "doubling_dimension",
    "duplicated",
    "effective_dimension",
    "expected_gap",
    "fixed_point",
    "garnet",
    "grid_world",
    "kernel",
    "kernel_distance",
    "kernel_operator",
    "metric",
    "mico",
    "mico_operator",
    "n_step",
    "n_step_operator",
    "policy_bisimulation",
    "policy_bisimulation_operator",
    "pseudometric",
    "reduced",
    "state_action",
    "state_action_operator",
    "uniform_policy",
    "value",
    "value_difference_operator",
    "value_gap",
    "wasserstein",
]
