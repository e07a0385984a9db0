"""From the words of the command line to a TrainConfig."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal

from pamd.agent.method import Scale
from pamd.config import from_json, to_json
from pamd.envs import EnvConfig
from pamd.errors import ConfigError, UnknownNameError
from pamd.methods import method, scale
from pamd.replay import ReplayConfig
from pamd.train.config import TrainConfig

__all__ = ["assemble", "override"]

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


def assemble(
    task: str,
    method_name: str,
    *,
    fidelity: Literal["paper", "released"] = "paper",
    scale_name: str = "paper",
    schedule: Literal["sequential", "joint"] | None = None,
    settings: tuple[str, ...] = (),
    **given: Any,
) -> TrainConfig:
    """A config from names; `given` holds the fields of TrainConfig that were said (None: not said)."""
    size: Scale = scale(scale_name)
    defaults = DEFAULTS.get(scale_name, DEFAULTS["paper"])
    made = method(method_name, fidelity)
    sac = made.sac
    if "random_decisions" in defaults:
        sac = dataclasses.replace(sac, random_decisions=defaults["random_decisions"], first_updates=1)
    made = dataclasses.replace(made, sac=sac, schedule=schedule or defaults.get("schedule", made.schedule))
    chosen = {**defaults, **{k: v for k, v in given.items() if v is not None}}
    env = EnvConfig(
        task,
        size=size.size,
        frame_stack=size.frame_stack,
        family=made.family,
        **{k: chosen[k] for k in ("action_repeat", "render", "camera", "time_limit") if k in chosen},
    )
    names = {f.name for f in dataclasses.fields(TrainConfig)}
    fields = {k: v for k, v in chosen.items() if k in names}
    if "capacity" in chosen or "storage" in chosen:
        fields["replay"] = ReplayConfig(**{k: chosen[k] for k in ("capacity", "storage") if k in chosen})
    config = TrainConfig(env=env, method=made, scale=size, **fields)
    return override(config, settings)


def override(config: TrainConfig, settings: tuple[str, ...]) -> TrainConfig:
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
            if not isinstance(branch.get(name), dict):
                raise UnknownNameError("option", ".".join(parents[: depth + 1]), branch)
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
    return from_json(TrainConfig, json.dumps(tree), "the config")
