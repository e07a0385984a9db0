"""Tables of a comparison: returns, statistics over tasks and pairs, and the paper's numbers beside ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pamd.published import Published
from pamd.report.comparison import Cell, Comparison, common, normalized, pairs, scored_columns, short
from pamd.report.config import has_bundled_clips
from pamd.report.markup import file_name
from pamd.report.statistics import (
    Estimate,
    Mean,
    estimate,
    estimate_improvement,
    iqm,
    optimality_gap,
    paired_difference,
    seeds_needed,
)
from pamd.table import Quantity, Table, Value

_PLACES = {
    "fig:arch": "Figure 1",
    "fig:result1": "Figure 2",
    "fig:cheetah_ablation": "Figure 3",
    "fig:cheetah_visual_disturbance": "Figure 4",
    "fig:result2": "Figure 5",
    "fig:trace_ablation": "Figure 6",
    "tab:dbc_det_comparison": "Table 1",
    "tab:preserved_properties": "Table 2",
    "tab:recent_visual_rl_comparison": "Table 3",
    "tab:pamd_flops": "Table 4",
    "tab:pamd_wallclock_scaling": "Table 5",
    "tab:dbc-mico-simsr-hparams": "Table 6",
    "tab:action-repeat": "Table 7",
}
"""The labels in the source of the paper and the corresponding table and figure numbers."""
_SIDE_BY_SIDE = 6
"""The maximum number of columns of means that fit on the page."""


@dataclass(frozen=True)
class _Seeds(Quantity):
    """The number of finished seeds and the number of all seeds."""

    finished: int
    planned: int

    def __str__(self) -> str:
        return str(self.finished) if self.finished == self.planned else f"{self.finished} of {self.planned}"

    def parts(self) -> dict[str, float]:
        return {"": self.finished, "planned": self.planned}


def summary(comparison: Comparison, rng: np.random.Generator) -> Table:
    """Return a table of all cells with the return, the seeds, and the budget in three units."""
    unseen = _unseen(comparison)
    success = any(cell.success for cell in comparison.rows)
    columns = ["task", "method", "return", "IQM", "seeds", *(["success"] if success else [])]
    columns += [f"return, unseen {unseen}"] if unseen else []
    columns += ["decisions", "frames", "updates", "fidelity", "scale"]
    rows: list[list[Value]] = []
    for cell in comparison.rows:
        seeds = _Seeds(len(cell.scores), cell.planned)
        row: list[Value] = [cell.setting.full_name, cell.column.label, cell.mean, _iqm(cell, rng), seeds]
        row += [cell.success] if success else []
        row += [cell.unseen_mean] if unseen else []
        row += [cell.setting.decisions, cell.counted("frames"), cell.counted("updates")]
        row += [cell.column.fidelity, cell.setting.scale]
        rows.append(row)
    notes = [
        "Return: undiscounted return of the evaluation at the end of the budget; mean over n finished seeds ± one"
        " standard error. IQM (interquartile mean): mean of the middle half of the seeds, with a 95% bootstrap"
        " interval, which is too narrow for few seeds. With one seed there is no standard error and no interval.",
        *(f"{cell.notice}." for cell in comparison.rows if cell.notice),
    ]
    if success:
        notes.append(
            "Success: share of the episodes of the last evaluations, over all finished seeds, that had success in one"
            " of their steps, with Wilson's 95% interval. It counts episodes as independent, so it is too narrow if"
            " seeds differ."
        )
    if comparison.unreadable:
        notes.append(f"Unreadable and not counted: {', '.join(one.name for one in comparison.unreadable)}.")
    return Table("summary", "All results", columns, rows, notes)


def returns(comparison: Comparison, scale: str) -> Table:
    """Return a table of one scale, with tasks and budgets as rows and methods as columns, as in the paper.

    The table is transposed if the methods do not fit on the page and outnumber the tasks.
    """
    settings = [setting for setting in comparison.settings if setting.scale == scale]
    columns = [c for c in comparison.columns if any((s, c) in comparison.cells for s in settings)]
    tasks = [f"{s.name} ({short(s.decisions)})" + (f", {s.detail}" if s.detail else "") for s in settings]
    methods = [c.label if c.fidelity in c.label else f"{c.label} ({c.fidelity} fidelity)" for c in columns]
    cells = [[comparison.cells.get((setting, column)) for column in columns] for setting in settings]
    means: list[list[Value]] = [[None if cell is None else cell.mean for cell in row] for row in cells]
    corner, names, heads = "task (decisions)", tasks, methods
    if len(methods) > max(_SIDE_BY_SIDE, len(tasks)):
        corner, names, heads = "method", methods, tasks
        means = [list(column) for column in zip(*means, strict=True)]
    rows = [[name, *row] for name, row in zip(names, means, strict=True)]
    notes = ["In parentheses: the budget of a task in decisions, and the fidelity of a method. n: finished seeds."]
    return Table(file_name(f"returns-{scale}"), f"Returns at {scale} scale", [corner, *heads], rows, notes)


def generalization(comparison: Comparison) -> Table | None:
    """Return the returns on backgrounds of `--evaluate-on` and the gap to the ordinary ones; None if there are none."""
    rows: list[list[Value]] = []
    for cell in comparison.rows:
        for background, scores in cell.elsewhere.items():
            gap = Mean.over([cell.scores[seed] - score for seed, score in scores.items()])
            names: list[Value] = [cell.setting.full_name, cell.column.label, background]
            rows.append([*names, cell.mean, Mean.over(list(scores.values())), gap])
    if not rows:
        return None
    columns = ["trained on", "method", "evaluated on", "return where trained", "return elsewhere", "gap"]
    notes = [
        "Gap: the return of the ordinary evaluation minus the return on the other background, seed by seed; mean ± one"
        " standard error. Both play the same start states. The other background shows no clip of the training."
    ]
    if any(has_bundled_clips(run.config) for cell in comparison.rows if cell.elsewhere for run in cell.runs):
        notes.append(
            "Clips of installed packages stand in for the videos of the literature, so these returns are not comparable"
            " with published ones; --videos takes a directory of videos."
        )
    return Table("generalization", "Generalization gap", columns, rows, notes)


def records(comparison: Comparison) -> list[dict[str, Any]]:
    """Return all cells as JSON objects. `runs` maps the directory name of each counted run to its score."""
    return [
        {
            "task": cell.setting.full_name,
            "method": cell.column.label,
            "seeds": cell.mean.n,
            "return": _rounded(cell.mean.mean),
            "standard error": _rounded(cell.mean.error),
            **({"success": cell.success.parts()} if cell.success else {}),
            **({"elsewhere": _elsewhere(cell)} if cell.elsewhere else {}),
            "decisions": cell.setting.decisions,
            "frames": cell.counted("frames"),
            "updates": cell.counted("updates"),
            "runs": {run.name: _rounded(run.score) for run in cell.finished},
            "not counted": cell.not_counted,
        }
        for cell in comparison.rows
    ]


def _elsewhere(cell: Cell) -> dict[str, dict[str, float | None]]:
    """Return the mean return and its standard error on each background of `--evaluate-on`."""
    means = {background: Mean.over(list(scores.values())) for background, scores in cell.elsewhere.items()}
    return {
        background: {"return": _rounded(mean.mean), "standard error": _rounded(mean.error)}
        for background, mean in means.items()
    }


def _unseen(comparison: Comparison) -> str:
    """Return the unseen part of evaluations, backgrounds or noise or both; "" if there are no such evaluations."""
    noise = {cell.setting.noise for cell in comparison.rows if cell.unseen_mean}
    return " or ".join(name for name, is_noise in (("backgrounds", False), ("noise", True)) if is_noise in noise)


def _iqm(cell: Cell, rng: np.random.Generator) -> Estimate | None:
    return estimate(iqm, [cell.array], rng=rng) if cell.scores else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def aggregates(comparison: Comparison, scale: str, rng: np.random.Generator) -> Table | None:
    """Return aggregates over the common tasks of all methods, normalized by the highest possible return.

    Returns None if there are no common tasks or the highest possible return of a task is unknown.
    """
    columns = scored_columns(comparison, scale)
    settings = common(comparison, scale, columns)
    rows: list[list[Value]] = []
    for column in columns if settings else []:
        scores = normalized(comparison, settings, column)
        if scores is None:
            return None
        found, gap = (estimate(statistic, scores, rng=rng, digits=3) for statistic in (iqm, optimality_gap))
        rows.append([column.label, len(scores), sum(len(task) for task in scores), found, gap])
    if not rows:
        return None
    tasks = ", ".join(setting.name for setting in settings)
    notes = [
        f"Over {tasks}, each at its own budget. Returns are divided by 1000, the highest return of a DMControl task."
        " Intervals: 95%, bootstrap of runs within each task; none if a task has a single run."
        " Optimality gap: mean distance of a run from 1; lower is better."
    ]
    heads = ["method", "tasks", "runs", "IQM", "optimality gap"]
    return Table(file_name(f"aggregates-{scale}"), f"All shared tasks together, {scale} scale", heads, rows, notes)


def improvement(comparison: Comparison, scale: str, rng: np.random.Generator) -> Table | None:
    """Return the probability that a run of one method beats a run of another, averaged over their common tasks."""
    rows: list[list[Value]] = []
    for x, y in pairs(scored_columns(comparison, scale)):
        settings = common(comparison, scale, [x, y])
        if not settings:
            continue
        a, b = ([comparison.cells[setting, column].array for setting in settings] for column in (x, y))
        repeated = any(len(task) > 1 for task in (*a, *b))
        found = estimate_improvement(a, b, rng=rng) if repeated else None
        runs = f"{sum(map(len, a))} and {sum(map(len, b))}"
        rows.append([f"{x.label} > {y.label}", ", ".join(s.name for s in settings), runs, found])
    if not rows:
        return None
    notes = [
        "Probability that a run of the first method scores higher than a run of the second; 0.5: neither is better."
        " Intervals: 95%, bootstrap of runs within each task. An interval that contains 0.5 is inconclusive."
        " Single runs have no probability. If a few"
        " seeds all agree, the interval is too narrow."
    ]
    columns = ["pair", "tasks", "runs", "probability"]
    return Table(file_name(f"improvement-{scale}"), f"Probability of improvement, {scale} scale", columns, rows, notes)


def differences(comparison: Comparison, scale: str) -> Table | None:
    """Return the differences paired by seed for each setting, and the number of seeds needed to detect them."""
    rows = []
    for x, y in pairs(scored_columns(comparison, scale)):
        for setting in comparison.settings:
            one, other = comparison.cells.get((setting, x)), comparison.cells.get((setting, y))
            if setting.scale == scale and one and other and (row := _difference(one, other)):
                rows.append(row)
    if not rows:
        return None
    notes = [
        "Methods with the same seed play the same evaluation episodes, so their returns are compared seed by seed."
        " Intervals: 95%, Student's t. Seeds needed: how many paired seeds a two-sided test at 5% needs to find the"
        " observed difference with probability 0.8. With few seeds, this is a rough estimate."
    ]
    columns = ["pair", "setting", "paired seeds", "difference in return", "seeds needed"]
    return Table(file_name(f"differences-{scale}"), f"Paired differences, {scale} scale", columns, rows, notes)


def _difference(one: Cell, other: Cell) -> list[Value] | None:
    seeds = sorted(one.scores.keys() & other.scores.keys())
    if not seeds:
        return None
    a, b = (np.array([cell.scores[seed] for seed in seeds]) for cell in (one, other))
    label = f"{one.column.label} minus {other.column.label}"
    return [label, one.setting.label, len(seeds), paired_difference(a, b), seeds_needed(a - b)]


@dataclass(frozen=True)
class _Quoted(Quantity):
    """Numbers from the paper. There are several if it reports more than one budget."""

    numbers: tuple[Published, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.numbers))

    def parts(self) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        for index, number in enumerate(self.numbers, start=1):
            which = f" {index}" if index > 1 else ""
            found |= {f"mean{which}": number.mean, f"error{which}": number.error}
        return found


def compared_table(comparison: Comparison, published: Sequence[Published]) -> Table | None:
    """Return a table of our returns and the paper's for all cells that the paper reports; None if there are none."""
    rows: list[list[Value]] = []
    for cell in comparison.rows:
        if found := matching(cell, published):
            words = zip(*((_same(cell, p), _budget(p), place(p.source)) for p in found), strict=True)
            names = [cell.setting.full_name, cell.column.label]
            rows.append([*names, cell.mean, _Quoted(tuple(found)), *("; ".join(texts) for texts in words)])
    if not rows:
        return None
    columns = ["task", "method", "return", "paper", "same budget and scale?", "paper's budget", "paper's source"]
    notes = ["Compare the two returns only if budget and scale are the same. ≈: read from a figure."]
    return Table("paper-comparison", "Compared with the paper", columns, rows, notes)


