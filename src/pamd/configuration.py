"""From names to a TrainConfig: what the command line and Python both start from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

from pamd import methods
from pamd.agent.method import Scale
from pamd.config import from_json, to_json
from pamd.envs import EnvConfig, named_distractor
from pamd.errors import ConfigError, UnknownNameError
from pamd.replay import ReplayConfig
from pamd.training.config import TrainConfig

__all__ = ["configure", "override"]

C = TypeVar("C")

# What a scale brings besides network sizes: budgets that fit it. A word on the command line wins.
DEFAULTS: dict[str, dict[str, Any]] = {
    "paper": {"render": "standard", "decisions": 1_000_000, "evaluate_every": 10_000, "evaluate_episodes": 10},
    "cpu": {
        "render": "fast",
        "schedule": "joint",
        "decisions": 50_000,
        "evaluate_every": 2_500,
        "evaluate_episodes": 5,
    },
    "smoke": {
        "render": "fast",
        "decisions": 200,
        "evaluate_every": 100,
        "evaluate_episodes": 1,
        "checkpoint_every": 50,
        "log_every": 10,
        "random_decisions": 50,
        "time_limit": 40,
    },
}


_ENV = ("action_repeat", "camera", "render", "time_limit", "distractor")
_REPLAY = ("capacity", "storage")


def configure(
    task: str,
    method: str = "simsr+pamd",
    *,
    fidelity: Literal["paper", "released"] = "paper",
    scale: str = "paper",
    schedule: Literal["sequential", "joint"] | None = None,
    isolate_metric: bool = False,
    settings: tuple[str, ...] = (),
    **given: Any,
) -> TrainConfig:
    """The config of a run, by names.

    `given` may hold fields of TrainConfig (seed, decisions, evaluate_every, ...), of its environment (action_repeat,
    render, ...) and of its replay (capacity, storage); None means not said. `distractor` may be a preset's name, then
    `videos` is its folder. `settings` reach every other field: "method.objective.pairing=all".
    """
    size: Scale = methods.scale(scale)
    defaults = DEFAULTS.get(scale, DEFAULTS["paper"])
    made = methods.method(method, fidelity)
    sac = made.sac
    if "random_decisions" in defaults:
        sac = dataclasses.replace(sac, random_decisions=defaults["random_decisions"], first_updates=1)
    order: Literal["sequential", "joint"] = schedule or defaults.get("schedule", made.schedule)
    made = dataclasses.replace(made, sac=sac, schedule=order, isolate_metric=isolate_metric)
    own = {f.name for f in dataclasses.fields(TrainConfig)} - {"env", "method", "scale", "replay"}
    given["distractor"] = named_distractor(given.get("distractor"), given.pop("videos", None))
    for key in given:
        if key not in own and key not in (*_ENV, *_REPLAY):
            raise UnknownNameError("option of a run", key, [*own, *_ENV, *_REPLAY, "videos"])
    chosen = {**defaults, **{k: v for k, v in given.items() if v is not None}}
    config = TrainConfig(
        env=EnvConfig(task, size=size.size, frame_stack=size.frame_stack, family=made.family, **_picked(chosen, _ENV)),
        method=made,
        scale=size,
        replay=ReplayConfig(**_picked(chosen, _REPLAY)),
        **_picked(chosen, own),
    )
    return override(config, settings)


def _picked(chosen: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: chosen[key] for key in keys if key in chosen}


def override(config: C, settings: tuple[str, ...]) -> C:
    """`method.objective.pairing=all` and the like: dotted keys of the config, JSON values (or plain words)."""
    if not settings:
        return config
    tree = json.loads(to_json(config))
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set takes KEY=VALUE, got {setting!r}")
        *parents, leaf = path.split(".")
        branch = tree
        for depth, name in enumerate(parents):
            here = ".".join(parents[: depth + 1])
            if name not in branch:
                raise UnknownNameError("option", here, [".".join([*parents[:depth], key]) for key in branch])
            if not isinstance(branch[name], dict):
                raise ConfigError(f"--set {path}: {here} is {branch[name]!r} here and has no fields")
            branch = branch[name]
        # Options of a distance or operator may be given that the record does not carry yet.
        if leaf not in branch and (not parents or parents[-1] != "options"):
            raise UnknownNameError("option", path, [".".join([*parents, key]) for key in branch])
        try:
            branch[leaf] = json.loads(text)
        except json.JSONDecodeError:
            branch[leaf] = text
        # One word for the image: the environment shows what the networks read.
        if path in ("scale.size", "scale.frame_stack"):
            tree["env"][leaf] = branch[leaf]
    return from_json(type(config), json.dumps(tree), "the config")
