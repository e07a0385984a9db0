"""The rows (settings) and columns (methods) of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pamd.errors import RunError
from pamd.report.differences import differing, make_labels
from pamd.report.run import Run, task_name
from pamd.runs.identity import tree_identity

__all__ = ["Column", "Setting", "columns_of", "settings_of", "short"]

_NOT_COLUMN = {
    "layout", "pamd", "env", "scale", "seed", "decisions", "replay", "runtime",
    "evaluate_every", "evaluate_unit", "evaluate_episodes", "checkpoint_every", "log_every",
}  # fmt: skip
"""Config keys that do not distinguish methods: setting, seed, version, runtime, evaluation, checkpoints and logging."""


@dataclass(frozen=True)
class Setting:
    """A row: a task with its environment settings, budget and scale."""

    label: str
    task: str
    decisions: int
    action_repeat: int
    """0 if unknown, which is possible for a run of the first layout that was never evaluated."""
    scale: str
    name: str
    """The task and its background or noise. A different background or noise is a different task."""
    background: str
    """The name of the background or the noise; "" for the task's own background without noise."""
    noise: bool
    """Whether noise is added to the states."""
    video: bool
    """Whether the background shows videos, as in the paper."""
    best: float | None
    """The highest possible return, 1000 for DMControl; None if unknown."""
    detail: str = ""
    """The difference from other settings with the same task, budget and scale."""

    @property
    def full_name(self) -> str:
        """The name and the differences from similar settings."""
        return f"{self.name} ({self.detail})" if self.detail else self.name

    @property
    def frames(self) -> int:
        return self.decisions * self.action_repeat


@dataclass(frozen=True)
class Column:
    """One method at one fidelity, with one learner and one set of options."""

    label: str
    method: str
    """The display name of the method."""
    fidelity: str


def settings_of(runs: Sequence[Run]) -> list[Setting]:
    """Return the setting of each run. Different settings have different labels."""
    facts = [_facts(run) for run in runs]
    tasks = [task_name(run.config) for run in runs]
    names = [
        f"{task}, {short(fact['decisions'])} decisions, {fact['scale']} scale"
        for task, fact in zip(tasks, facts, strict=True)
    ]
    labels = make_labels(names, facts)
    return [
        Setting(
            label=label,
            task=fact["env.task"],
            decisions=fact["decisions"],
            action_repeat=fact["env.action_repeat"],
            scale=fact["scale"],
            name=task,
            background=(fact.get("env.distractor") or fact.get("env.noise") or {}).get("name", ""),
            noise=not fact.get("env.distractor") and bool(fact.get("env.noise")),
            video=(fact.get("env.distractor") or {}).get("source") == "video",
            best=_best(fact),
            detail=label.removeprefix(name).strip(" ()"),
        )
        for task, name, label, fact in zip(tasks, names, labels, facts, strict=True)
    ]


def columns_of(runs: Sequence[Run], groups: Mapping[str, Sequence[Path]]) -> list[Column]:
    """Return the column of each run. `groups` maps column labels to run directories."""
    records = [
        {key: value for key, value in tree_identity(run.config).items() if key not in _NOT_COLUMN} for run in runs
    ]
    labels = _labels_by_hand(runs, records, groups)
    unnamed = [index for index, label in enumerate(labels) if label is None]
    names = _names_with_fidelity(runs)
    # A scale changes many options of a method. It is part of the setting, so labels do not list these options.
    for scale in dict.fromkeys(runs[index].config["scale"] for index in unnamed):
        same = [index for index in unnamed if runs[index].config["scale"] == scale]
        found = make_labels([names[index] for index in same], [records[index] for index in same])
        for index, label in zip(same, found, strict=True):
            labels[index] = label
    return [Column(str(label), run.curve.method, run.curve.fidelity) for label, run in zip(labels, runs, strict=True)]


def short(count: float) -> str:
    """Format 1000000 as 1M, 200000 as 200k and 1234 as 1,234."""
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if count >= unit and count % (unit / 100) == 0:
            return f"{count / unit:g}{name}"
    return f"{count:,.0f}"


def _facts(run: Run) -> dict[str, Any]:
    env = {f"env.{key}": value for key, value in run.config["env"].items() if value is not None}
    return {
        "env.scene": "stock",  # Earlier runs do not have this field.
        "env.antialias": 1,
        **env,
        "scale": run.config["scale"],
        "decisions": run.budget,
        "replay.capacity": (run.config.get("replay") or {}).get("capacity"),
    }


def _best(fact: Mapping[str, Any]) -> float | None:
    task = fact["env.task"].removeprefix("state:")
    suite = task != "toy" and ":" not in task
    return 1000.0 if suite and "env.time_limit" not in fact else None


def _labels_by_hand(
    runs: Sequence[Run], records: Sequence[Mapping[str, Any]], groups: Mapping[str, Sequence[Path]]
) -> list[str | None]:
    """Return the label of each run in `groups`. Raises RunError if a label would mix methods or scales."""
    named = {Path(path).resolve(): label for label, paths in groups.items() for path in paths}
    labels = [named.get(run.path.resolve()) for run in runs]
    for label in groups:
        inside = [index for index, own in enumerate(labels) if own == label]
        mixed = differing([{**records[index], "scale": runs[index].config["scale"]} for index in inside])
        if mixed:
            raise RunError(
                f"the column {label!r} would mix runs that differ in {', '.join(mixed)}:"
                f" {', '.join(runs[index].name for index in inside)}"
            )
    return labels


def _names_with_fidelity(runs: Sequence[Run]) -> list[str]:
    """Return the display name of each run, with the fidelity if runs with that name have several fidelities."""
    fidelities: dict[str, set[str]] = {}
    for run in runs:
        fidelities.setdefault(run.curve.method, set()).add(run.curve.fidelity)
    return [
        run.curve.method + (f" ({run.curve.fidelity})" if len(fidelities[run.curve.method]) > 1 else "") for run in runs
    ]
