"""Build a TrainConfig from names, for the command line and for Python.

A config is resolved in one pass: first the settings of the method and the learner, then the scale, then the given
options, then `--set`. It is validated once, at the end.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pamd import methods
from pamd.agent import EncoderPart, Schedule
from pamd.envs import (
    EnvConfig,
    NoiseConfig,
    Scene,
    default_frame_stack,
    named_distractor,
    named_noise,
    observes_states,
    scenes,
    shows_videos,
)
from pamd.envs.distractors import DistractorConfig
from pamd.errors import ConfigError, UnknownNameError
from pamd.learners import LEARNERS, AugmentationPart, LearnerPart
from pamd.methods import DEFAULT_METHOD, Fidelity
from pamd.methods.pipelines import STEP_OFFSET, Side
from pamd.precision import has_bfloat16
from pamd.replay import ReplayConfig
from pamd.replay.layout import StorageChoice
from pamd.scales import SCALES
from pamd.schema import Default, build, flatten, record, to_tree
from pamd.settings import apply_settings
from pamd.training.config import EvaluateUnit, Runtime, TrainConfig
from pamd.training.session import device_of

_RELEASED_SAC: dict[Side, dict[str, Any]] = {
    "dbc": {
        "first_updates": 1000,
        "burst_every_update": True,
        "log_prob": "released",
    },
    "independent": {
        "hidden": 1024,
        "schedule_offset": STEP_OFFSET,
        "log_prob": "released",
        "critic_tau": 0.01,
        "temperature_learning_rate": 1e-4,
        "temperature_beta1": 0.5,
    },
}
"""SAC options of the two released code bases that differ from the paper."""

_RELEASED_LOOP = {"evaluate_starts": "new", "act_before_update": True}
"""The training loop of both released code bases. Smaller scales keep ours."""

_RELEASED_DBC_EVALUATION = {"evaluate_every": 10, "evaluate_unit": "episodes", "evaluate_episodes": 20}
"""Evaluation settings of the released DBC code. The other code base uses the paper's. Smaller scales set their own."""


@record(what="a run")
class RunOptions:
    """The options of a run. An omitted option has the value of the scale, the method or the learner."""

    method: Annotated[str | None, Default(DEFAULT_METHOD)] = None
    """a name from `pamd list methods`; LEARNER:METHOD also names the learner"""
    learner: str | None = None
    """a name from `pamd list learners` (default: sac)"""
    fidelity: Fidelity | None = None
    """source to follow if the paper's text and the released code differ (default: paper)"""
    scale: str | None = None
    """sizes and budget; a name from `pamd list scales` (default: paper, or state for state: tasks)"""
    seed: int | None = None
    """seed of weights, environment, replay and exploration (default: 0)"""
    decisions: int | None = None
    """budget, e.g. 50000 or 5e4; a decision is action_repeat simulator frames (default: the scale's)"""
    schedule: Schedule | None = None
    """sequential: one optimizer step per loss; joint: one backward pass for all losses (default: the scale's)"""
    isolate_metric: bool = False
    """train a second encoder with the metric loss only; the agent itself learns without the metric"""
    gamma: float | None = None
    """discount factor of the learner and of the metric's operator (default: 0.99)"""
    precision: Literal["float32", "bfloat16", "auto"] | None = None
    """type of the encoder's products in updates; auto: bfloat16 for images if the device has it (default: float32)"""
    action_repeat: int | None = None
    """simulator frames per decision (default: the paper's; see `pamd list tasks`)"""
    time_limit: int | None = None
    """simulator frames per episode (default: the task's)"""
    camera: int | None = None
    """index of the model's camera (default: 0)"""
    render: Literal["standard", "fast"] | None = None
    """fast: no shadows, reflections or multisampling (default: the scale's)"""
    scene: Scene | None = None
    """colors of the floor and the sky (default: stock; released-dbc for dbc methods with --fidelity released)"""
    distractor: str | None = None
    """moving background; a name from `pamd list distractors` (default: none)"""
    videos: str | None = None
    """directory of videos or images for the distractor (default: videos of installed packages)"""
    noise: str | None = None
    """noise dimensions of a state: task; a name from `pamd list noises` (default: none)"""
    capacity: int | None = None
    """number of most recent frames that can be sampled from the replay (default: 1000000)"""
    storage: StorageChoice | None = None
    """where the replay stores its frames; mmap uses disk; auto: memory if it fits, else mmap (default: auto)"""
    evaluate_every: int | None = None
    """decisions, or episodes (--evaluate-unit), between evaluations (default: the scale's)"""
    evaluate_unit: EvaluateUnit | None = None
    """unit of --evaluate-every (default: decisions)"""
    evaluate_episodes: int | None = None
    """episodes per evaluation (default: the scale's)"""
    evaluate_on: tuple[str, ...] = ()
    """backgrounds of further evaluations; names from `pamd list distractors`, with the videos of --videos"""
    checkpoint_every: int | None = None
    """decisions between checkpoints (default: the scale's)"""
    log_every: int | None = None
    """decisions between log rows (default: the scale's)"""

    @property
    def given(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if getattr(self, f.name) != f.default}


