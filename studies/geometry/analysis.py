"""Tables and figures of the study, from runs.parquet. `check.py` repeats the primary tests without this code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from pamd.report.figures import color, page_style, plain, save_figure
from pamd.report.run import Run, load_runs
from pamd.report.statistics import Estimate, Mean, Scores, Values, bootstrap, holm
from pamd.runs import files
from pamd.runs.logs import read_log
from pamd.table import Table, Value
from studies.geometry import mechanism, plan
from studies.geometry.plan import ARMS, HERE, PRIMARY, TASKS
from studies.geometry.search import last_return
from studies.output import publish_figure, write_tables

__all__ = ["RUNS", "Answer", "answers", "sign_flip", "write"]

RUNS = HERE / "runs.parquet"
FLIPS = RESAMPLES = 100_000
_SHOWN = {
    "pamd": "PAMD",
    "l2-unit": "fixed norm at its scale (l2-unit)",
    "released": "released DBC-Det",
    "deepmdp": "DeepMDP (no metric)",
}
SMALLEST = 0.1
"""The smallest gain in the normalized score that would matter. An interval below it means no."""

Verdict = Literal["yes", "no", "open"]
Returns = Mapping[tuple[str, str, int], float]
"""The final return of each run by arm, task and seed."""


@dataclass(frozen=True)
class Test:
    """A one-sided test: the mean of `better - worse` is above 0, or above the difference of the pair `minus`."""

    name: str
    better: str
    worse: str
    minus: tuple[str, str] | None = None


TESTS = (
    Test("PAMD > l2-unit at d = 50", "pamd", "l2-unit"),
    Test("PAMD > released DBC-Det at d = 50", "pamd", "released"),
    Test("PAMD - l2-unit is larger at d = 8 than at d = 50", "pamd, d = 8", "l2-unit, d = 8", ("pamd", "l2-unit")),
    Test("PAMD > l2-unit under projected noise", "pamd, projected noise", "l2-unit, projected noise"),
)
"""The primary tests of plan.md, in its order."""
CONTRASTS = (
    Test("PAMD - frozen head", "pamd", "frozen"),
    Test("PAMD - diagonal", "pamd", "diagonal"),
    Test("PAMD - adaptive diagonal", "pamd", "adaptive-diagonal"),
    Test("PAMD - the paper's l1", "pamd", "l1"),
    Test("PAMD - l2-unit at d = 4", "pamd, d = 4", "l2-unit, d = 4"),
    Test("PAMD - l2-unit at d = 16", "pamd, d = 16", "l2-unit, d = 16"),
    Test("SimSR+PAMD - SimSR, c_R = 1", "simsr+pamd", "simsr"),
    Test("SimSR+PAMD - SimSR, c_R = 1 - gamma", "simsr+pamd, c_R = 1 - gamma", "simsr, c_R = 1 - gamma"),
    Test("SimSR+PAMD - SimSR with l2, c_R = 1", "simsr+pamd", "simsr+l2"),
    Test("SimSR+PAMD, c_R = 1 - DeepMDP", "simsr+pamd", "deepmdp"),
    Test("DeepMDP - l2-unit at d = 50", "deepmdp", "l2-unit"),
    Test("DeepMDP on the sphere - DeepMDP", "deepmdp, sphere", "deepmdp"),
    Test("SimSR, c_R = 1 - gamma - DeepMDP on the sphere", "simsr, c_R = 1 - gamma", "deepmdp, sphere"),
    Test("DeepMDP - l2-unit under projected noise", "deepmdp, projected noise", "l2-unit, projected noise"),
)
"""The exploration: differences with intervals, without p-values and verdicts."""


@dataclass(frozen=True)
class Answer:
    """The result of a primary test."""

    test: Test
    pairs: int
    effect: Estimate
    """The mean difference of normalized scores over tasks, with its 95% bootstrap interval."""
    p_value: float
    corrected: float
    """The p-value after Holm's correction."""
    detectable: tuple[float, float]
    """The true difference that the design finds with probability 0.8: uncorrected, and at the strictest step."""

    @property
    def verdict(self) -> Verdict:
        """yes, no or open, as plan.md defines them."""
        if self.corrected < 0.05:
            return "yes"
        return "no" if self.effect.high is not None and self.effect.high < SMALLEST else "open"


