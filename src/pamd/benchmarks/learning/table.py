"""Build the table of the learning benchmark from the outcomes of runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pamd.benchmarks.learning.curve import Outcome
from pamd.report.statistics import Mean
from pamd.table import NONE, Table

__all__ = ["Entry", "make_table"]

REFERENCE = "reference implementation"
_COLUMNS = (
    "setting",
    "method",
    "reached",
    "minutes",
    "CPU minutes",
    "decisions",
    "frames",
    "return at the end",
    "area",
    "minutes, each seed",
)
"""The columns after the task and its target return."""


class Entry(NamedTuple):
    """One run of the benchmark."""

    task: str
    setting: str
    method: str
    seed: int
    outcome: Outcome


def make_table(
    entries: Sequence[Entry], thresholds: Mapping[str, float], limit: float, update_seconds: Mapping[str, float]
) -> Table:
    """Return rows by task, setting and method. `update_seconds` is the time of one reference update by method."""
    rows = []
    for task in dict.fromkeys(entry.task for entry in entries):
        here = [entry for entry in entries if entry.task == task]
        for key in dict.fromkeys((entry.setting, entry.method) for entry in here):
            outcomes = [entry.outcome for entry in here if (entry.setting, entry.method) == key]
            rows.append({"task": task, "return": thresholds[task], **_row(*key, outcomes, limit)})
        for method in dict.fromkeys(entry.method for entry in here):
            mine = [entry for entry in here if entry.method == method]
            rows.append({"task": task, "return": thresholds[task], **_reference(method, mine, update_seconds)})
    notes = (
        "minutes: training time of the first evaluation whose mean return is at least the stated one; wall time of"
        " one run with one thread, without evaluations and checkpoints. CPU minutes: processor time of the same span.",
        "Median (minimum to maximum) over seeds, without interpolation. A run that did not reach the return within"
        f" {limit / 60:g} minutes counts as longer than all others: > {limit / 60:g}.",
        f"area: mean return over {limit / 60:g} minutes, clipped at the stated return, where a run stays after reaching"
        " it; ± standard error over seeds.",
        f"{REFERENCE}: the fewest decisions of any setting (median over seeds) times the time of one update of the"
        " released settings (84x84, batch 128), one thread, memory kept; without acting, rendering or evaluations. Its"
        " number of decisions is assumed in its favor, not measured. Time of its update: "
        + ", ".join(f"{method} {seconds:.2f} s" for method, seconds in update_seconds.items()),
    )
    return Table.from_records("learning", "training from pixels to a stated return, one thread per run", rows, notes)


def _row(setting: str, method: str, outcomes: Sequence[Outcome], limit: float) -> dict[str, Any]:
    ended = [one for one in outcomes if one.over]
    reached = sum(one.state == "reached" for one in ended)
    minutes = [_time(one, one.point.seconds / 60) for one in ended]
    return {
        "setting": setting,
        "method": method,
        "reached": f"{reached} of {len(ended)}" + (f" ({len(outcomes) - len(ended)} unfinished)" * (ended != outcomes)),
        "minutes": _spread(minutes, limit / 60, 1),
        "CPU minutes": _spread([_time(one, one.point.cpu_seconds / 60) for one in ended], None, 1),
        "decisions": _spread([_time(one, one.point.decisions) for one in ended], None, 0),
        "frames": _spread([_time(one, one.point.frames) for one in ended], None, 0),
        "return at the end": str(Mean.over([one.point.mean for one in ended])),
        "area": str(Mean.over([one.area for one in ended])),
        "minutes, each seed": ", ".join(_cell(value, limit / 60, 1) for value in minutes),
    }


def _reference(method: str, entries: Sequence[Entry], update_seconds: Mapping[str, float]) -> dict[str, Any]:
    by_setting: dict[str, list[float]] = {}
    for entry in entries:
        if entry.outcome.over:
            by_setting.setdefault(entry.setting, []).append(_time(entry.outcome, entry.outcome.point.decisions))
    fewest = min((statistics.median(values) for values in by_setting.values()), default=math.inf)
    known = math.isfinite(fewest) and method in update_seconds
    return dict.fromkeys(_COLUMNS, "") | {
        "setting": REFERENCE,
        "method": method,
        "minutes": f"{fewest * update_seconds[method] / 60:.0f}" if known else NONE,
        "decisions": f"{fewest:.0f}" if known else NONE,
    }


def _time(one: Outcome, value: float) -> float:
    """Return `value` if the run reached the target return; otherwise infinity."""
    return value if one.state == "reached" else math.inf


def _spread(values: Sequence[float], limit: float | None, digits: int) -> str:
    if not any(map(math.isfinite, values)):
        return _cell(math.inf, limit if values else None, digits)
    middle, low, high = (_cell(of(values), limit, digits) for of in (statistics.median, min, max))
    return f"{middle} ({low} to {high})"


def _cell(value: float, limit: float | None, digits: int) -> str:
    if math.isfinite(value):
        return f"{value:.{digits}f}"
    return NONE if limit is None else f"> {limit:g}"
