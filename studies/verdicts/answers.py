"""Verdicts on the claims, from paired differences that are pooled over tasks and corrected for the number of pairs.

The outcomes of runs are returns, paired by task and seed. The outcomes of exact fits are errors, paired by MDP, metric
and seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pamd.report.comparison import Cell, Comparison
from pamd.report.run import Run
from pamd.report.statistics import Effect, Estimate, holm, pooled_effect, probability_of_improvement
from pamd.report.statistics import estimate as bootstrap_estimate
from pamd.table import Table, Value
from studies.verdicts.plan import Claim, Pair

__all__ = [
    "EXACT_OUTCOMES",
    "OUTCOMES",
    "Answer",
    "Verdict",
    "answers",
    "exact_answers",
    "pairs_of",
    "rung_table",
    "verdict_table",
]

Verdict = Literal["yes", "no", "open"]
"""The effect is above zero after correction (yes) or below zero (no), or these seeds cannot decide (open)."""


def final_return(run: Run) -> float:
    """Return the mean return of the last evaluation."""
    return run.score


def area(run: Run) -> float:
    """Return the mean return over all evaluations. It measures how fast a run learns, in the unit of a return."""
    return float(np.mean([np.mean(returns) for returns in run.curve.returns]))


def unseen_return(run: Run) -> float:
    """Return the mean return with unseen backgrounds or noise; NaN if the run has none."""
    return float("nan") if run.unseen_score is None else run.unseen_score


OUTCOMES: dict[str, Callable[[Run], float]] = {
    "final return": final_return,
    "area under the curve": area,
    "unseen return": unseen_return,
}


@dataclass(frozen=True)
class Answer:
    """The result of one pair of a claim for one outcome."""

    claim: str
    pair: str
    outcome: str
    tasks: tuple[str, ...]
    seeds: int
    """The number of paired seeds over all tasks."""
    effect: Effect
    improvement: Estimate
    """The probability that a run of the first arm beats a run of the second, averaged over tasks."""
    corrected: float = 1.0
    """The p value after correction for the number of pairs."""

    @property
    def verdict(self) -> Verdict:
        if self.corrected >= 0.05:
            return "open"
        return "yes" if self.effect.mean > 0 else "no"


class Samples(NamedTuple):
    """The scores of two arms on T tasks, paired by seed."""

    tasks: list[str]
    """[T]"""
    better: list[NDArray[np.float64]]
    """[T][seeds]"""
    worse: list[NDArray[np.float64]]
    """[T][seeds]"""


def answers(comparison: Comparison, claims: Sequence[Claim], outcome: str, rng: np.random.Generator) -> list[Answer]:
    """Return an answer for every pair of every claim with at least two paired seeds on some task."""
    score = OUTCOMES[outcome]
    return decide(claims, outcome, lambda pair: _samples(comparison, pair, score), rng)


def decide(
    claims: Sequence[Claim], outcome: str, sample: Callable[[Pair], Samples], rng: np.random.Generator
) -> list[Answer]:
    """Return an answer for every pair with an effect. The p values are corrected for the number of answers."""
    found = [
        answer
        for claim in claims
        for pair in claim.pairs
        if (answer := _answer(claim, pair, outcome, sample(pair), rng)) is not None
    ]
    corrected = holm([answer.effect.p_value for answer in found])
    return [replace(answer, corrected=p) for answer, p in zip(found, corrected, strict=True)]


def _answer(claim: Claim, pair: Pair, outcome: str, samples: Samples, rng: np.random.Generator) -> Answer | None:
    tasks, first, second = samples
    effect = pooled_effect([a - b for a, b in zip(first, second, strict=True)])
    if effect is None:
        return None
    improvement = bootstrap_estimate(probability_of_improvement, first, second, rng=rng, digits=2)
    label = f"{pair.better} > {pair.worse}"
    return Answer(claim.name, label, outcome, tuple(tasks), sum(map(len, first)), effect, improvement)


def _samples(comparison: Comparison, pair: Pair, score: Callable[[Run], float]) -> Samples:
    """Return the scores on the tasks on which both arms finished at least two common seeds."""
    found = Samples([], [], [])
    for setting in comparison.settings:
        cells = {cell.column.label: cell for cell in comparison.row(setting)}
        if pair.better in cells and pair.worse in cells:
            a, b = _paired(cells[pair.better], cells[pair.worse], score)
            if len(a) >= 2:
                found.tasks.append(setting.full_name)
                found.better.append(a)
                found.worse.append(b)
    return found


def _paired(one: Cell, other: Cell, score: Callable[[Run], float]) -> tuple[np.ndarray, np.ndarray]:
    """Return the finite scores of the seeds that both cells finished, [seeds] each."""
    runs = [{run.seed: score(run) for run in cell.finished} for cell in (one, other)]
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


EXACT_OUTCOMES: dict[str, Callable[[Fit], float | None]] = {
    "unseen pairs": _unseen_error,
    "fixed latents": _fixed_latents,
}
_ABSORPTION = "C5"
"""The claim that is decided by "fixed latents"."""


def exact_answers(
    cells: Sequence[Fit], claims: Sequence[Claim], outcome: str, rng: np.random.Generator
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


def verdict_table(
    found: Sequence[Answer], claims: Sequence[Claim], experiment: str, outcome: str, unit: str = "return"
) -> Table:
    """Return a table with one row for each pair. `unit` is the quantity that is compared."""
    says = {claim.name: claim.says for claim in claims}
    rows: list[list[Value]] = [
        [
            answer.claim,
            answer.pair,
            answer.verdict,
            answer.effect.interval(),
            answer.improvement,
            round(answer.corrected, 3),
            round(answer.effect.detectable(), 1),
            len(answer.tasks),
            answer.seeds,
        ]
        for answer in found
    ]
    heads = ["claim", "pair", "verdict", f"difference in {unit}", "probability of improvement"]
    heads += ["corrected p", "detectable", "tasks", "paired seeds"]
    notes = [
        "Difference: mean over tasks of the paired differences by seed, with Student's 95% interval (Welch). Corrected"
        " p: Holm, over the pairs of a rung and outcome. Verdict: yes or no where it is below 0.05, else open."
        " Detectable: the smallest difference that so many seeds find with probability 0.8.",
        *(f"{name}: {says[name]}." for name in dict.fromkeys(answer.claim for answer in found)),
    ]
    name = f"{experiment}-{outcome.replace(' ', '-')}"
    return Table(name, f"Verdicts of {experiment}, by {outcome}", heads, rows, notes)


def pairs_of(rungs: Mapping[str, Sequence[Answer]]) -> list[tuple[str, str]]:
    """Return all claims and pairs with an answer on some rung, sorted by claim."""
    found = dict.fromkeys((answer.claim, answer.pair) for found in rungs.values() for answer in found)
    return sorted(found, key=lambda key: key[0])


def rung_table(rungs: Mapping[str, Sequence[Answer]]) -> Table:
    """Return a table with pairs as rows and rungs as columns.

    A cell shows the verdict, effect, interval and paired seeds for the outcome that decides the claim.
    """
    rows: list[list[Value]] = []
    for key in pairs_of(rungs):
        cells = [next((a for a in found if (a.claim, a.pair) == key), None) for found in rungs.values()]
        rows.append([*key, *("" if cell is None else _summary(cell) for cell in cells)])
    note = (
        "A cell has the verdict, the difference with its 95% interval, and the paired seeds. An empty cell: the rung"
        " does not compare the pair."
    )
    return Table("verdicts", "The claims on every rung", ["claim", "pair", *rungs], rows, [note])


def _summary(answer: Answer) -> str:
    return f"{answer.verdict}: {answer.effect.interval()}, n={answer.seeds}"