def write(out: Path = HERE, *, runs: Sequence[Path] = (RUNS,), figures: bool = True) -> list[Table]:
    """Write out/tables/*.csv and out/figures/*.png, and return the tables."""
    loaded = [run for run in load_runs(runs) if run.finished]
    pixels = [run for run in loaded if _stage(run) == "pixels"]
    states = [run for run in loaded if _stage(run) in ("primary", "exploration")]
    primary = [run for run in states if _stage(run) == "primary"]
    returns = {_key(run): last_return(run.curve.returns) for run in loaded if run.scale == "state"}
    floors = random_play(primary)
    steps = mechanism.rows()
    # The tests are not shown before all of their runs are there: nobody can stop at a result that pleases.
    complete = len(primary) >= plan.COUNTS["primary"]
    results = answers(returns, floors) if complete else []
    explored = contrasts(returns, floors) if complete else {}
    tables = [_search_table(returns), _cost(loaded)]
    if complete:
        tables += [_primary_table(results), _task_table(returns, floors), _arm_table(returns, floors)]
        tables += [_contrast_table(explored), _pixel_table(pixels)]
    if steps:
        tables.append(_mechanism_table(steps))
    tables = [table for table in tables if table.rows]
    write_tables(tables, out / "tables")
    pictures: list[list[Path]] = []
    if figures and complete:
        pictures.append(_curve_figure(states, floors, out / "figures/curves"))
        pictures.append(_effect_figure(results, explored, out / "figures/effects"))
    if figures and pixels:
        pictures.append(_curve_figure(pixels, random_play(pixels), out / "figures/pixels"))
    if figures and steps:
        pictures.append(_mechanism_figure(steps, out / "figures/mechanism"))
    for written in pictures:
        publish_figure(written)
    return tables


def answers(returns: Returns, floors: Mapping[str, float]) -> list[Answer]:
    """Return the results of the primary tests. Seeds that an arm of a test does not have yet are left out of it."""
    ready = [(test, differences) for test in TESTS if (differences := _differences(test, returns, floors))]
    p_values = [sign_flip(differences, np.random.default_rng(0)) for _, differences in ready]
    made = []
    for (test, differences), p_value, corrected in zip(ready, p_values, holm(p_values), strict=True):
        pairs = sum(len(task) for task in differences)
        made.append(Answer(test, pairs, _effect(differences), p_value, corrected, _detectable(differences)))
    return made


def contrasts(returns: Returns, floors: Mapping[str, float]) -> dict[str, tuple[int, Estimate]]:
    """Return the number of pairs and the difference of each contrast of the exploration that has two seeds."""
    ready = {test.name: differences for test in CONTRASTS if (differences := _differences(test, returns, floors))}
    return {name: (sum(map(len, differences)), _effect(differences)) for name, differences in ready.items()}


def sign_flip(differences: Scores, rng: np.random.Generator) -> float:
    """Return the one-sided p-value of a permutation test that flips the sign of each difference: [tasks][seeds]."""
    observed = _mean_over_tasks(differences)
    flipped = [task * rng.choice((-1.0, 1.0), (FLIPS, len(task))) for task in differences]
    # A flip that equals the observed mean up to rounding counts, and so does the observed assignment itself.
    return float(1 + (_mean_over_tasks(flipped) >= observed - 1e-12).sum()) / (1 + FLIPS)


def random_play(runs: Sequence[Run]) -> dict[str, float]:
    """Return the mean return of random actions on each task: the episodes of all runs before their first update."""
    episodes: dict[str, list[float]] = {}
    for run in runs:
        rows = [row for row in read_log(run.path / "train.jsonl").rows if row["kind"] == "episode"]
        returns = [row["return"] for row in rows if row["updates"] == 0]
        episodes.setdefault(str(run.config["env"]["task"]), []).extend(returns)
    return {task: float(np.mean(returns)) for task, returns in episodes.items()}


def _key(run: Run) -> tuple[str, str, int]:
    return str(run.config["method"]["name"]), str(run.config["env"]["task"]), run.seed


def _mean_over_tasks(differences: Scores) -> Values:
    """Return the mean over tasks of the mean over seeds: [tasks][..., seeds] -> [...]."""
    return np.asarray(np.mean([task.mean(-1) for task in differences], axis=0))


def _condition(arm: str) -> str:
    """Return the condition of an arm: the noise and the size of the latents. Scores are relative to the condition."""
    return arm.partition(", ")[2] if arm.endswith("noise") or ", d = " in arm else ""


