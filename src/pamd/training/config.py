"""All that a run is, as data."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pamd.agent.agent import Precision
from pamd.agent.method import Method, Scale
from pamd.config import check_choice, check_positive, to_json
from pamd.envs import EnvConfig, prepare_env
from pamd.errors import ConfigError
from pamd.replay import ReplayConfig

if TYPE_CHECKING:
    from pamd.envs.distractors.split import Report

__all__ = ["Runtime", "TrainConfig", "prepare", "run_name"]


@dataclass(frozen=True)
class Runtime:
    """How a run is carried out; none of it changes what is computed, so none of it names the run."""

    device: str = "auto"
    """"auto" takes CUDA where it is there."""
    threads: int | None = None
    """CPU threads of torch; None: all cores."""
    video: Literal["off", "last", "all"] = "last"
    """Which evaluations are filmed."""
    tensorboard: bool = True
    wandb: str | None = None
    """A Weights & Biases project; None: off."""

    def __post_init__(self) -> None:
        check_choice("runtime", "video", self.video, ("off", "last", "all"))
        check_positive("runtime", threads=self.threads)


@dataclass(frozen=True)
class TrainConfig:
    """One run. Budgets are in decisions: one decision = one update = `action_repeat` simulator frames."""

    env: EnvConfig
    method: Method
    scale: Scale = field(default_factory=Scale)
    seed: int = 0
    decisions: int = 1_000_000
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    evaluate_every: int = 10_000
    evaluate_episodes: int = 10
    checkpoint_every: int = 10_000
    log_every: int = 500
    precision: Precision = "float32"
    """Of an update's forward passes. bfloat16 pays where the hardware computes in it: most GPUs, few CPUs."""
    runtime: Runtime = field(default_factory=Runtime)

    def __post_init__(self) -> None:
        check_positive(
            "training",
            decisions=self.decisions,
            evaluate_every=self.evaluate_every,
            evaluate_episodes=self.evaluate_episodes,
            checkpoint_every=self.checkpoint_every,
            log_every=self.log_every,
        )
        check_choice("training", "precision", self.precision, ("float32", "bfloat16"))
        if self.seed < 0:
            raise ConfigError(f"training: seed must be at least 0, got {self.seed}")
        for name in ("size", "frame_stack"):
            shown, read = getattr(self.env, name), getattr(self.scale, name)
            if shown != read:
                raise ConfigError(
                    f"training: env.{name} is {shown} but scale.{name} is {read};"
                    " the networks read what the environment shows, so they must agree"
                )
        batch, random = self.scale.batch, self.method.sac.random_decisions
        if self.decisions <= random:
            raise ConfigError(
                f"training: {self.decisions} decisions end within the {random} random ones, before anything is learned;"
                " raise decisions or lower method.sac.random_decisions"
            )
        if self.replay.capacity <= batch:
            raise ConfigError(f"training: replay.capacity {self.replay.capacity} must be above the batch of {batch}")
        if batch > random:
            raise ConfigError(
                f"training: a batch of {batch} cannot be drawn after {random} random decisions;"
                " raise method.sac.random_decisions or lower scale.batch"
            )


def prepare(config: TrainConfig, report: Report | None = None) -> TrainConfig:
    """`config` with the clips of its distractor chosen and named by content, so that its run means no others."""
    env = prepare_env(config.env, report)
    if env.distractor is not None and env.distractor.split != "train":
        raise ConfigError("training: env.distractor.split must be train; evaluation shows the unseen clips by itself")
    return dataclasses.replace(config, env=env)


def run_name(config: TrainConfig) -> str:
    """task_method_seed_hash: the same for the same computation, whatever its runtime."""
    science = dataclasses.replace(config, runtime=Runtime())
    if config.env.distractor is not None and config.env.distractor.train:
        # Clips are named by their content; where the files lie does not matter.
        distractor = dataclasses.replace(config.env.distractor, videos=None)
        science = dataclasses.replace(science, env=dataclasses.replace(config.env, distractor=distractor))
    digest = hashlib.sha256(to_json(science).encode()).hexdigest()[:8]
    where = config.env.task + (f"+{config.env.distractor.name}" if config.env.distractor else "")
    task, method = (re.sub(r"[^\w+.-]|\.\.", "-", name) for name in (where, config.method.name))
    return f"{task}_{method}_s{config.seed}_{digest}"
