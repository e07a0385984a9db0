"""The runs of the study as data: stages, arms, tasks, seeds. plan.md explains them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pamd.configuration import configure
from pamd.experiments import Labeled

__all__ = [
    "ARMS",
    "COUNTS",
    "HERE",
    "PRIMARY",
    "SEARCHED",
    "STAGES",
    "TASKS",
    "WEIGHTS",
    "Arm",
    "own_weight",
    "runs",
]

HERE = Path(__file__).parent
WEIGHTS = HERE / "weights.json"
"""The weight of the metric loss of each comparator, chosen by the stage `search`."""

TASKS = {"cartpole_swingup": 8, "finger_spin": 8, "walker_stand": 8, "cheetah_run": 4}
"""The tasks of the tests, with their action repeats."""
SEARCH_TASKS = {"cartpole_balance": 8, "walker_walk": 8}
"""The tasks of the search for weights. No test uses them."""
PIXEL_TASKS = ("cartpole_swingup", "walker_walk")
"""The tasks from pixels. walker_walk also runs with color videos."""

DECISIONS, SEARCH_DECISIONS, PIXEL_DECISIONS = 24_000, 12_000, 20_000
FACTORS = (0.01, 0.1, 1.0, 10.0)
"""The searched weights, relative to the method's own."""
SEARCH_SEEDS = (900, 901)
_SMALL = (
    "encoder.hidden=128",
    "learner.hidden=128",
    "learner.layer_norm=true",
    "learner.updates_per_decision=0.33",
    "evaluate_every=4000",
    "evaluate_episodes=5",
    "checkpoint_every=12000",
)


@dataclass(frozen=True)
class Arm:
    """A method in one condition. The same seed of two arms starts from the same random numbers."""

    name: str
    """The label of its runs."""
    method: str
    comparator: str | None = None
    """The name under which `weights.json` has its weight; None keeps the method's own."""
    settings: tuple[str, ...] = ()
    fidelity: str = "paper"
    noise: str = "gaussian"
    """The noise beside the state: 8 coordinates, or 32 that a random matrix mixes with the state ("projected")."""


_ONE_MODEL = "method.transition.members=1"
"""One latent model instead of SimSR's five, which would take three times as long as the rest of the update."""


def _dimension(d: int, method: str, comparator: str) -> Arm:
    return Arm(f"{comparator}, d = {d}", method, comparator, (f"method.latent_dim={d}",))


ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        # Q1: scale or geometry, d = 50.
        Arm("pamd", "dbc-det+pamd", "pamd"),
        Arm("l2-unit", "dbc-det+l2-unit", "l2-unit"),
        Arm("released", "dbc-det", "released", fidelity="released"),
        Arm("frozen", "dbc-det+pamd", "frozen", ("method.metric.distance.frozen=true",)),
        Arm("diagonal", "dbc-det+diagonal", "diagonal"),
        Arm("adaptive-diagonal", "dbc-det+adaptive-diagonal", "adaptive-diagonal"),
        Arm("l1", "dbc-det", "l1"),
        Arm("deepmdp", "deepmdp"),
        *(Arm(method, method, None, (_ONE_MODEL,)) for method in ("simsr", "simsr+pamd")),
        *(
            Arm(f"{method}, c_R = 1 - gamma", method, None, (_ONE_MODEL, "method.metric.operator.c_R=1-gamma"))
            for method in ("simsr", "simsr+pamd")
        ),
        # Added after two seeds of SimSR: is its lead the sphere, on which its latents lie?
        Arm("deepmdp, sphere", "deepmdp", settings=("method.latent_space=sphere",)),
        # Added after five seeds: is PAMD's lead in SimSR the Euclidean norm, which it becomes on the sphere?
        Arm("simsr+l2", "simsr+l2", None, (_ONE_MODEL,)),
        # Q2: small latents.
        *(
            _dimension(d, method, comparator)
            for d in (4, 8, 16)
            for method, comparator in (("dbc-det+pamd", "pamd"), ("dbc-det+l2-unit", "l2-unit"))
        ),
        # Q3: nuisance.
        Arm("pamd, projected noise", "dbc-det+pamd", "pamd", noise="projected"),
        Arm("l2-unit, projected noise", "dbc-det+l2-unit", "l2-unit", noise="projected"),
        Arm("deepmdp, projected noise", "deepmdp", noise="projected"),
    )
}
PRIMARY = (
    "pamd",
    "l2-unit",
    "released",
    "pamd, d = 8",
    "l2-unit, d = 8",
    "pamd, projected noise",
    "l2-unit, projected noise",
)
"""The arms of the primary tests: ten seeds. The others have five."""
SEARCHED = ("pamd", "l2-unit", "released", "frozen", "diagonal", "adaptive-diagonal", "l1")
"""The arms whose weight is searched."""
COUNTS = {"search": 112, "primary": 280, "exploration": 320, "pixels": 60}
"""The number of runs of each stage."""
STAGES = tuple(COUNTS)


