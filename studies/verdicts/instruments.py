"""Rank correlations between instruments and the return, over the runs of each task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.diagnostics.base import rank_correlation
from pamd.report.comparison import Comparison
from pamd.report.statistics import Estimate
from pamd.runs.logs import read_log
from pamd.table import Table, Value

__all__ = ["INSTRUMENTS", "Instrument", "Measured", "instrument_table", "measure"]

Array = NDArray[np.float64]
_RESAMPLES = 1_000
_LOGS = ("train.jsonl", "eval.jsonl")
_FEWEST = 4
"""The minimum number of runs of a task for a correlation."""


@dataclass(frozen=True)
class Instrument:
    """A number that is logged during training."""

    name: str
    says: str
    read: Callable[[Mapping[str, Any]], float | None]
    """A function that returns the value in a row of a log; None if the row does not contain it."""


def _field(name: str) -> Callable[[Mapping[str, Any]], float | None]:
    return lambda row: row.get(name)


def _head_share(row: Mapping[str, Any]) -> float | None:
    head, encoder = row.get("gradient_head"), row.get("gradient_encoder")
    return None if head is None or encoder is None or not head + encoder else head / (head + encoder)


INSTRUMENTS = (
    Instrument(
        "absorption", "share of the residual that the distance removes with a fixed encoder", _field("probe_reduction")
    ),
    Instrument("head's gradient", "norm of the distance's gradient, as a share of distance and encoder", _head_share),
    Instrument("out of reach", "share of targets above the largest possible distance", _field("reach_missed")),
    Instrument("denoising", "1 if noise does not change the method's distance", _field("denoising")),
    Instrument("denoising, l2", "1 if noise does not change the latents", _field("denoising_l2")),
    Instrument("rank", "effective rank of the latents", _field("effective_rank")),
)


@dataclass(frozen=True)
class Measured:
    """The last values of an instrument and the final returns of R runs of one task."""

    methods: tuple[str, ...]
    """[R]"""
    values: Array
    """[R]"""
    returns: Array
    """[R]"""

    @property
    def within_method(self) -> tuple[Array, Array]:
        """The values and returns [R] as deviations from the mean of their method."""
        names = np.array(self.methods)
        values, returns = self.values.copy(), self.returns.copy()
        for name in set(self.methods):
            values[names == name] -= values[names == name].mean()
            returns[names == name] -= returns[names == name].mean()
        return values, returns


def measure(comparison: Comparison) -> dict[Instrument, list[Measured]]:
    """Return the last value of each instrument in finished runs that log it, for each task with enough such runs."""
    found: dict[Instrument, list[Measured]] = {}
    for setting in comparison.settings:
        finished = [(cell.column.label, run) for cell in comparison.row(setting) for run in cell.finished]
        logs = [[row for name in _LOGS for row in read_log(run.path / name).rows] for _, run in finished]
        for instrument in INSTRUMENTS:
            rows = [
                (label, value, run.score)
                for (label, run), log in zip(finished, logs, strict=True)
                if (value := _last(log, instrument)) is not None
            ]
            if len(rows) >= _FEWEST:
                methods, values, returns = zip(*rows, strict=True)
                measured = Measured(methods, np.array(values), np.array(returns))
                found.setdefault(instrument, []).append(measured)
    return {instrument: found[instrument] for instrument in INSTRUMENTS if instrument in found}


def _last(log: Sequence[Mapping[str, Any]], instrument: Instrument) -> float | None:
    values = [value for row in log if (value := instrument.read(row)) is not None and np.isfinite(value)]
    return values[-1] if values else None


def instrument_table(instruments: Mapping[Instrument, Sequence[Measured]], rng: np.random.Generator) -> Table:
    """Return a table with one row per instrument."""
    rows: list[list[Value]] = []
    for instrument, found in instruments.items():
        overall = [(one.values, one.returns) for one in found]
        repeated = [one for one in found if len(set(one.methods)) < len(one.methods)]
        within = [one.within_method for one in repeated]
        runs = sum(len(one.values) for one in found)
        estimates = [_estimate(pairs, rng) if pairs else None for pairs in (overall, within)]
        rows.append([instrument.name, instrument.says, *estimates, len(found), runs])
    heads = ["instrument", "meaning", "rank correlation with return", "within a method", "tasks", "runs"]
    notes = [
        "Spearman's rank correlation of the last value of the instrument and the final return over the runs of a task,"
        " averaged over tasks, with a 95% bootstrap interval over runs. Within a method: both as deviations from the"
        " mean of the method on the task. A correlation is not a cause.",
    ]
    return Table("instruments", "Which instrument predicts the return", heads, rows, notes)


def _estimate(pairs: Sequence[tuple[Array, Array]], rng: np.random.Generator) -> Estimate:
    """Return the mean rank correlation over tasks, with its bootstrap interval."""

    def mean(samples: Sequence[tuple[Array, Array]]) -> float:
        return float(np.mean([rank_correlation(x, y) for x, y in samples]))

    drawn = []
    for _ in range(_RESAMPLES):
        picks = [rng.integers(0, len(x), len(x)) for x, _ in pairs]
        drawn.append(mean([(x[pick], y[pick]) for (x, y), pick in zip(pairs, picks, strict=True)]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(mean(pairs), float(low), float(high), 2)
