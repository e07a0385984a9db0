"""Latent distances by name. One small file each; a new file here is a new distance, with no other edit."""

from __future__ import annotations

from typing import Any

from pamd import config as _config
from pamd.distances.base import DISTANCES, Distance, Laws
from pamd.errors import ConfigError, UnknownNameError

__all__ = ["DISTANCES", "Distance", "Laws", "distance"]


def distance(name: str, *, latent_dim: int, preset: str | None = None, **options: Any) -> Distance[Any]:
    """The distance called `name` over latents of `latent_dim` coordinates, as an `nn.Module`.

    `preset` names a set of options that belongs to the distance (for `pamd`: "paper", "released-dbc", ...);
    `options` are the fields of its config and win over the preset.
    """
    cls = DISTANCES.get(name)
    if isinstance(latent_dim, bool) or not isinstance(latent_dim, int) or latent_dim < 1:
        raise ConfigError(f"latent_dim must be a whole number of at least 1, got {latent_dim!r}")
    if preset is not None:
        if preset not in cls.presets:
            raise UnknownNameError(f"preset of distance {name!r}", preset, cls.presets)
        options = {**cls.presets[preset], **options}
    return cls(latent_dim, _config.build(cls.Config, options, f"distance {name!r}"))
