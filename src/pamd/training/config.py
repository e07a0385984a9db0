"""The config of a run."""

from __future__ import annotations

import copy
import dataclasses
import json
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pamd.agent import AgentConfig, EncoderPart, Schedule
from pamd.envs import (
    DistractorConfig,
    EnvConfig,
    elsewhere,
    least_shape,
    observes_states,
    prepare_env,
    refuse_import,
    resolve_env,
)
from pamd.errors import ConfigError
from pamd.learners import LearnerPart
from pamd.methods import Method
from pamd.precision import Precision
from pamd.replay import ReplayConfig
from pamd.runs import identity
from pamd.runs.directory import read_config_tree
from pamd.schema import Count, Index, build, record, to_tree
from pamd.settings import rename_old_keys
from pamd.version import __version__

if TYPE_CHECKING:
    from pamd.envs.distractors.split import Report

EvaluateUnit = Literal["decisions", "episodes"]


@record(what="runtime")
class Runtime:
    """Execution settings of a run. They do not affect results and are not part of the run name."""

    device: str = "auto"
    """cpu, cuda, or auto: CUDA if it is available"""
    threads: Count | None = None
    """CPU threads of torch (default: one for states and images of at most 48x48, otherwise all cores)"""
    memory: Count | None = None
    """bytes of memory that --storage auto may plan with (default: what is free)"""
    video: Literal["off", "last", "all"] = "last"
    """which evaluations are recorded as videos"""
    tensorboard: bool = True
    """write logs for TensorBoard"""
    wandb: str | None = None
    """Weights & Biases project to log to (default: none)"""
    label: str | None = None
    """name of a new run in tables and reports (default: the method and the parts of it that --set changed)"""


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
    """The type of the encoder's products in updates. bfloat16 is faster if the device has it, and slower if not."""
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
    evaluate_starts: Literal["same", "new"] = "same"
    """Whether all evaluations of a run have the same start states, or each has new ones, as in the released code."""
    evaluate_on: tuple[DistractorConfig, ...] = ()
    """Backgrounds of further evaluations, which training does not show. A row has their results under `elsewhere`."""
    act_before_update: bool = False
    """Whether to choose an action, update, then step, as in the released code. By default: choose, step, update."""
    checkpoint_every: Count = 10_000
    """The number of decisions between checkpoints."""
    log_every: Count = 500
    """The number of decisions between log rows."""
    runtime: Runtime = field(default_factory=Runtime)

    def __post_init__(self) -> None:
        object.__setattr__(self, "env", resolve_env(self.env))
        object.__setattr__(self, "method", self.method.resolved)
        _ = self.agent  # Building the AgentConfig checks its values.
        for background in self.evaluate_on:
            resolve_env(dataclasses.replace(self.env, distractor=background))
        names = [background.name for background in self.evaluate_on]
        if len(set(names)) < len(names):
            raise ConfigError(f"training: evaluate_on must name each background once, got {', '.join(names)}")
        self._check_observations()
        self._check_sizes()

    @property
    def agent(self) -> AgentConfig:
        """The config of the agent."""
        return AgentConfig(self.encoder, self.method, self.learner, self.schedule, self.isolate_metric, self.precision)

    @property
    def label(self) -> str:
        """The name in tables: that of `runtime`, or that of the method: "simsr+pamd", "sac", "drqv2:simsr+pamd"."""
        return self.runtime.label or identity.method_label(self.learner.name, self.method.name)

    def _check_observations(self) -> None:
        states, augmentation = observes_states(self.env.task), self.learner.options.augmentation.name
        self.encoder.cls.check(self.encoder.options, least_shape(self.env))
        if states and augmentation != "none":
            raise ConfigError(
                f"learner: augmentation {augmentation!r} requires images, but {self.env.task} observes states;"
                " set learner.augmentation.name=none"
            )

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
    # Backgrounds that already name their clips, as after a resume, keep them.
    others = tuple(
        background if background.train else elsewhere(env, distractor=background, report=report).distractor
        for background in config.evaluate_on
    )
    return dataclasses.replace(config, env=env, evaluate_on=tuple(filter(None, others)))


def run_name(config: TrainConfig) -> str:
    """Return the name task_method_seed_hash. It does not depend on the runtime or the budget."""
    return identity.run_name(to_tree(config))


def config_text(config: TrainConfig) -> str:
    """Return the text of config.json."""
    tree = {"layout": identity.LAYOUT, "pamd": __version__, **to_tree(config)}
    return json.dumps(tree, indent=2, sort_keys=True) + "\n"


def read_config(path: Path, runtime: Runtime | None = None, *, trust: bool = False) -> TrainConfig:
    """Read the config of a run, or one written by hand. `runtime` replaces its runtime settings.

    Raises TaskError if the task imports a module (`gym:module:ID`), unless `trust` is true.
    """
    config = parse_config(read_config_tree(path), str(path))
    if not trust:
        refuse_import(config.env, path)
    return config if runtime is None else dataclasses.replace(config, runtime=runtime)


def parse_config(tree: dict[str, Any], what: str) -> TrainConfig:
    """Parse a config from a JSON tree of the current layout. Option names of earlier versions are replaced."""
    options = copy.deepcopy({name: value for name, value in tree.items() if name not in ("layout", "pamd")})
    rename_old_keys(TrainConfig, options)
    return build(TrainConfig, options, what)
