"""The summary at the top of the page: comparison, result, certainty, dates and notices.

A finding states which method of a pair scores higher, and how certain this is.
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from pamd.report.comparison import Column, Comparison, Setting, common, pairs, scored_columns, short
from pamd.report.run import Run
from pamd.report.statistics import Effect, Scores, holm, pooled_effect
from pamd.table import counted
from pamd.version import __version__

_LEVEL = 0.05
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
        return self.corrected < _LEVEL

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


_UNFOLDED = 12
"""The maximum number of notices that the summary shows without a click."""
_NAMED = 6
"""The maximum number of methods, tasks or pairs that the summary lists. The others are only counted."""


def about(comparison: Comparison, now: datetime) -> str:
    """Return the summary and the notices as HTML. `now` is the date of the page."""
    found = {scale: findings(comparison, scale) for scale in comparison.scales}
    entries = {
        "Compared": _paragraph(_describe_comparison(comparison)),
        "Answer": _answer(found),
        "How sure": _paragraph(_how_sure([one for group in found.values() for one in group])),
        "When": _paragraph(_when(comparison, now)),
    }
    rows = "".join(f"<dt>{name}</dt><dd>{body}</dd>" for name, body in entries.items())
    return f"<dl class=summary>{rows}</dl>{_box(_notices(comparison))}"


def _box(notices: Sequence[str]) -> str:
    """Return the notices as HTML. Those after the first ones are collapsed."""
    if not notices:
        return ""
    items = [f"<li>{html.escape(notice)}</li>" for notice in notices]
    first, rest = "".join(items[:_UNFOLDED]), "".join(items[_UNFOLDED:])
    more = f"{counted(len(items) - _UNFOLDED, 'more notice')}"
    folded = rest and f"<details><summary>{more}</summary><ul>{rest}</ul></details>"
    return f"<div class=notices role=note><strong>Please note</strong><ul>{first}</ul>{folded}</div>"


def _describe_comparison(comparison: Comparison) -> str:
    budgets = [f"{short(budget)} decisions" for budget in sorted({s.decisions for s in comparison.settings})]
    fidelities = sorted({column.fidelity for column in comparison.columns})
    return (
        f"{_join_names([column.label for column in comparison.columns])}"
        f" on {_join_names(list(dict.fromkeys(setting.name for setting in comparison.settings)))}:"
        f" {counted(len(comparison.runs), 'run')}, {counted(len({run.seed for run in comparison.runs}), 'seed')},"
        f" {_join_names(budgets)} per run. Fidelity: {' and '.join(fidelities)}."
        f" Scale: {' and '.join(comparison.scales)}."
    )


def _answer(found: dict[str, list[Finding]]) -> str:
    """Return the results of the first pairs as HTML. Within a scale, pairs with a difference come first."""
    lines = []
    for scale, group in found.items():
        where = f" ({scale} scale)" if len(found) > 1 else ""
        for one in sorted(group, key=lambda finding: not finding.decided):
            lines.append(f"<strong>{html.escape(one.headline)}</strong>: {html.escape(one.detail + where)}.")
    if not lines:
        return _paragraph("None yet: to compare two methods, both need two finished seeds on the same task and budget.")
    more = f"<li>{counted(len(lines) - _NAMED, 'more pair')}: see Statistics.</li>" if len(lines) > _NAMED else ""
    return f"<ul>{''.join(f'<li>{line}</li>' for line in lines[:_NAMED])}{more}</ul>"


def _how_sure(found: Sequence[Finding]) -> str:
    if not found:
        return "Unknown: a single seed has no spread, so no difference can be established."
    words = (
        "Brackets: 95% interval of the mean difference (Student's t over paired seeds, averaged over tasks)."
        f" p: corrected for {counted(len(found), 'pair')} (Holm); below {_LEVEL:g} it counts as a difference."
    )
    if not all(one.decided for one in found):
        words += (
            " Undecided does not mean equal. Detectable: the difference that this test would find with probability 0.8."
        )
    return words


def _when(comparison: Comparison, now: datetime) -> str:
    times = sorted(run.time for run in comparison.runs if run.time is not None)
    days = list(dict.fromkeys(f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d}" for time in times))
    if not days:
        trained = "The dates of the runs are not known."
    else:
        trained = f"The runs ended {'on ' + days[0] if len(days) == 1 else f'between {days[0]} and {days[-1]}'} (UTC)."
        if len(times) < len(comparison.runs):
            trained += (
                f" The dates of {len(comparison.runs) - len(times)} of {len(comparison.runs)} runs are not known."
            )
    return f"{trained} pamd {__version__} wrote this page on {now:%Y-%m-%d} from the run directories alone."


def _notices(comparison: Comparison) -> list[str]:
    notices = [f"{one.name} cannot be read and is excluded; the reason is below." for one in comparison.unreadable]
    notices += [f"{run.name}: {notice}." for run in comparison.runs for notice in run.notices]
    notices += [f"Not counted: {cell.notice}." for cell in comparison.rows if cell.notice]
    notices += _training_warnings(comparison.runs)
    if len({column.fidelity for column in comparison.columns}) > 1 or len(comparison.scales) > 1:
        notices.append("These runs have several fidelities or scales. Each has its own columns and tables.")
    if max(len(cell.scores) for cell in comparison.rows) < 2:
        notices.append("No method has more than one finished seed in a setting: nothing here shows which is better.")
    return notices


def _training_warnings(runs: Sequence[Run]) -> Iterator[str]:
    """Yield one notice per kind of warning, with the number of runs and the first of them."""
    for kind in sorted({kind for run in runs for kind in run.warnings}):
        warned = [run for run in runs if kind in run.warnings]
        count = f" ({len(warned)} of {counted(len(runs), 'run')})" if len(runs) > 1 else ""
        yield f"Warned in training, {kind}{count}: {warned[0].name}, {warned[0].warnings[kind]}."


def _join_names(names: Sequence[str]) -> str:
    """Join names as "a, b and c", or "a, b, … and 4 more" if there are many."""
    shown = [*names] if len(names) <= _NAMED else [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"
