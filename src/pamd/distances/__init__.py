"""Latent distances by name. Each has its own file. To add a distance, add a file here; no other edit is needed."""

from __future__ import annotations

from typing import Any

from pamd import schema as _schema
from pamd.distances import base as _base
from pamd.distances.base import DISTANCES, Distance, Properties
from pamd.errors import ConfigError, UnknownNameError

__all__ = ["DISTANCES", "Distance", "Properties", "distance", "distance_config"]


def distance(name: str, *, latent_dim: int, preset: str | None = None, **options: Any) -> Distance[Any]:
    """Build the distance `name` for latents with `latent_dim` coordinates, as an `nn.Module`.

    `preset` selects a named set of options (for `pamd`: "paper", "released-dbc", ...). `options` are the fields of the
    distance's config. They override the preset.
    """
    config = distance_config(name, latent_dim=latent_dim, preset=preset, **options)
    return DISTANCES.get(name)(latent_dim, config)


def distance_config(name: str, *, latent_dim: int, preset: str | None = None, **options: Any) -> Any:
    """Return the checked and resolved config of `distance` with the same arguments, without building a module."""
    cls = DISTANCES.get(name)
    if isinstance(latent_dim, bool) or not isinstance(latent_dim, int) or latent_dim < 1:
        raise ConfigError(f"latent_dim must be a whole number of at least 1, got {latent_dim!r}")
    if preset is not None:
        if preset not in cls.presets:
            raise UnknownNameError(f"preset of distance {name!r}", preset, cls.presets)
        options = {**cls.presets[preset], **options}
    return cls.resolve(_schema.build(cls.Config, options, f"distance {name!r}"), latent_dim)


def __getattr__(name: str) -> Any:
    if name == "Laws":
        return getattr(_base, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
