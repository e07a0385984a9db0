"""The config of a run."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pamd import durable
from pamd.agent import AgentConfig, EncoderPart, Precision, Schedule
from pamd.envs import EnvConfig, least_shape, observes_states, prepare_env, resolve_env
from pamd.errors import ConfigError
from pamd.identity import identity_digest, tree_identity
from pamd.learners import LearnerPart
from pamd.methods import Method
from pamd.replay import ReplayConfig
from pamd.schema import Count, Index, build, record, to_tree
from pamd.version import __version__

if TYPE_CHECKING:
    from pamd.envs.distractors.split import Report

__all__ = ["EvaluateUnit", "Runtime", "TrainConfig", "config_text", "prepare", "read_config", "run_name"]

EvaluateUnit = Literal["decisions", "episodes"]

LAYOUT = 2
"""The version of the config.json layout. Other versions are rejected."""


@record(what="runtime")
class Runtime:
    """Execution settings of a run. They do not affect results and are not part of the run name."""

    device: str = "auto"
    """cpu, cuda, or auto: CUDA if it is available"""
    threads: Count | None = None
    """CPU threads of torch (default: one for states and images of at most 48x48, otherwise all cores)"""
    video: Literal["off", "last", "all"] = "last"
    """which evaluations are recorded as videos"""
    tensorboard: bool = True
    """write logs for TensorBoard"""
    wandb: str | None = None
    """Weights & Biases project to log to (default: none)"""


@record(what="training")
class TrainConfig:
    """The config of one run. Budgets are in decisions; a decision takes `env.action_repeat` simulator frames.

    It contains every setting of a run, including defaults.
    """

    env: EnvConfig
    encoder: EncoderPart
    method: Method
    learner: LearnerPart
    schedule: Schedule = "sequential"
    """Whether critic and representation are updated one after the other or in one backward pass."""
    isolate_metric: bool = False
    """Train a second encoder with the metric loss only. The agent itself learns without the metric."""
    precision: Precision = "float32"
    """The precision of forward passes in updates. bfloat16 is faster with hardware support: most GPUs, few CPUs."""
    scale: str = "paper"
    """The scale that the sizes were taken from."""
    seed: Index = 0
    """The seed of weights, environment, replay and exploration."""
    decisions: Count = 1_000_000
    """The budget. A run can be extended, so the budget is not part of the run's identity."""
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    evaluate_every: Count = 10_000
    """The number of decisions, or training episodes, between evaluations."""
    evaluate_unit: EvaluateUnit = "decisions"
    """The unit of `evaluate_every`."""
    evaluate_episodes: Count = 10
    """The number of episodes per evaluation."""
    checkpoint_every: Count = 10_000
    """The number of decisions between checkpoints."""
    log_every: Count = 500
    """The number of decisions between log rows."""
    runtime: Runtime = field(default_factory=Runtime)

    def __post_init__(self) -> None:
        object.__setattr__(self, "env", resolve_env(self.env))
        object.__setattr__(self, "method", self.method.resolved)
        _ = self.agent  # Building the AgentConfig checks its values.
        self._check_observations()
        self._check_sizes()

    @property
    def agent(self) -> AgentConfig:
        """The config of the agent."""
        return AgentConfig(self.encoder, self.method, self.learner, self.schedule, self.isolate_metric, self.precision)

    @property
    def label(self) -> str:
        """The name of the method in tables: "simsr+pamd", "sac", "drqv2:simsr+pamd"."""
        learner, method = self.learner.name, self.method.name
        if method == "none":
            return learner
        return method if learner == "sac" else f"{learner}:{method}"

    def _check_observations(self) -> None:
        states, augmentation = observes_states(self.env.task), self.learner.options.augmentation.name
        self.encoder.cls.check(self.encoder.options, least_shape(self.env))
        if states and augmentation != "none":
            raise ConfigError(
                f"learner: augmentation {augmentation!r} requires images, but {self.env.task} observes states;"
                " set learner.augmentation.name=none"
            )
        if states and self.replay.storage == "compressed":
            raise ConfigError("replay: storage 'compressed' requires images; use memory or mmap for states")

    def _check_sizes(self) -> None:
        learner = self.learner.options
        if self.decisions <= learner.random_decisions:
            raise ConfigError(
                f"training: decisions must exceed learner.random_decisions,"
                f" got {self.decisions} and {learner.random_decisions}"
            )
        if self.replay.capacity <= learner.batch:
            raise ConfigError(
                f"training: replay.capacity must exceed learner.batch, got {self.replay.capacity} and {learner.batch}"
            )
        if learner.batch > learner.random_decisions:
            raise ConfigError(
                f"training: learner.batch must not exceed learner.random_decisions, after which the first batch is"
                f" drawn, got {learner.batch} and {learner.random_decisions}"
            )


def prepare(config: TrainConfig, report: Report | None = None) -> TrainConfig:
    """Choose the videos of the distractor and store their digests in the config. A resume then uses the same videos."""
    env = prepare_env(config.env, report)
    if env.distractor is not None and env.distractor.split != "train":
        raise ConfigError("training: env.distractor.split must be train; evaluation shows the unseen videos by itself")
    return dataclasses.replace(config, env=env)


def run_name(config: TrainConfig) -> str:
    """Return the name task_method_seed_hash. It does not depend on the runtime or the budget."""
    digest = identity_digest(identity(config))
    added = config.env.distractor or config.env.noise
    task = config.env.task + (f"+{added.name}" if added else "")
    task, method = (re.sub(r"[^\w+.-]|\.\.", "-", name) for name in (task, config.label))
    return f"{task}_{method}_s{config.seed}_{digest}"


def identity(config: TrainConfig) -> dict[str, Any]:
    """Return the settings that determine the computation, as plain data."""
    return tree_identity(to_tree(config))


def config_text(config: TrainConfig) -> str:
    """Return the text of config.json."""
    tree = {"layout": LAYOUT, "pamd": __version__, **to_tree(config)}
    return json.dumps(tree, indent=2, sort_keys=True) + "\n"


def read_config(path: Path) -> TrainConfig:
    """Read the config of a run, or one written by hand."""
    try:
        tree = json.loads(durable.read(path))
    except OSError as error:
        raise ConfigError(f"cannot read the config file {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from None
    return parse_config(tree, str(path))


def parse_config(tree: Any, what: str) -> TrainConfig:
    """Parse a config from a JSON tree of the current layout."""
    if not isinstance(tree, dict):
        raise ConfigError(f"{what} must contain a JSON object, got {type(tree).__name__}")
    if tree.get("layout") != LAYOUT:
        layout, version = tree.get("layout", 1), tree.get("pamd", "0.1.0")
        raise ConfigError(
            f"{what} has config layout {layout!r}, written by pamd {version}; this version reads layout {LAYOUT}."
            " Train the run again, or read it with the version that wrote it"
        )
    return build(TrainConfig, {k: v for k, v in tree.items() if k not in ("layout", "pamd")}, what)
