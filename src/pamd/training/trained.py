"""Load a trained agent from a run directory or an export."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pamd import atomic_io
from pamd.agent import Agent
from pamd.distances import Distance
from pamd.envs import DistractorConfig, NoiseConfig, build_env, elsewhere, refuse_import
from pamd.errors import CheckpointError, ReplayError
from pamd.replay import Replay
from pamd.replay.files import Manifest
from pamd.representation import Representation
from pamd.runs import Budget, RunDirectory
from pamd.runs.directory import WEIGHTS, is_export
from pamd.runs.identity import check_layout, identity_digest, tree_identity
from pamd.schema import Index, check_values
from pamd.training import checkpoint
from pamd.training.config import TrainConfig, parse_config, read_config
from pamd.training.preflight import check_weights
from pamd.training.session import check_config

if TYPE_CHECKING:
    from pamd.envs.wrappers import Episodes


@dataclass(frozen=True)
class Trained:
    """A trained agent, loaded from the newest complete checkpoint of a run, with its config and distance."""

    path: Path
    """The run directory, or the export."""
    config: TrainConfig
    agent: Agent
    checkpoint: str
    """The name of the checkpoint, which is its number of decisions."""
    complaints: tuple[str, ...] = ()
    """The problems of newer checkpoints that could not be loaded."""
    trust: bool = False
    """Whether `make_env` may import the module that the config names (`gym:module:ID`)."""

    def act(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """Return the policy's actions, [A] for one observation [...] or [B, A] for a batch [B, ...]."""
        return self.agent.act(obs)

    @property
    def representation(self) -> Representation:
        """The representation that the agent acts on."""
        return self.agent.representation

    @property
    def measured(self) -> Representation:
        """The representation with the metric. It differs from `representation` only if the metric is isolated."""
        return self.agent.measured

    @property
    def distance(self) -> Distance[Any] | None:
        """The learned distance; None if the method has no metric."""
        return self.measured.distance

    def make_env(
        self,
        seed: int = 0,
        render_size: int | None = None,
        *,
        distractor: str | DistractorConfig | None = None,
        videos: str | Path | None = None,
        camera: int | None = None,
        noise: str | NoiseConfig | None = None,
    ) -> Episodes:
        """Make the environment that the agent was trained in, or one with another background, camera or noise.

        A background shows no clip that the agent was trained with.

        Raises TaskError if the task imports a module (`gym:module:ID`), unless the agent was loaded with `trust`.
        """
        if not self.trust:
            refuse_import(self.config.env, self.path / "config.json")
        env = elsewhere(self.config.env, distractor=distractor, videos=videos, camera=camera, noise=noise)
        return build_env(env, seed=seed, render_size=render_size)

    def replay(self) -> Replay:
        """Open the run's replay, read-only and memory-mapped."""
        if is_export(self.path):
            raise ReplayError(f"{self.path} is an export and has no replay; use the run directory")
        return Replay.open(self.path / "replay", read_only=True, storage="mmap")


def load(run: str | Path, *, trust: bool = False) -> Trained:
    """Load the trained agent of a run directory or of an export (`pamd export`).

    No environment is built, so neither the simulator nor the background videos are required. With `trust`, the agent's
    `make_env` may import the module that a task names (`gym:module:ID`).
    """
    if is_export(Path(run)):
        return _load_export(Path(run), trust)
    opened = RunDirectory.open(Path(run))
    newest, complaints = checkpoint.newest(opened.checkpoints)
    if newest is None:
        raise CheckpointError(" ".join([f"{run} has no complete checkpoint.", *complaints]))
    config = read_config(opened.config_file, trust=True)  # Nothing is imported here; `make_env` asks for trust.
    check_config(config, newest)
    try:
        weights = {name[5:]: tensor for name, tensor in newest.tensors.items() if name.startswith("nets.")}
        agent = _agent(config, weights, *_shapes(newest.state, opened))
        agent.load(newest.tensors)
    except Exception as error:  # Unexpected tensors can raise any error.
        first = f"{type(error).__name__}: {error}".splitlines()[0]
        name = newest.path.name
        raise CheckpointError(f"checkpoint {name} of {run} does not match the run's config: {first}") from None
    return Trained(opened.path, config, agent, newest.path.name, tuple(complaints), trust)


def _shapes(state: Mapping[str, Any], run: RunDirectory) -> tuple[Sequence[int], int]:
    """Return the shape of observations and the dimension of actions."""
    if "observation_shape" in state:
        return state["observation_shape"], state["action_dim"]
    layout = Manifest.load(run.replay).layout  # The first checkpoints of this layout did not contain them.
    channels, *rest = layout.frame_shape
    return (channels * layout.frame_stack, *rest), layout.action_dim


def _load_export(path: Path, trust: bool) -> Trained:
    exported = _read_export(path)
    try:
        agent = _agent(exported.config, exported.weights, exported.observation_shape, exported.action_dim)
        agent.load_weights(exported.weights)
    except Exception as error:  # Unexpected content can raise any error.
        first = f"{type(error).__name__}: {error}".splitlines()[0]
        raise CheckpointError(f"the weights in {path} do not fit its config: {first}") from None
    return Trained(path, exported.config, agent, f"{exported.budget.decisions:09d}", trust=trust)


def _agent(config: TrainConfig, weights: Mapping[str, Tensor], shape: Sequence[int], action_dim: int) -> Agent:
    """Build an agent for observations of `shape`, after a check that its networks are as large as `weights`."""
    check_values("the shapes", tuple[Index, ...], sizes=(*shape, action_dim))
    check_weights(config, weights, tuple(shape), action_dim)
    return Agent(config.agent, observation_shape=tuple(shape), action_dim=action_dim, seed=config.seed)


@dataclass(frozen=True)
class _Exported:
    """The content of an export without the model card."""

    config: TrainConfig
    weights: dict[str, Tensor]
    observation_shape: tuple[int, ...]
    action_dim: int
    budget: Budget
    """How long the agent was trained."""


def _read_export(path: Path) -> _Exported:
    """Read the export in `path`. Raises CheckpointError if its files are damaged or do not belong together.

    Unlike in a run directory, links are followed, because the cache of a model hub consists of links.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path / WEIGHTS, framework="pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  The file object is not a mapping.
    except (OSError, SafetensorError, ValueError, KeyError, RuntimeError, TypeError) as error:
        raise CheckpointError(f"{path / WEIGHTS} cannot be read: {error}") from None
    if "pamd" not in metadata:
        raise CheckpointError(f"{path / WEIGHTS} was not written by `pamd export`")
    try:
        tree = json.loads(atomic_io.read(path / "config.json", links=True))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path / 'config.json'} cannot be read: {error}") from None
    config = parse_config(check_layout(tree, str(path / "config.json")), str(path / "config.json"))
    try:
        described = json.loads(metadata["pamd"])
        shape, budget = tuple(described["observation_shape"]), Budget(**described["budget"])
        action_dim, digest = described["action_dim"], described["config"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CheckpointError(f"{path / WEIGHTS} is malformed: {type(error).__name__}: {error}") from None
    check_values(WEIGHTS, tuple[Index, ...], sizes=(*shape, action_dim, *budget))
    if identity_digest(tree_identity(tree)) != digest:
        raise CheckpointError(
            f"{path / 'config.json'} was edited after the export: the weights belong to another config"
        )
    return _Exported(config, weights, shape, action_dim, budget)