_SECTIONS = {
    **dict.fromkeys(("action_repeat", "time_limit", "camera", "render", "scene"), "env"),
    **dict.fromkeys(("capacity", "storage"), "replay"),
}
_BY_OPTION = {
    "learner": "learner",
    "learner.name": "learner",
    "method": "method",
    "scale": "scale",
    "method.fidelity": "fidelity",
}
_NAMES = ("method", "learner", "fidelity", "scale", "gamma", "distractor", "videos", "noise", "evaluate_on")


def configure(
    task: str,
    method: str | None = None,
    *,
    settings: Sequence[str] = (),
    distractor: str | DistractorConfig | None = None,
    noise: str | NoiseConfig | None = None,
    runtime: Runtime | None = None,
    **options: Any,
) -> TrainConfig:
    """Build the config of a run from names.

    `options` are the fields of `RunOptions`: learner, fidelity, scale, seed, decisions, ... None means not given.
    `settings` change any other field: "method.metric.pairing=all", "learner.batch=256".
    """
    if isinstance(method, methods.Method):
        raise ConfigError("a run: method must be text, got a Method; pass its name, and changes as settings")
    if isinstance(options.get("videos"), Path):
        options["videos"] = str(options["videos"])
    given = RunOptions(method=method, **options).given
    EnvConfig(task)  # Reject a task that is not a name before it is looked up.
    tree = _base(task, given)
    _merge(tree, _scale(given.get("scale", "state" if observes_states(task) else "paper")))
    if observes_states(task):
        tree["env"]["antialias"] = 1
        tree["learner"]["options"]["augmentation"] = to_tree(AugmentationPart("none"))
    if tree["scale"] == "paper" and tree["method"]["fidelity"] == "released":
        dbc = methods.side(tree["method"]["name"]) == "dbc"
        _merge(tree, {**_RELEASED_LOOP, **(_RELEASED_DBC_EVALUATION if dbc else {})})
    _set_evaluation_unit(tree, given)
    for key, value in given.items():
        if key not in _NAMES:
            (tree[_SECTIONS[key]] if key in _SECTIONS else tree)[key] = value
    if "gamma" in given:
        tree["learner"]["options"]["gamma"] = given["gamma"]
    others, videos = given.get("evaluate_on", ()), given.get("videos")
    # Colors and noise show no videos.
    tree["evaluate_on"] = [to_tree(named_distractor(name, videos if shows_videos(name) else None)) for name in others]
    background = named_distractor(distractor, None if distractor is None and others else videos)
    tree["env"]["distractor"] = None if background is None else to_tree(background)
    beside = named_noise(noise)
    tree["env"]["noise"] = None if beside is None else to_tree(beside)
    runtime = runtime or Runtime()
    tree["runtime"] = to_tree(runtime)
    if tree["precision"] == "auto":
        # Resolved here, so that a run records what it uses. Products of states are too small for bfloat16 to gain.
        fast = not observes_states(task) and has_bfloat16(device_of(runtime.device))
        tree["precision"] = "bfloat16" if fast else "float32"
    for key in (setting.partition("=")[0] for setting in settings):
        if key in _BY_OPTION:
            raise ConfigError(f"--set {key} would change only the name; use --{_BY_OPTION[key]}")
    apply_settings(TrainConfig, tree, settings)
    return name_changes(build(TrainConfig, tree, "the config"))


