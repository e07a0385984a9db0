"""The weights of an export: one safetensors file with the digest of its config in the metadata.

Unlike in a run directory, links are followed, because the cache of a model hub consists of links.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from pamd.errors import CheckpointError
from pamd.runs import Budget
from pamd.runs.directory import WEIGHTS
from pamd.runs.identity import check_layout, identity_digest, tree_identity
from pamd.schema import Index, check_values
from pamd.training.checkpoint import encode
from pamd.training.config import TrainConfig, parse_config
from pamd.version import __version__

__all__ = ["Exported", "read_export", "weights_file"]


@dataclass(frozen=True)
class Exported:
    """The content of an export without the model card."""

    config: TrainConfig
    weights: dict[str, Tensor]
    observation_shape: tuple[int, ...]
    action_dim: int
    budget: Budget
    """How long the agent was trained."""


def weights_file(
    weights: Mapping[str, Tensor],
    tree: Mapping[str, Any],
    *,
    observation_shape: tuple[int, ...],
    action_dim: int,
    budget: Budget,
) -> bytes:
    """Return the content of `WEIGHTS`. `tree` is the content of the export's config.json."""
    described = {
        "observation_shape": list(observation_shape),
        "action_dim": action_dim,
        "budget": budget._asdict(),
        "config": _digest(tree),
        "version": __version__,
    }
    return encode(weights, {"format": "pt", "pamd": json.dumps(described)})


def read_export(path: Path) -> Exported:
    """Read the export in `path`. Raises CheckpointError if its files are damaged or do not belong together."""
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
        tree = json.loads((path / "config.json").read_bytes())
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
    if _digest(tree) != digest:
        raise CheckpointError(
            f"{path / 'config.json'} was edited after the export: the weights belong to another config"
        )
    return Exported(config, weights, shape, action_dim, budget)


def _digest(tree: Mapping[str, Any]) -> str:
    """Return the digest of the config as written. It stays valid if a later version adds fields."""
    try:
        return identity_digest(tree_identity(tree))
    except (KeyError, TypeError):  # A field was removed from the file, and the parsed config has its default.
        return ""
