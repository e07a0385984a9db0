"""fig:cheetah_visual_disturbance."""

from __future__ import annotations

from pamd.experiments.base import Experiment, add, arms

__all__ = ["EXPERIMENT"]

EXPERIMENT = add(
    Experiment(
        name="fig-video",
        title="cheetah_run with natural videos as background",
        shows="whether PAMD keeps its advantage with a background that is unrelated to the task",
        # The text gives no budget; the figure's axis ends at a million decisions.
        arms=arms(
            {"cheetah_run": 1_000_000},
            "dbc-det",
            "dbc-det+pamd",
            options={"distractor": "paper-video"},
            released={"distractor": "released-video"},
        ),
        published="fig-video",
    )
)