def runs(stage: str) -> list[Labeled]:
    """Return the runs of a stage. All arms of a seed come before the next seed."""
    made = {"search": _search, "primary": _primary, "exploration": _exploration, "pixels": _pixels}[stage]
    return list(made())


def _on_states(arm: Arm, task: str, repeat: int, seed: int, decisions: int, weight: float | None, name: str) -> Labeled:
    wide = ("env.noise.coordinates=32", "env.noise.deviation=2") if arm.noise == "projected" else ()
    noise = wide or ("env.noise.coordinates=8", "env.noise.deviation=1")
    weights = () if weight is None else (f"method.metric.weight={weight!r}",)
    config = configure(
        f"state:{task}",
        arm.method,
        fidelity=arm.fidelity,
        scale="state",
        seed=seed,
        decisions=decisions,
        action_repeat=repeat,
        noise=arm.noise,
        settings=(*_SMALL, *noise, *arm.settings, *weights, f"method.name={name}"),
    )
    return Labeled(name, config)


def own_weight(arm: Arm) -> float:
    """Return the weight of the metric loss that the method itself has."""
    (weight,) = {
        term.options.weight
        for term in configure("toy", arm.method, fidelity=arm.fidelity).method.terms
        if term.name == "metric"
    }
    return float(weight)


def _search() -> Iterator[Labeled]:
    for seed in SEARCH_SEEDS:
        for name in SEARCHED:
            arm = ARMS[name]
            for factor in FACTORS:
                weight = factor * own_weight(arm)
                for task, repeat in SEARCH_TASKS.items():
                    label = f"{name}, weight {weight:g}"
                    yield _on_states(arm, task, repeat, seed, SEARCH_DECISIONS, weight, label)


def _trained(names: tuple[str, ...], seeds: range) -> Iterator[Labeled]:
    weights: dict[str, float] = json.loads(WEIGHTS.read_text())
    for seed in seeds:
        for name in names:
            arm = ARMS[name]
            weight = None if arm.comparator is None else weights[arm.comparator]
            for task, repeat in TASKS.items():
                yield _on_states(arm, task, repeat, seed, DECISIONS, weight, name)


def _primary() -> Iterator[Labeled]:
    return _trained(PRIMARY, range(10))


def _exploration() -> Iterator[Labeled]:
    return _trained(tuple(name for name in ARMS if name not in PRIMARY), range(5))


def _pixels() -> Iterator[Labeled]:
    weights: dict[str, float] = json.loads(WEIGHTS.read_text())
    for seed in range(5):
        for task, distractor in (*((task, None) for task in PIXEL_TASKS), ("walker_walk", "paper-video")):
            for name in ("deepmdp", "released", "l2-unit", "pamd"):
                arm = ARMS[name]
                weight = () if arm.comparator is None else (f"method.metric.weight={weights[arm.comparator]!r}",)
                config = configure(
                    task,
                    arm.method,
                    fidelity=arm.fidelity,
                    scale="cpu",
                    seed=seed,
                    decisions=PIXEL_DECISIONS,
                    distractor=distractor,
                    settings=(*arm.settings, *weight, f"method.name={name}", "evaluate_every=4000"),
                )
                yield Labeled(name, config)
