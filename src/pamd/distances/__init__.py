"""Latent distances by name. One small file each; a new file here is a new distance, with no other edit."""

from __future__ import annotations

from typing import Any

from pamd import config as _config
from pamd.distances.base import DISTANCES, Distance, Laws
from pamd.errors import ConfigError, UnknownNameError

__all__ = ["DISTANCES", "Distance", "Laws", "distance", "distance_config"]


def distance(name: str, *, latent_dim: int, preset: str | None = None, **options: Any) -> Distance[Any]:
    """The distance called `name` over latents with `latent_dim` coordinates, as an `nn.Module`.

    `preset` names a set of options of the distance (for `pamd`: "paper", "released-dbc", ...). `options` are the
    fields of its config. They override the preset.
    """
    config = distance_config(name, latent_dim=latent_dim, preset=preset, **options)
    return DISTANCES.get(name)(latent_dim, config)


def distance_config(name: str, *, latent_dim: int, preset: str | None = None, **options: Any) -> Any:
    """The config that `distance` with the same arguments would hold: checked and resolved, without a module."""
    cls = DISTANCES.get(name)
    if isinstance(latent_dim, bool) or not isinstance(latent_dim, int) or latent_dim < 1:
        raise ConfigError(f"latent_dim must be a whole number of at least 1, got {latent_dim!r}")
    if preset is not None:
        if preset not in cls.presets:
            raise UnknownNameError(f"preset of distance {name!r}", preset, cls.presets)
        options = {**cls.presets[preset], **options}
    return cls.resolve(_config.build(cls.Config, options, f"distance {name!r}"), latent_dim)
