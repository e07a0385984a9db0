"""Experiments and their registry. An experiment trains arms or computes a table at one of three scales."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pamd.errors import ConfigError, UnknownNameError
from pamd.registry import Registry
from pamd.table import Table

if TYPE_CHECKING:
    from pamd.training.config import TrainConfig

Fidelity = Literal["paper", "released"]


@dataclass(frozen=True)
class Setting:
    """A scale of experiments: budget, seeds and repetitions."""

    seeds: int
    decisions: int | None
    """The budget of every run; None uses the paper's budget for the task."""
    repetitions: int
    """The number of repetitions of a measured time."""
    what: str


SCALES = {
    "paper": Setting(5, None, 15, "the paper's networks and budgets, 5 seeds"),
    "cpu": Setting(3, 20_000, 7, "32x32, batch 64, 20,000 decisions, 3 seeds: hours on two cores"),
    "smoke": Setting(1, 80, 2, "80 decisions on 24x24, 1 seed: only checks that everything runs"),
}


@dataclass(frozen=True)
class Arm:
    """A method on a task, shown as one curve. Its runs differ only in their seed."""

    task: str
    method: str
    decisions: int
    """The budget in the paper."""
    variant: str = ""
    """A short description of `settings` or `options`, which becomes part of the run's method name."""
    settings: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """Additional arguments of `pamd.configure`."""
    scale: str | None = None
    """A fixed network scale. If set, it and `decisions` are used at all scales except smoke."""
    released: Mapping[str, Any] = field(default_factory=dict)
    """Options that override `options` at fidelity `released`."""

    @property
    def label(self) -> str:
        return f"{self.method} ({self.variant})" if self.variant else self.method


class Labeled(NamedTuple):
    """A run of an experiment and its label."""

    label: str
    config: TrainConfig


After = Callable[[str, Fidelity, Sequence[tuple[str, Path]]], Path]
"""A diagnostic of finished runs: (scale, fidelity, [(label, run directory)]) -> the directory of its files."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure, defined by its runs or its computation."""

    name: str
    title: str
    shows: str
    arms: tuple[Arm, ...] = ()
    published: str | None = None
    """The name of the paper's numbers; None if there are none."""
    compute: Callable[[str], Table] | None = None
    """A function that computes the table at a scale."""
    after: After | None = None
    seeds: int | None = None
    """The number of seeds at all scales except smoke; None uses the number of the scale."""
    needs_replay: bool = False
    """Whether `after` reads the replay of finished runs."""

    def __post_init__(self) -> None:
        if bool(self.arms) == (self.compute is not None):
            raise ConfigError(f"experiment {self.name!r} must have either arms or a computation")
        if len({(arm.task, arm.options.get("distractor"), arm.label) for arm in self.arms}) < len(self.arms):
            raise ConfigError(f"experiment {self.name!r} has two arms with the same name; give one a variant")

    def runs(
        self,
        scale: str = "paper",
        fidelity: Fidelity = "paper",
        seeds: Sequence[int] = (),
        tasks: Sequence[str] = (),
        methods: Sequence[str] = (),
        **given: Any,
    ) -> list[Labeled]:
        """Return the runs. All arms of the first seed come first, so that an unfinished sweep can already compare them.

        `seeds` replaces the default seeds 0 to n-1. `tasks` and `methods` select arms by task and label. `given` are
        arguments of `pamd.configure`; None keeps the default.
        """
        setting = SCALES.get(scale)
        if setting is None:
            raise UnknownNameError("scale of experiments", scale, SCALES)
        chosen = self.arms
        for kind, names, key in (("task", tasks, attrgetter("task")), ("method", methods, attrgetter("label"))):
            for name in names:
                if name not in map(key, self.arms):
                    raise UnknownNameError(f"{kind} of {self.name}", name, set(map(key, self.arms)))
            chosen = tuple(arm for arm in chosen if not names or key(arm) in names)
        try:
            return [
                Labeled(arm.label, _configure(arm, scale, setting, fidelity=fidelity, seed=seed, **given))
                for seed in (seeds or range(setting.seeds if scale == "smoke" else self.seeds or setting.seeds))
                for arm in chosen
            ]
        except ConfigError as error:
            raise ConfigError(f"experiment {self.name!r} cannot be built on this machine: {error}") from None


def arms(budgets: Mapping[str, int], *methods: str, **fields: Any) -> tuple[Arm, ...]:
    """Return an arm for every method on every task of `budgets` (task -> decisions in the paper)."""
    return tuple(Arm(task, method, decisions, **fields) for task, decisions in budgets.items() for method in methods)


def _configure(arm: Arm, scale: str, setting: Setting, **given: Any) -> TrainConfig:
    from pamd.configuration import configure

    named = (f"method.name={arm.label}",) if arm.variant else ()
    fixed = arm.scale is not None and scale != "smoke"
    options = {"decisions": arm.decisions if fixed else setting.decisions or arm.decisions, **arm.options}
    if given["fidelity"] == "released":
        options |= arm.released
    words = {**options, **{key: value for key, value in given.items() if value is not None}}
    own_scale = arm.scale if fixed else scale
    return configure(arm.task, arm.method, scale=own_scale, settings=(*arm.settings, *named), **words)


EXPERIMENTS: Registry[Experiment] = Registry("experiment", "pamd.experiments")


def add(experiment: Experiment) -> Experiment:
    """Register an experiment under its name."""
    return EXPERIMENTS.register(experiment.name)(experiment)
