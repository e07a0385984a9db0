"""What an experiment is: arms to train or a table to compute, at three scales. And the registry of experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pamd.errors import ConfigError, UnknownNameError
from pamd.experiments.claims import Claim
from pamd.registry import Registry
from pamd.table import Table

if TYPE_CHECKING:
    from pamd.training.config import TrainConfig

__all__ = ["EXPERIMENTS", "SCALES", "Arm", "Experiment", "Fidelity", "Labelled", "Setting", "add", "arms"]

Fidelity = Literal["paper", "released"]


@dataclass(frozen=True)
class Setting:
    """A scale of experiments: how long and how often."""

    seeds: int
    decisions: int | None
    """The budget of every run; None: the paper's budget for the task."""
    repetitions: int
    """Turns of a measurement."""
    what: str


SCALES = {
    "paper": Setting(5, None, 15, "the paper's networks and budgets, 5 seeds"),
    "cpu": Setting(3, 20_000, 7, "32x32, batch 64, 20,000 decisions, 3 seeds: hours on two cores"),
    "smoke": Setting(1, 80, 2, "80 decisions on 24x24, 1 seed: shows that everything runs, and nothing else"),
}


@dataclass(frozen=True)
class Arm:
    """One curve: a method on a task. Runs of it differ by their seed alone."""

    task: str
    method: str
    decisions: int
    """In the paper."""
    variant: str = ""
    """What `settings` change, in a few words. It becomes part of the run's method name."""
    settings: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """More arguments of `pamd.configure`."""
    scale: str | None = None
    """A scale of networks and a budget that it keeps at every scale of experiments except smoke."""
    released: Mapping[str, Any] = field(default_factory=dict)
    """What replaces some of `options` at fidelity `released`."""

    @property
    def label(self) -> str:
        return f"{self.method} ({self.variant})" if self.variant else self.method


class Labelled(NamedTuple):
    """A run of an experiment."""

    label: str
    config: TrainConfig


After = Callable[[str, Sequence[tuple[str, Path]]], Path]
"""(scale, [(label, run directory)]) -> the directory of its files: a diagnostic of finished runs."""


@dataclass(frozen=True)
class Experiment:
    """A table or figure: its runs or its computation, and what it shows."""

    name: str
    title: str
    shows: str
    arms: tuple[Arm, ...] = ()
    published: str | None = None
    """The name of the paper's own numbers; None if there are none."""
    benchmark: str | None = None
    """A benchmark whose table is the artefact (`pamd bench NAME`)."""
    compute: Callable[[str], Table] | None = None
    """scale -> the table that is the artefact."""
    after: After | None = None
    seeds: int | None = None
    """How many seeds it has at every scale except smoke; None: as many as the scale."""
    claims: tuple[Claim, ...] = ()
    """The claims that its runs decide."""
    needs_replay: bool = False
    """`after` reads the replay of finished runs."""

    def __post_init__(self) -> None:
        kinds = [bool(self.arms), self.benchmark is not None, self.compute is not None]
        if sum(kinds) != 1:
            raise ConfigError(f"experiment {self.name!r} must have arms, a benchmark or a computation")
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
    ) -> list[Labelled]:
        """Its runs. All arms of the first seed come first, so that an unfinished sweep already compares them.

        `seeds` replaces the scale's own 0 .. n-1. `tasks` and `methods` keep the arms of these tasks and labels alone.
        `given` are arguments of `pamd.configure`; None leaves the default.
        """
        setting = SCALES.get(scale)
        if setting is None:
            raise UnknownNameError("scale of experiments", scale, SCALES)
        chosen = self.arms
        for kind, names, key in (("task", tasks, _task), ("method", methods, _label)):
            for name in names:
                if name not in map(key, self.arms):
                    raise UnknownNameError(f"{kind} of {self.name}", name, set(map(key, self.arms)))
            chosen = tuple(arm for arm in chosen if not names or key(arm) in names)
        try:
            return [
                Labelled(arm.label, _configure(arm, scale, setting, fidelity=fidelity, seed=seed, **given))
                for seed in (seeds or range(setting.seeds if scale == "smoke" else self.seeds or setting.seeds))
                for arm in chosen
            ]
        except ConfigError as error:
            raise ConfigError(f"experiment {self.name!r} cannot be built here: {error}") from None


def arms(budgets: Mapping[str, int], *methods: str, **fields: Any) -> tuple[Arm, ...]:
    """Every method on every task of `budgets` (task: the paper's decisions)."""
    return tuple(Arm(task, method, decisions, **fields) for task, decisions in budgets.items() for method in methods)


def _task(arm: Arm) -> str:
    return arm.task


def _label(arm: Arm) -> str:
    return arm.label


def _configure(arm: Arm, scale: str, setting: Setting, **given: Any) -> TrainConfig:
    from pamd.configuration import configure

    named = (f"method.name={arm.label}",) if arm.variant else ()
    fixed = arm.scale is not None and scale != "smoke"
    own = {"decisions": arm.decisions if fixed else setting.decisions or arm.decisions, **arm.options}
    if given["fidelity"] == "released":
        own |= arm.released
    words = {**own, **{key: value for key, value in given.items() if value is not None}}
    own_scale = arm.scale if fixed else scale
    return configure(arm.task, arm.method, scale=own_scale, settings=(*arm.settings, *named), **words)


EXPERIMENTS: Registry[Experiment] = Registry("experiment", "pamd.experiments")


def add(experiment: Experiment) -> Experiment:
    """Register an experiment under its name."""
    return EXPERIMENTS.register(experiment.name)(experiment)
