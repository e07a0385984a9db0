"""Verdicts on the claims, from paired differences that are pooled over tasks and corrected for the number of pairs.

The outcomes of runs are returns, paired by task and seed. The outcomes of exact fits are errors, paired by MDP, metric
and seed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from pamd.report.comparison import Cell, Comparison
from pamd.report.statistics import Effect, Values, holm, pooled_effect
from pamd.table import Table, Value
from studies.verdicts.plan import Claim, Pair

__all__ = ["Answer", "Verdict", "answers", "compares_scales", "exact_answers", "pairs_of", "rung_table"]

Verdict = Literal["yes", "no", "open"]
"""The effect is above zero after correction (yes) or below zero (no), or these seeds cannot decide (open)."""


@dataclass(frozen=True)
class Answer:
    """The result of one pair of a claim."""

    claim: str
    pair: str
    seeds: int
    """The number of paired seeds over all tasks."""
    effect: Effect
    corrected: float = 1.0
    """The p value after correction for the number of pairs."""

    @property
    def verdict(self) -> Verdict:
        if self.corrected >= 0.05:
            return "open"
        return "yes" if self.effect.mean > 0 else "no"


class Samples(NamedTuple):
    """The scores of two arms on T tasks, paired by seed."""

    better: list[Values]
    """[T][seeds]"""
    worse: list[Values]
    """[T][seeds]"""


def answers(comparison: Comparison, claims: Sequence[Claim]) -> list[Answer]:
    """Return an answer, by the final return, for every pair of every claim with two paired seeds on some task."""
    return decide(claims, lambda pair: _samples(comparison, pair))


def decide(claims: Sequence[Claim], sample: Callable[[Pair], Samples]) -> list[Answer]:
    """Return an answer for every pair with an effect. The p values are corrected for the number of answers."""
    answers = [
        answer
        for claim in claims
        for pair in claim.pairs
        if (answer := _answer(claim, pair, *sample(pair))) is not None
    ]
    corrected = holm([answer.effect.p_value for answer in answers])
    return [replace(answer, corrected=p) for answer, p in zip(answers, corrected, strict=True)]


def _answer(claim: Claim, pair: Pair, better: Sequence[Values], worse: Sequence[Values]) -> Answer | None:
    effect = pooled_effect([a - b for a, b in zip(better, worse, strict=True)])
    return (
        None if effect is None else Answer(claim.name, f"{pair.better} > {pair.worse}", sum(map(len, better)), effect)
    )


def _samples(comparison: Comparison, pair: Pair) -> Samples:
    """Return the scores on the tasks on which both arms finished at least two common seeds."""
    found = Samples([], [])
    for setting in comparison.settings:
        cells = {cell.column.label: cell for cell in comparison.row(setting)}
        if pair.better in cells and pair.worse in cells:
            a, b = _paired(cells[pair.better], cells[pair.worse])
            if len(a) >= 2:
                found.better.append(a)
                found.worse.append(b)
    return found


def _paired(one: Cell, other: Cell) -> tuple[Values, Values]:
    """Return the finite scores of the seeds that both cells finished, [seeds] each."""
    runs = [{run.seed: run.score for run in cell.finished} for cell in (one, other)]
    seeds = sorted(s for s in runs[0].keys() & runs[1].keys() if np.isfinite([runs[0][s], runs[1][s]]).all())
    a, b = (np.array([run[seed] for seed in seeds], dtype=np.float64) for run in runs)
    return a, b


_OWN = {"dbc-det": "l1", "simsr": "cosine"}
"""The distances of methods whose names do not contain one."""
Fit = Mapping[str, Any]
"""A fit of an exact metric in the format that `pamd diagnose exact` writes to data.json."""


def _unseen_error(cell: Fit) -> float | None:
    """Return the negative log error on pairs that were not fitted; None if the latents were fixed. Higher is better."""
    return -math.log10(max(cell["held_out"], 1e-6)) if cell["encoder"] == "trainable" else None


def _fixed_latents(cell: Fit) -> float | None:
    """Return the log error with fixed random latents; None if the latents were trained.

    Higher is better: a distance that fits fixed latents less well can absorb less.
    """
    return math.log10(max(cell["residual"], 1e-6)) if cell["encoder"] == "frozen" else None


_ABSORPTION = "C5"
"""The claim that is decided by the error with fixed latents. Unseen pairs decide all others."""


def exact_answers(cells: Sequence[Fit], claims: Sequence[Claim]) -> list[Answer]:
    """Return an answer for every pair whose distances have at least two common seeds on every common task.

    The p values are corrected within each of the two outcomes.
    """
    return [
        *_exact(cells, [claim for claim in claims if claim.name != _ABSORPTION], _unseen_error),
        *_exact(cells, [claim for claim in claims if claim.name == _ABSORPTION], _fixed_latents),
    ]


def _exact(cells: Sequence[Fit], claims: Sequence[Claim], score: Callable[[Fit], float | None]) -> list[Answer]:
    scores: dict[str, dict[str, dict[int, float]]] = {}
    for cell in cells:
        if (value := score(cell)) is not None:
            task = f"{cell['mdp']} {cell['metric']}"
            scores.setdefault(cell["distance"], {}).setdefault(task, {})[cell["seed"]] = value

    def sample(pair: Pair) -> Samples:
        better, worse = (scores.get(_distance(label), {}) for label in (pair.better, pair.worse))
        found = Samples([], [])
        for task in (task for task in better if task in worse):
            seeds = sorted(better[task].keys() & worse[task].keys())
            found.better.append(np.array([better[task][seed] for seed in seeds]))
            found.worse.append(np.array([worse[task][seed] for seed in seeds]))
        return found

    return decide(claims, sample)


def _distance(label: str) -> str:
    """Return the distance of an arm; "" if it has no distance, or has a variant, which exact fits do not have."""
    if "(" in label:
        return ""
    method, _, distance = label.partition("+")
    return distance or _OWN.get(method, "")


def pairs_of(rungs: Mapping[str, Sequence[Answer]]) -> list[tuple[str, str]]:
    """Return all claims and pairs with an answer on some rung, sorted by claim."""
    pairs = dict.fromkeys((answer.claim, answer.pair) for answers in rungs.values() for answer in answers)
    return sorted(pairs, key=lambda key: key[0])


def rung_table(rungs: Mapping[str, Sequence[Answer]]) -> Table:
    """Return a table with pairs as rows and rungs as columns.

    A cell shows the verdict, effect, interval and paired seeds.
    """
    rows: list[list[Value]] = []
    for claim, pair in pairs_of(rungs):
        cells = [next((a for a in found if (a.claim, a.pair) == (claim, pair)), None) for found in rungs.values()]
        shown = ["" if a is None else f"{a.verdict}: {a.effect.interval()}, n={a.seeds}" for a in cells]
        rows.append([claim, pair, *shown])
    note = (
        "A cell has the verdict, the difference with its 95% interval, and the paired seeds. An empty cell: the rung"
        " does not compare the pair, or compares scales."
    )
    return Table("verdicts", "The claims on every rung", ["claim", "pair", *rungs], rows, [note])


def compares_scales(pair: str) -> bool:
    """Return whether an arm of a pair has the l1 norm that is summed over 50 coordinates: `dbc-det` and its variants.

    It is about 40 times larger than the other distances at the same loss weight. Exact fits have no loss weight.
    """
    return any(re.fullmatch(r"dbc-det( \((?!mean).*)?", arm) for arm in pair.split(" > "))
