"""The weights of an export: one safetensors file whose metadata states the config that they fit.

Links are followed here, unlike in a run directory: the cache of a model hub consists of links.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from pamd.config import check_whole
from pamd.errors import CheckpointError
from pamd.identity import identity_digest, tree_identity
from pamd.training.config import TrainConfig, parse_config
from pamd.types import Budget
from pamd.version import __version__

__all__ = ["WEIGHTS", "Exported", "is_export", "read_export", "weights_file"]

WEIGHTS = "model.safetensors"
"""The name that model hubs expect. A run directory has no such file."""


@dataclass(frozen=True)
class Exported:
    """What an export holds besides its model card."""

    config: TrainConfig
    weights: dict[str, Tensor]
    observation_shape: tuple[int, ...]
    action_dim: int
    budget: Budget
    """How long the agent was trained."""


def is_export(path: Path) -> bool:
    """Whether `path` was written by `pamd export`."""
    return (path / WEIGHTS).is_file()


def weights_file(
    weights: Mapping[str, Tensor],
    tree: Mapping[str, Any],
    *,
    observation_shape: tuple[int, ...],
    action_dim: int,
    budget: Budget,
) -> bytes:
    """The content of `WEIGHTS`; `tree` is the content of the export's config.json."""
    from safetensors.torch import save

    described = {
        "observation_shape": list(observation_shape),
        "action_dim": action_dim,
        "budget": budget._asdict(),
        "config": _digest(tree),
        "version": __version__,
    }
    contiguous = {name: value.detach().cpu().contiguous() for name, value in weights.items()}
    return save(contiguous, {"format": "pt", "pamd": json.dumps(described)})


def read_export(path: Path) -> Exported:
    """The export in `path`. CheckpointError if its files are damaged or do not belong together."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path / WEIGHTS, framework="pt") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  It is not a mapping.
    except (OSError, SafetensorError, ValueError, KeyError, RuntimeError, TypeError) as error:
        raise CheckpointError(f"{path / WEIGHTS} cannot be read: {error}") from None
    if "pamd" not in metadata:
        raise CheckpointError(f"{path / WEIGHTS} was not written by `pamd export`")
    try:
        tree = json.loads((path / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path / 'config.json'} cannot be read: {error}") from None
    config = parse_config(tree, str(path / "config.json"))
    try:
        described = json.loads(metadata["pamd"])
        shape, budget = tuple(described["observation_shape"]), Budget(**described["budget"])
        action_dim, digest = described["action_dim"], described["config"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CheckpointError(f"{path / WEIGHTS} is malformed: {type(error).__name__}: {error}") from None
    for number in (*shape, action_dim, *budget):
        check_whole(WEIGHTS, "every size and count", number, 0)
    if _digest(tree) != digest:
        raise CheckpointError(f"{path / 'config.json'} was edited after the export: the weights are of another config")
    return Exported(config, weights, shape, action_dim, budget)


def _digest(tree: Mapping[str, Any]) -> str:
    """The digest of the config as it is written, which a later version with more fields also finds."""
    try:
        return identity_digest(tree_identity(tree))
    except (KeyError, TypeError):  # a field was removed, and the parsed config has its default
        return ""
