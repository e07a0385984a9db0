"""No augmentation."""

from __future__ import annotations

import torch
from torch import Tensor

from pamd.augmentations.base import AUGMENTATIONS, Augmentation
from pamd.schema import record

__all__ = ["NoAugmentation", "NoAugmentationConfig"]


@record
class NoAugmentationConfig:
    """No options."""


@AUGMENTATIONS.register("none")
class NoAugmentation(Augmentation[NoAugmentationConfig]):
    """The identity. It draws no random numbers."""

    Config = NoAugmentationConfig

    def __call__(self, obs: Tensor, generator: torch.Generator) -> Tensor:
        """Return `obs` [B, ...] unchanged."""
        return obs
