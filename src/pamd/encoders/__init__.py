"""Encoders by name. To add an encoder, add a file here; no other edit is needed."""

from __future__ import annotations

from typing import Any

from pamd.encoders.base import ENCODERS, Encoder
from pamd.schema import Count, build, check_values

__all__ = ["ENCODERS", "Encoder", "encoder"]


def encoder(name: str, *, observation_shape: tuple[int, ...], latent_dim: int, **options: Any) -> Encoder[Any]:
    """Return the encoder called `name`, an `nn.Module` from observations of `observation_shape` to [B, latent_dim].

    `options` are the fields of its config, e.g. ``filters=32`` for "conv" or ``hidden=256`` for "mlp".
    """
    cls = ENCODERS.get(name)
    config = build(cls.Config, options, f"encoder {name!r}")
    check_values(f"encoder {name!r}", Count, latent_dim=latent_dim)
    cls.check(config, tuple(observation_shape))
    return cls(config, tuple(observation_shape), latent_dim)
