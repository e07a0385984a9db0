"""Verdicts on the claims from fits of exact metrics, paired by MDP, metric and seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pamd.report.verdicts import Answer, Claim, Pair, Samples, decide

__all__ = ["EXACT_DISTANCES", "EXACT_OUTCOMES", "exact_answers"]

_OWN = {"dbc-det": "l1", "simsr": "cosine"}
"""The distances of methods whose names do not contain one."""
EXACT_DISTANCES = (
    "l1",
    "cosine",
    "coordinate",
    "diagonal",
    "adaptive-diagonal",
    "pamd",
    "pamd-scaled",
    "mlp",
)

Cell = Mapping[str, Any]
"""One fit in the format that `pamd diagnose exact` writes to data.json."""


def _unseen_error(cell: Cell) -> float | None:
    """Return the negative log error on pairs that were not fitted; None if the latents were fixed. Higher is better."""
    return -math.log10(max(cell["held_out"], 1e-6)) if cell["encoder"] == "trainable" else None


def _fixed_latents(cell: Cell) -> float | None:
    """Return the log error with fixed random latents; None if the latents were trained.

    Higher is better: a distance that fits fixed latents less well can absorb less.
    """
    return math.log10(max(cell["residual"], 1e-6)) if cell["encoder"] == "frozen" else None


EXACT_OUTCOMES: dict[str, Callable[[Cell], float | None]] = {
    "unseen pairs": _unseen_error,
    "fixed latents": _fixed_latents,
}
_ABSORPTION = "C5"
"""The claim that is decided by "fixed latents"."""


def exact_answers(
    cells: Sequence[Cell], claims: Sequence[Claim], outcome: str, rng: np.random.Generator
) -> list[Answer]:
    """Return an answer for every pair whose distances have at least two common seeds on every common task.

    C5 is decided by "fixed latents", and all other claims by "unseen pairs".
    """
    chosen = [claim for claim in claims if (claim.name == _ABSORPTION) == (outcome == "fixed latents")]
    score = EXACT_OUTCOMES[outcome]
    scores: dict[str, dict[str, dict[int, float]]] = {}
    for cell in cells:
        if (value := score(cell)) is not None:
            task = f"{cell['mdp']} {cell['metric']}"
            scores.setdefault(cell["distance"], {}).setdefault(task, {})[cell["seed"]] = value

    def sample(pair: Pair) -> Samples:
        better, worse = (scores.get(_distance(label), {}) for label in (pair.better, pair.worse))
        found = Samples([], [], [])
        for task in (task for task in better if task in worse):
            seeds = sorted(better[task].keys() & worse[task].keys())
            found.tasks.append(task)
            found.better.append(np.array([better[task][seed] for seed in seeds]))
            found.worse.append(np.array([worse[task][seed] for seed in seeds]))
        return found

    return decide(chosen, outcome, sample, rng)


def _distance(label: str) -> str:
    """Return the distance of an arm; "" if it has no distance, or has a variant, which exact fits do not have."""
    if "(" in label:
        return ""
    method, _, distance = label.partition("+")
    return distance or _OWN.get(method, "")
