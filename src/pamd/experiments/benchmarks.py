"""Protocols of the literature: train clean, and evaluate on backgrounds that training never shows.

docs/benchmarks.md states what equals the literature and what does not.
"""

from __future__ import annotations

from pamd.experiments.base import Experiment, add, arms

_FRAMES = 500_000
"""DMControl-GB trains for this many simulator frames."""
_REPEATS = {"walker_walk": 2, "cheetah_run": 4}
_METHODS = ("sac", "simsr", "simsr+pamd")
_BUDGETS = {task: _FRAMES // repeat for task, repeat in _REPEATS.items()}

# DMControl-GB (Hansen and Wang 2021).
_COLORS_AND_VIDEOS = ("color-easy", "color-hard", "video-easy", "video-hard")

add(
    Experiment(
        name="dmc-gb",
        title="DMControl-GB: trained clean, evaluated with other colors and videos",
        shows="how much return is lost on random colors and on natural videos that training never shows",
        arms=arms(_BUDGETS, *_METHODS, options={"evaluate_on": _COLORS_AND_VIDEOS}),
    )
)

# Distracting Control Suite (Stone et al. 2021).
_LEVELS = ("distracting-easy", "distracting-medium", "distracting-hard")

add(
    Experiment(
        name="distracting-control",
        title="Distracting Control Suite: trained clean, evaluated at three levels",
        shows="how much return is lost with moving videos, colors and camera at the levels easy, medium and hard",
        arms=arms(_BUDGETS, *_METHODS, options={"evaluate_on": _LEVELS}),
    )
)
