"""Jitter: a small random change of any observation, a shift of images or Gaussian noise on vectors."""

from __future__ import annotations

import torch
from torch import Tensor

from pamd.augmentations.base import AUGMENTATIONS, Augmentation
from pamd.augmentations.random_shift import shift_images
from pamd.errors import DtypeError
from pamd.rng import normal_like
from pamd.schema import Fraction, NonNegative, record


@record
class JitterConfig:
    shift: Fraction = 0.05
    """The largest shift of an image, relative to its width: 4 pixels of 84. It is at least one pixel."""
    noise: NonNegative = 0.05
    """The standard deviation of the noise on every coordinate of a vector."""


@AUGMENTATIONS.register("jitter")
class Jitter(Augmentation[JitterConfig]):
    """A random shift of images [B, C, H, W], whose size follows theirs, or Gaussian noise on other observations."""

    Config = JitterConfig

    def __call__(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Shift images of any type, and add noise to floating-point vectors [B, ...]."""
        if obs.ndim == 4:
            return shift_images(obs, max(1, int(self.config.shift * obs.shape[-1])), generator)
        if not obs.is_floating_point():
            raise DtypeError(
                "augmentation 'jitter' requires images [B, C, H, W] or floating-point observations, got"
                f" {obs.dtype} {list(obs.shape)}"
            )
        return obs + self.config.noise * normal_like(obs, generator).to(obs.dtype)
