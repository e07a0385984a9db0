"""The results of a comparison: which method of each pair scores higher, and how certain the result is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pamd.report.aggregate import Comparison
from pamd.report.inference import common, pairs, scored_columns
from pamd.report.settings import Column, Setting
from pamd.report.statistics import Effect, Scores, holm, pooled_effect
from pamd.table import counted

__all__ = ["LEVEL", "Finding", "findings"]

LEVEL = 0.05
"""A corrected p value below this level counts as a difference."""


@dataclass(frozen=True)
class Finding:
    """The difference in return between two methods, over the seeds that both methods finished."""

    first: Column
    second: Column
    settings: tuple[Setting, ...]
    """The settings in which both methods have at least two finished seeds in common."""
    seeds: int
    """The number of paired seeds over all settings."""
    effect: Effect
    """The return of `first` minus the return of `second`, averaged over the settings."""
    corrected: float = 1.0
    """The p value, corrected for the number of pairs."""

    @property
    def decided(self) -> bool:
        return self.corrected < LEVEL

    @property
    def headline(self) -> str:
        if not self.decided:
            return f"{self.first.label} or {self.second.label}: undecided"
        return f"{self.first.label} scores {'higher' if self.effect.mean > 0 else 'lower'} than {self.second.label}"

    @property
    def detail(self) -> str:
        p = "p < 0.001" if self.corrected < 0.001 else f"p = {self.corrected:.3f}"
        where = ", ".join(setting.full_name for setting in self.settings)
        text = f"difference {self.effect.interval()}, {p}, {counted(self.seeds, 'paired seed')} on {where}"
        return text if self.decided else f"{text}; detectable: {self.effect.detectable():.3g}"


def findings(comparison: Comparison, scale: str) -> list[Finding]:
    """Return one finding per pair of methods with at least two common finished seeds in a setting of `scale`.

    If some pairs compare a method with and without a plug-in, only these are tested, which increases the power.
    """
    found = [one for pair in _tested(scored_columns(comparison, scale)) if (one := _finding(comparison, scale, *pair))]
    corrected = holm([one.effect.p_value for one in found])
    return [dataclasses.replace(one, corrected=p) for one, p in zip(found, corrected, strict=True)]


def _tested(columns: Sequence[Column]) -> list[tuple[Column, Column]]:
    every = pairs(columns)
    return [(x, y) for x, y in every if x.method.startswith(f"{y.method}+")] or every


def _finding(comparison: Comparison, scale: str, first: Column, second: Column) -> Finding | None:
    settings: list[Setting] = []
    differences: Scores = []
    for setting in common(comparison, scale, [first, second]):
        one, other = (comparison.cells[setting, column].scores for column in (first, second))
        seeds = sorted(one.keys() & other.keys())
        if len(seeds) > 1:
            settings.append(setting)
            differences = [*differences, np.array([one[seed] - other[seed] for seed in seeds])]
    effect = pooled_effect(differences)
    if effect is None:
        return None
    return Finding(first, second, tuple(settings), sum(map(len, differences)), effect)
