"""The state of an active run. It is saved to a checkpoint and restored bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pamd.agent import Agent
from pamd.envs import build_env
from pamd.errors import CheckpointError, ConfigError, ReplayError, ResourceError, RunError, TaskFailedError
from pamd.precision import has_bfloat16
from pamd.replay import Forecast, Replay, ReplayConfig, check_resources, forecast
from pamd.replay.layout import StorageName
from pamd.runs import Budget, RunDirectory
from pamd.runs.checkpoints import read_counters
from pamd.runs.identity import refuse_edits, tree_identity
from pamd.runs.logs import Logs
from pamd.schema import to_tree
from pamd.training import checkpoint
from pamd.training.config import TrainConfig
from pamd.training.mirrors import mirrors
from pamd.training.process import keep_freed_memory
from pamd.types import Batch


class Session:
    """The environment, replay, agent, logs and counters of one run."""

    def __init__(
        self, run: RunDirectory, config: TrainConfig, threads: int, storage: StorageName | None = None
    ) -> None:
        """`storage` is what storage `auto` of the config becomes in this session."""
        self.run, self.config, self.threads, self._storage = run, config, threads, storage
        self.device = device_of(config.runtime.device)
        self._upload = Upload(self.device)
        self.env = build_env(config.env, seed=config.seed)
        observation_shape = self.env.observation_space.shape or ()
        self._frame_shape = (observation_shape[0] // config.env.frame_stack, *observation_shape[1:])
        self._action_dim = int(self.env.action_space.shape[0])  # type: ignore[index]
        self._frame_dtype = str(self.env.observation_space.dtype)
        check_resources(self._replay_forecast(storage), run.replay)
        keep_freed_memory()
        try:
            self.agent = Agent(
                config.agent,
                observation_shape=observation_shape,
                action_dim=self._action_dim,
                seed=config.seed,
                device=self.device,
            )
        except (MemoryError, RuntimeError) as error:
            self.env.close()
            raise ResourceError(f"the networks cannot be built on this machine: {str(error).splitlines()[0]}") from None
        self.logs = Logs(run.path, mirrors(run.path, config.runtime))
        # For batches and for actions of the random phase.
        self.rng = np.random.default_rng([config.seed, 1])
        self.budget = Budget()
        self.seconds = 0.0
        """Wall time of training so far, across interruptions."""
        self.evaluated_at = -1
        self.last_return: float | None = None
        self.episode_return, self.episode_length = 0.0, 0
        self.metrics: dict[str, torch.Tensor | float] = {}
        """The newest value of each metric. Not every update computes all metrics."""
        self.warnings: list[str] = [notice] if (notice := self.env.unwrapped.notice) else []  # type: ignore[attr-defined]
        """Warnings that have not been shown yet."""
        self.warned: set[str] = set()
        self.versions: list[dict[str, Any]] = []
        """The versions of the software that trained the run, oldest first; [] before the first checkpoint."""
        self.replay: Replay
        self.obs: NDArray[Any]

    def begin(self) -> None:
        """Start a new run."""
        config = self.config
        size, margin = replay_plan(config, self._storage)
        self.logs.begin()
        self.replay = Replay.create(
            size,
            frame_shape=self._frame_shape,
            action_dim=self._action_dim,
            frame_stack=config.env.frame_stack,
            dtype=self._frame_dtype,
            margin=margin,
            directory=self.run.replay,
            overwrite=True,  # These files are from a run that was killed before its first checkpoint.
        )
        self.begin_episode()

    def storage_notice(self) -> str | None:
        """Return a sentence if storage `auto` became a file, because memory is short."""
        if self.config.replay.storage != "auto" or self.replay.layout.storage == "memory":
            return None
        size = self._replay_forecast("memory").bytes_memory
        return (
            f"the replay of {size / 1e9:.1f} GB does not fit into the free memory: its frames are in a memory-mapped"
            f" file in {self.run.replay} (--storage auto)"
        )

    def _replay_forecast(self, storage: StorageName | None) -> Forecast:
        size, margin = replay_plan(self.config, storage)
        return forecast(size, self._frame_shape, self._action_dim, margin, self._frame_dtype)

    def begin_episode(self) -> None:
        """Start the next episode and store its first frame."""
        self.obs, info = self.env.reset()
        self.replay.start(info["frame"])
        self.episode_return, self.episode_length = 0.0, 0

    def sample(self, rng: np.random.Generator) -> Batch:
        """Sample a batch on the learner's device."""
        learner, method = self.config.learner.options, self.config.method
        self._upload.wait()  # The replay writes every batch to the same memory.
        batch = self.replay.sample(
            learner.batch,
            rng,
            n_step=learner.n_step,
            gamma=learner.gamma,
            window=method.window,
            sequence=method.sequence,
        )
        return self._upload(batch)

    def save(self) -> None:
        """Write a checkpoint of the current state."""
        state = {
            "budget": self.budget._asdict(),
            "seconds": self.seconds,
            "evaluated_at": self.evaluated_at,
            "last_return": self.last_return,
            "episode": [self.episode_return, self.episode_length],
            "metrics": {name: float(value) for name, value in self.metrics.items()},
            "env": self.env.state(),
            "rng": self.rng.bit_generator.state,
            "logs": self.logs.state(),
            "replay": self.replay.sync(),
            "threads": self.threads,
            "bfloat16": has_bfloat16(self.device),
            "config": tree_identity(to_tree(self.config)),
            "versions": self.versions,
            "observation_shape": list(self.agent.observation_shape),
            "action_dim": self.agent.action_dim,
        }
        checkpoint.write(self.run.checkpoints, self.budget.decisions, self.agent.tensors(), state)

    def restore(self, saved: checkpoint.Checkpoint) -> None:
        """Restore the state of a checkpoint. Raises CheckpointError if it does not match this run."""
        check_config(self.config, saved)
        try:
            self._restore(saved)
        except (ReplayError, ResourceError, RunError, TaskFailedError):
            raise
        except Exception as error:
            # If a checkpoint cannot be used for any reason, the previous one is tried.
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise CheckpointError(f"checkpoint {saved.path.name} does not match this run: {reason}") from None

    def _restore(self, saved: checkpoint.Checkpoint) -> None:
        state, counters = saved.state, read_counters(saved.path, saved.state)
        self.agent.load(saved.tensors)
        self.budget, self.seconds, self.evaluated_at = counters.budget, counters.seconds, counters.evaluated_at
        self.last_return, self.metrics = counters.last_return, {**counters.metrics}
        self.episode_return, self.episode_length = counters.episode_return, counters.episode_length
        self.versions = [dict(entry) for entry in state.get("versions", [])]
        self.rng.bit_generator.state = state["rng"]
        self.logs.restore(state["logs"])
        self.replay = Replay.open(self.run.replay, state=state["replay"], storage=self._storage)
        obs = self.env.restore(state["env"])
        if obs is None:
            raise CheckpointError("it contains no running episode")
        self.obs = obs
        stored = self.replay.newest_frame
        differing = float(np.mean(obs[-len(stored) :] != stored))
        if differing:
            self.warnings.append(
                f"resume: {100 * differing:.2g}% of the restored observation differ from what was stored before the"
                " interruption: the environment is not deterministic, or it draws differently on this machine, so this"
                " run will not equal an uninterrupted one"
            )

    def close(self) -> None:
        self.env.close()