def _normalized(arm: str, task: str, seed: int, returns: Returns, floors: Mapping[str, float]) -> float:
    """Return the score of a run: 0 is random play, 1 is the largest mean over seeds of a primary arm of its condition.

    A condition without primary arms (d = 4 and 16) takes the largest mean of all of its arms.
    """
    arms = [other for other in ARMS if _condition(other) == _condition(arm)]
    arms = [other for other in arms if other in PRIMARY] or arms
    means = [float(np.mean(list(values.values()))) for other in arms if (values := _of(other, task, returns))]
    return (returns[arm, task, seed] - floors[task]) / (max(means) - floors[task])


def _differences(test: Test, returns: Returns, floors: Mapping[str, float]) -> list[Values]:
    """Return the paired differences of a test, [tasks][seeds]; [] unless every task has two seeds of every arm."""
    pairs = [(test.better, test.worse, 1.0)] + ([(*test.minus, -1.0)] if test.minus else [])
    arms = [arm for better, worse, _ in pairs for arm in (better, worse)]
    differences = []
    for task in (f"state:{name}" for name in TASKS):
        seeds = [seed for seed in range(10) if all((arm, task, seed) in returns for arm in arms)]
        if len(seeds) < 2:
            return []
        scores = {arm: np.array([_normalized(arm, task, seed, returns, floors) for seed in seeds]) for arm in arms}
        differences.append(np.sum([sign * (scores[x] - scores[y]) for x, y, sign in pairs], axis=0))
    return differences


def _effect(differences: Scores) -> Estimate:
    """Return the mean difference over tasks with its 95% bootstrap interval."""
    low, high = bootstrap(_mean_over_tasks, differences, rng=np.random.default_rng(0), times=RESAMPLES)
    return Estimate(float(_mean_over_tasks(differences)), float(low), float(high), digits=3)


def _detectable(differences: Scores) -> tuple[float, float]:
    """Return the difference that is found with probability 0.8 at levels 0.05 and 0.05 / 4, one-sided."""
    error = float(np.sqrt(np.sum([task.var(ddof=1) / len(task) for task in differences])) / len(differences))
    quantile = NormalDist().inv_cdf
    first, strictest = ((quantile(1 - level) + quantile(0.8)) * error for level in (0.05, 0.05 / len(TESTS)))
    return first, strictest


def _primary_table(results: Sequence[Answer]) -> Table:
    rows: list[list[Value]] = [
        [one.test.name, one.pairs, one.effect, one.p_value, one.corrected, one.verdict, *one.detectable]
        for one in results
    ]
    columns = ["test", "pairs", "difference", "p", "p (Holm)", "verdict", "detectable", "detectable (strictest)"]
    return Table("primary", "Primary tests, differences of normalized scores", columns, rows)


def _contrast_table(explored: Mapping[str, tuple[int, Estimate]]) -> Table:
    rows: list[list[Value]] = [[name, pairs, effect] for name, (pairs, effect) in explored.items()]
    return Table(
        "contrasts", "Exploration, differences of normalized scores", ["contrast", "pairs", "difference"], rows
    )


def _task_table(returns: Returns, floors: Mapping[str, float]) -> Table:
    """Return the mean paired difference of each primary test on each task, without verdicts."""
    rows: list[list[Value]] = []
    for test in TESTS:
        if differences := _differences(test, returns, floors):
            rows.append([test.name, *map(Mean.over, differences)])
    return Table("tasks", "Differences of normalized scores by task", ["test", *TASKS], rows)


def _arm_table(returns: Returns, floors: Mapping[str, float]) -> Table:
    """Return the final returns of every arm on every task, and its score."""
    rows: list[list[Value]] = []
    for arm in ARMS:
        per_task = {task: _of(arm, f"state:{task}", returns) for task in TASKS}
        if all(per_task.values()):
            scores = [
                float(np.mean([_normalized(arm, f"state:{task}", seed, returns, floors) for seed in by_seed]))
                for task, by_seed in per_task.items()
            ]
            means = [Mean.over(list(by_seed.values())) for by_seed in per_task.values()]
            seeds = min(map(len, per_task.values()))
            rows.append([arm, seeds, *means, f"{np.mean(scores):.3f}"])
    return Table("arms", "Final returns on states", ["arm", "seeds", *TASKS, "score"], rows)