def place(source: str) -> str:
    """Replace the labels in `source` with table and figure numbers: "tab:dbc_det_comparison" becomes "Table 1"."""
    return re.sub(r"(?:fig|tab):[\w-]+", lambda found: _PLACES.get(found[0], found[0]), source)


def matching(cell: Cell, published: Sequence[Published]) -> list[Published]:
    """Return the paper's numbers for the task, background and method of a cell."""
    names = {cell.column.label, cell.column.method}
    rows = [p for p in published if p.quantity == "return" and p.task == cell.setting.task]
    # The paper uses videos or the task's own background, but no noise or plain colors.
    rows = [p for p in rows if p.method in names and (cell.setting.video if p.video else not cell.setting.background)]
    exact = [p for p in rows if p.method == cell.column.label]
    # Two tables of the paper may contain the same number.
    return list({(p.mean, p.error, p.decisions): p for p in reversed(exact or rows)}.values())[::-1]


def published_table(published: Sequence[Published]) -> Table:
    """Return a table of the paper's numbers."""
    rows: list[list[Value]] = []
    for row in published:
        task = row.task + (" (video)" if row.video else "")
        source = place(row.source + (f"; {row.note}" if row.note else ""))
        rows.append([task, row.method, row.quantity, _Quoted((row,)), _budget(row), row.seeds, source])
    columns = ["task", "method", "quantity", "value", "budget", "seeds", "source"]
    notes = ["≈: approximate, because it was read from a figure. Numbers that the paper does not report are omitted."]
    return Table("paper", "Numbers reported in the paper", columns, rows, notes)


def _budget(row: Published) -> str | None:
    if row.decisions is None:
        return f"{short(row.frames)} frames" if row.frames else "not stated" if row.quantity == "return" else None
    frames = f", {short(row.decisions * row.action_repeat)} frames" if row.action_repeat else ""
    return f"{short(row.decisions)} decisions{frames}, {short(row.decisions)} updates"


def _same(cell: Cell, row: Published) -> str:
    """Return "yes" if budget, action repeat, scale and method match the paper; otherwise "no" and the differences."""
    setting, column = cell.setting, cell.column
    words = [] if setting.scale == "paper" else [f"{setting.scale} scale here"]
    if row.decisions is None:
        words.append("the paper's budget is not stated")
    elif row.decisions != setting.decisions:
        words.append(f"{short(setting.decisions)} decisions here")
    if row.action_repeat not in (None, setting.action_repeat):
        words.append(f"action repeat {setting.action_repeat} here, {row.action_repeat} in the paper")
    if column.label not in (row.method, column.method, f"{column.method} ({column.fidelity})"):
        words.append("a variant of the method here")
    return f"no: {', '.join(words)}" if words else "yes"