class Upload:
    """Copies batches to a device without waiting. Call `wait` before the memory of the last batch changes."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._done: torch.cuda.Event | None = None

    def __call__(self, batch: Batch) -> Batch:
        moved = batch.to(self._device, non_blocking=True)
        if self._device.type == "cuda":
            self._done = torch.cuda.Event()
            self._done.record()
        return moved

    def wait(self) -> None:
        """Wait until the last copy is finished. The following update may still be running on the device."""
        if self._done is not None:
            self._done.synchronize()
            self._done = None


def check_config(config: TrainConfig, saved: checkpoint.Checkpoint) -> None:
    """Raise RunError if config.json was edited after the checkpoint was written."""
    read_counters(saved.path, saved.state)
    refuse_edits(to_tree(config), saved.state, saved.path.name)


def replay_plan(config: TrainConfig, storage: StorageName | None = None) -> tuple[ReplayConfig, int]:
    """Return the replay config, limited to the run's need, and the margin on disk that keeps two checkpoints valid.

    `storage` replaces that of the config.
    """
    # A run of N decisions fills at most N slots plus one per episode. Episodes of at least ten decisions are assumed.
    needed = config.decisions + config.decisions // 10 + 1000
    capacity = ReplayConfig(min(config.replay.capacity, needed), storage or config.replay.storage)
    between = min(config.checkpoint_every, config.decisions)
    return capacity, 2 * (between + between // 10) + 256


def device_of(name: str) -> torch.device:
    """Return the device called `name`. Raises ConfigError if it cannot be used on this machine."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"runtime: device {name!r} cannot be used: {error}") from None
    return device