def name_changes(config: TrainConfig) -> TrainConfig:
    """Label a config whose method does not have the parts of its name: "dbc-det (distance=l2)".

    The name itself stays, because it is part of the run's identity.
    """
    changes = [] if config.runtime.label else _changed_parts(config.method)
    if not changes:
        return config
    label = f"{config.label} ({', '.join(changes)})"
    return dataclasses.replace(config, runtime=dataclasses.replace(config.runtime, label=label))


def _changed_parts(method: methods.Method) -> list[str]:
    """Return the terms and parts that differ from those of the method with this name; [] if the name is its own."""
    if method.name.partition("+")[0] not in methods.PIPELINES:
        return []
    try:
        named = methods.method(method.name, method.fidelity)
    except UnknownNameError:
        return []
    before, after = ({part.name: part for part in one.terms} for one in (named, method))
    parts, named_parts = (flatten(to_tree(one)) for one in (method, named))
    return [
        *(f"with {name}" for name in after if name not in before),
        *(f"without {name}" for name in before if name not in after),
        *(
            f"{key.split('.')[-2]}={value}"
            for key, value in parts.items()
            if key.endswith(".name") and key in named_parts and named_parts[key] != value
        ),
    ]


def split_name(name: str, learner: str | None = None) -> tuple[str, str]:
    """Split "simsr+pamd", "sac", "drqv2" or "drqv2:simsr+pamd" into (learner, method)."""
    first, colon, rest = name.partition(":")
    if not colon and first not in LEARNERS.names():
        if first.partition("+")[0] not in methods.PIPELINES:
            raise methods.unknown_method(name, LEARNERS.names())
        return learner or "sac", name
    if learner is not None and learner != first:
        raise ConfigError(f"method {name!r} names learner {first!r}; it cannot be combined with learner {learner!r}")
    LEARNERS.get(first)
    return first, rest or "none"


def _base(task: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the tree that the names determine, before the scale is applied."""
    fidelity = given.get("fidelity", "paper")
    learner, name = split_name(given.get("method", DEFAULT_METHOD), given.get("learner"))
    method = methods.agent_method(name, fidelity).adapted(gamma=given.get("gamma"))
    if name == "none":
        method = dataclasses.replace(method, latent_space=LEARNERS.get(learner).latent_space)
    options = _RELEASED_SAC[methods.side(name)] if learner == "sac" and fidelity == "released" else {}
    tree = {
        "env": to_tree(EnvConfig(task, frame_stack=default_frame_stack(task), scene=_scene(task, name, fidelity))),
        "encoder": to_tree(EncoderPart("mlp" if observes_states(task) else "conv")),
        "method": to_tree(method),
        "learner": to_tree(LearnerPart(learner, options)),
        "replay": to_tree(ReplayConfig()),
    }
    plain = {f.name: f.default for f in dataclasses.fields(TrainConfig) if f.default is not dataclasses.MISSING}
    return {**plain, **tree}


def _scene(task: str, method: str, fidelity: Fidelity) -> Scene:
    """Return the scene. The released DBC code has its own scenes, which are used if the task supports them."""
    has_scene = "released-dbc" in scenes(task)
    return "released-dbc" if has_scene and fidelity == "released" and methods.side(method) == "dbc" else "stock"


def _set_evaluation_unit(tree: dict[str, Any], given: dict[str, Any]) -> None:
    """Use decisions as the unit of a given `evaluate_every`, unless the unit is also given."""
    if "evaluate_every" in given:
        tree["evaluate_unit"] = "decisions"
    elif given.get("evaluate_unit", tree["evaluate_unit"]) != tree["evaluate_unit"]:
        raise ConfigError(f"evaluate_unit {given['evaluate_unit']!r} requires evaluate_every")


def _scale(name: str) -> dict[str, Any]:
    if name not in SCALES:
        raise UnknownNameError("scale", name, SCALES)
    return {"scale": name, **copy.deepcopy(SCALES[name])}  # settings change the tree in place


def _merge(tree: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if key in ("encoder", "learner"):
            tree[key]["options"].update({**value.get("any", {}), **value.get(tree[key]["name"], {})})
        elif key == "action_repeat":
            tree["env"][key] = value.get(tree["env"]["task"])
        elif isinstance(value, dict):
            _merge(tree[key], value)
        else:
            tree[key] = value