def _of(arm: str, task: str, returns: Returns) -> dict[int, float]:
    return {seed: value for (other, where, seed), value in sorted(returns.items()) if (other, where) == (arm, task)}


def _search_table(returns: Returns) -> Table:
    """Return the final return of every searched weight on each task, over its seeds."""
    chosen: dict[str, float] = json.loads(plan.WEIGHTS.read_text()) if plan.WEIGHTS.exists() else {}
    cells: dict[tuple[str, float], dict[str, list[float]]] = {}
    for (arm, task, _), value in sorted(returns.items()):
        comparator, weighted, weight = arm.rpartition(", weight ")
        if weighted:
            cells.setdefault((comparator, float(weight)), {}).setdefault(task, []).append(value)
    rows: list[list[Value]] = [
        [name, weight, *(Mean.over(by_task.get(f"state:{task}", [])) for task in plan.SEARCH_TASKS),
         "chosen" if chosen.get(name) == weight else ""]
        for (name, weight), by_task in sorted(cells.items())
    ]  # fmt: skip
    return Table("search", "Search for the weight", ["comparator", "weight", *plan.SEARCH_TASKS, "choice"], rows)


def _pixel_table(runs: Sequence[Run]) -> Table:
    """Return the number of seeds and the final returns from pixels."""
    cells: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        cells.setdefault(run.curve.task, {}).setdefault(_key(run)[0], []).append(last_return(run.curve.returns))
    rows: list[list[Value]] = [
        [task, min(len(by_arm.get(arm, [])) for arm in _SHOWN), *(Mean.over(by_arm.get(arm, [])) for arm in _SHOWN)]
        for task, by_arm in cells.items()
    ]
    return Table("pixels", "Final returns from pixels", ["task", "seeds", *_SHOWN], rows)


def _cost(runs: Sequence[Run]) -> Table:
    """Return the finished and planned runs of each stage, and the hours that they took, one thread each."""
    seconds: dict[str, list[float]] = {stage: [] for stage in plan.STAGES}
    for run in runs:
        seconds[_stage(run)].append(float(json.loads(files.read(run.path, "status.json"))["seconds"]))
    rows: list[list[Value]] = [
        [stage, len(taken), plan.COUNTS[stage], f"{sum(taken) / 3600:.1f}"] for stage, taken in seconds.items()
    ]
    return Table("cost", "Runs and core-hours", ["stage", "runs", "planned", "hours"], rows)


def _stage(run: Run) -> str:
    arm = _key(run)[0]
    if run.scale == "cpu":
        return "pixels"
    if ", weight " in arm:
        return "search"
    return "primary" if arm in PRIMARY else "exploration"


_HUES = {"pamd": color("pamd"), "l2-unit": color("l2"), "released": color("dbc-det"), "deepmdp": color("simsr")}


@page_style()
def _curve_figure(runs: Sequence[Run], floors: Mapping[str, float], path: Path) -> list[Path]:
    """Draw the learning curves of the main arms on every task: a thin line per seed, a thick one for the mean."""
    from matplotlib import pyplot

    runs = [run for run in runs if _key(run)[0] in _SHOWN]
    tasks = list(dict.fromkeys(run.curve.task for run in runs))
    figure, panels = pyplot.subplots(1, len(tasks), figsize=(2.75 * len(tasks), 2.9), layout="constrained")
    for axes, task in zip(panels, tasks, strict=True):
        there = [run for run in runs if run.curve.task == task]
        for arm, hue in _HUES.items():
            curves = [run.curve for run in there if _key(run)[0] == arm]
            if not curves:
                continue
            lines = np.array([curve.means for curve in curves])
            axes.plot(curves[0].decisions, lines.T, color=hue, linewidth=0.6, alpha=0.35)
            axes.plot(curves[0].decisions, lines.mean(0), color=hue, linewidth=2.2, label=_SHOWN[arm])
        axes.axhline(floors[_key(there[0])[1]], color="#6e6e6e", linewidth=0.8, linestyle=":")
        axes.set_title(plain(task.removeprefix("state:").removesuffix(" + gaussian noise")))
    return _save_panels(figure, panels, "return", path)


def _save_panels(figure: Any, panels: Any, quantity: str, path: Path) -> list[Path]:
    """Save panels of curves over decisions, with one legend below them."""
    from matplotlib.ticker import EngFormatter

    for axes in panels:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.set_xlabel("decisions")
        axes.grid(alpha=0.25)
    panels[0].set_ylabel(quantity)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    return save_figure(figure, path)


