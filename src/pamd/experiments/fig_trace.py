"""fig:trace_ablation."""

from __future__ import annotations

from pamd.experiments.base import Arm, Experiment, add
from pamd.experiments.budgets import BISIMULATION, WALKER_RUN_TRACE

__all__ = ["EXPERIMENT"]


def _panel(task: str, pipeline: str, decisions: int) -> tuple[Arm, ...]:
    off = ("method.metric.distance.options.trace_normalized=false",)
    return (
        Arm(task, pipeline, decisions),
        Arm(task, f"{pipeline}+pamd", decisions),
        Arm(task, f"{pipeline}+pamd", decisions, variant="no trace", settings=off),
    )


EXPERIMENT = add(
    Experiment(
        name="fig-trace",
        title="With and without trace normalization",
        shows="whether an uncontrolled scale hurts PAMD: finger_spin (DBC-Det) and walker_run (SimSR)",
        arms=(
            *_panel("finger_spin", "dbc-det", BISIMULATION["finger_spin"]),
            *_panel("walker_run", "simsr", WALKER_RUN_TRACE),
        ),
        published="fig-trace",
    )
)
