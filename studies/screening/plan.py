"""The pilots that docs/performance.md shows, as rows of tables: a label, and which rows of pilots.csv it has."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TABLES", "Pilot"]


class Pilot(NamedTuple):
    """A row of a table. All pilots have seed 0."""

    label: str
    setting: str
    task: str = "cartpole_swingup"
    method: str = "none"
    updates_per_decision: str = "1.0"


_AT_32 = "32x32 antialiased, strides 2,1,1"
_CPU, _NORM = (
    "scale cpu without LayerNorm, learning rate",
    "scale cpu with LayerNorm in actor and critic, learning rate 3e-3",
)
_EVERY = "actor and slow copies at every update"

TABLES: dict[str, tuple[tuple[int, ...], tuple[Pilot, ...]]] = {
    "layer-norm": (
        (2_000, 4_000, 6_000, 8_000, 10_000, 12_000, 20_000),
        (
            Pilot("cartpole_swingup, 3e-3", f"{_CPU} 3e-3"),
            Pilot("the same with LayerNorm", _NORM),
            Pilot("reacher_easy, 3e-3", f"{_CPU} 3e-3", "reacher_easy"),
            Pilot("the same, 1e-3", f"{_CPU} 1e-3", "reacher_easy"),
            Pilot("the same, 3e-3 with LayerNorm", _NORM, "reacher_easy"),
            Pilot("finger_spin, 3e-3", f"{_CPU} 3e-3", "finger_spin"),
            Pilot("the same, 1e-3", f"{_CPU} 1e-3", "finger_spin"),
            Pilot("the same, 3e-3 with LayerNorm", _NORM, "finger_spin"),
        ),
    ),
    "learner": (
        (2_000, 4_000, 6_000, 8_000),
        (
            Pilot("strides 2, 1, 1, 32 filters", f"{_AT_32}, 32 filters, frames, shift 2"),
            Pilot("strides 2, 1, 1, 16 filters", f"{_AT_32}, 16 filters, frames, shift 1"),
            Pilot("the same, three-step returns", "as before, three-step returns"),
            Pilot("scale's encoder, three-step returns", "new, three-step returns"),
            Pilot("the same without random shift", "new, three-step returns, no random shift"),
            Pilot("the same, `deepmdp`", "new, three-step returns, `deepmdp`", method="deepmdp"),
            Pilot("the same, actor and target copies at every update", f"new, three-step returns, {_EVERY}"),
            Pilot(
                "the same, one-step returns, half an update per decision",
                f"new, one-step returns, {_EVERY}, half an update per decision",
                updates_per_decision="0.5",
            ),
            Pilot(
                "from states: batch 128, the paper's schedule",
                "states, batch 128, the paper's schedule",
                "state:cartpole_swingup",
            ),
            Pilot(
                "from states: batch 64, actor and target copies at every update",
                f"states, batch 64, {_EVERY}",
                "state:cartpole_swingup",
            ),
            Pilot(
                "from states: batch 64, three-step returns, the paper's schedule",
                "states, batch 64, three-step returns, the paper's schedule of steps",
                "state:cartpole_swingup",
            ),
        ),
    ),
    "filters": (
        (2_000, 3_000, 4_000, 5_000, 6_000),
        (
            Pilot(
                "walker_stand, `dbc-det+pamd`, 32 filters",
                "walker_stand, the scale as it is, `dbc-det+pamd`",
                "walker_stand",
                "dbc-det+pamd",
            ),
            Pilot("the same, 16 filters", "the scale with 16 filters, action repeat 4", "walker_stand", "dbc-det+pamd"),
            Pilot(
                "the same, 16 filters, learning rate 3e-3",
                "the scale with 16 filters, learning rate 0.003, action repeat 4, stopped early",
                "walker_stand",
                "dbc-det+pamd",
            ),
            Pilot("cartpole_swingup, `sac`, 32 filters", f"new, three-step returns, {_EVERY}"),
            Pilot("the same, 16 filters, learning rate 3e-3", "the scale with 16 filters, learning rate 0.003"),
            Pilot("reacher_easy, `sac`, 32 filters", "reacher_easy, the scale as it is", "reacher_easy"),
            Pilot(
                "the same, 16 filters, learning rate 3e-3",
                "the scale with 16 filters, learning rate 0.003",
                "reacher_easy",
            ),
        ),
    ),
}