@page_style()
def _effect_figure(results: Sequence[Answer], explored: Mapping[str, tuple[int, Estimate]], path: Path) -> list[Path]:
    """Draw the primary effects with their intervals and verdicts, and below them the exploration, which has none."""
    from matplotlib import pyplot

    hues = {"yes": "#0072B2", "no": "#D55E00", "open": "#6e6e6e"}
    rows = [(f"{one.test.name}: {one.verdict}", one.effect, hues[one.verdict], True) for one in results]
    rows += [(f"{name} ({pairs} pairs)", effect, "#999999", False) for name, (pairs, effect) in explored.items()]
    figure, axes = pyplot.subplots(figsize=(8.6, 0.32 * len(rows) + 1.2), layout="constrained")
    for row, (_, effect, hue, primary) in enumerate(rows):
        ends: Any = (effect.low, effect.high)
        axes.plot(ends, [row, row], color=hue, linewidth=2.5 if primary else 1.2, solid_capstyle="butt")
        axes.plot(effect.value, row, "o", color=hue, markerfacecolor=hue if primary else "white")
    axes.axvline(0, color="#333333", linewidth=0.8)
    axes.axvline(SMALLEST, color="#333333", linewidth=0.8, linestyle=":")
    axes.axhline(len(results) - 0.5, color="#cccccc", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [plain(label) for label, *_ in rows])
    axes.invert_yaxis()
    axes.set_xlabel(
        f"difference of normalized scores, 95% interval\n(dotted: {SMALLEST:g}, the smallest gain that matters)"
    )
    axes.grid(axis="x", alpha=0.25)
    return save_figure(figure, path)


def _mechanism_means(rows: Sequence[mechanism.Row], arm: str, decisions: int, field: str) -> Values:
    """Return a field of all runs of an arm at one time: the tasks and seeds of the arm, [R]."""
    return np.array([getattr(row, field) for row in rows if (row.arm, row.decisions) == (arm, decisions)])


def _mechanism_table(rows: Sequence[mechanism.Row]) -> Table:
    """Return the means of the measured fields over tasks and seeds."""
    fields = ("rank", "anisotropy", "variation", "top", "difference", "value", "state", "noise", "heard")
    keys = sorted({(mechanism.ARMS.index(row.arm), row.decisions) for row in rows})
    lines: list[list[Value]] = []
    for index, decisions in keys:
        arm = mechanism.ARMS[index]
        values = [_mechanism_means(rows, arm, decisions, field) for field in fields]
        lines.append([arm, decisions, len(values[0]), *(f"{value.mean():.3g}" for value in values)])
    return Table("mechanism", "The matrices of PAMD during training", ["arm", "decisions", "runs", *fields], lines)


_DIRECTIONS = {
    "difference": ("difference of the two latents", color("pamd")),
    "value": ("gradient of the value", "#E69F00"),
    "state": ("motion of the state", color("simsr")),
    "noise": ("motion of the noise", "#6e6e6e"),
}


@page_style()
def _mechanism_figure(rows: Sequence[mechanism.Row], path: Path) -> list[Path]:
    """Draw the weight that G gives to four kinds of directions during training: geometric means over runs."""
    from matplotlib import pyplot
    from matplotlib.ticker import StrMethodFormatter

    figure, panels = pyplot.subplots(
        1, len(mechanism.ARMS), figsize=(11, 2.9), layout="constrained", sharex=True, sharey=True
    )
    for axes, arm in zip(panels, mechanism.ARMS, strict=True):
        steps = sorted({row.decisions for row in rows if row.arm == arm})
        for field, (name, hue) in _DIRECTIONS.items():
            logs = [np.log(_mechanism_means(rows, arm, decisions, field)) for decisions in steps]
            for index in range(min(map(len, logs), default=0)):
                axes.plot(steps, [np.exp(values[index]) for values in logs], color=hue, linewidth=0.5, alpha=0.3)
            axes.plot(steps, [np.exp(values.mean()) for values in logs], color=hue, linewidth=2.2, label=name)
        axes.axhline(1, color="#333333", linewidth=0.8, linestyle=":")
        axes.set_yscale("log")
        axes.set_title(plain({"pamd": "PAMD, d = 50", "frozen": "frozen head"}.get(arm, arm.replace("pamd", "PAMD"))))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    return _save_panels(figure, panels, "weight in G (1: isotropic)", path)
