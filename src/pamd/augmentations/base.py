"""The base class of augmentations: random functions from a batch of observations to a batch of the same shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from pamd.registry import Registry
from pamd.schema import Part, record

_ConfigT = TypeVar("_ConfigT")


class Augmentation(ABC, Generic[_ConfigT]):
    """The base class. A subclass is final and defines `__call__` and `Config`, a frozen dataclass of its options."""

    Config: ClassVar[type[Any]]

    def __init__(self, config: _ConfigT) -> None:
        self.config = config

    @abstractmethod
    def __call__(self, obs: Tensor, generator: torch.Generator | None) -> Tensor:
        """Augment obs [B, ...]. The shape and dtype stay the same.

        All randomness comes from `generator`; None is torch's global one.
        """


AUGMENTATIONS: Registry[type[Augmentation[Any]]] = Registry("augmentation", "pamd.augmentations", with_config=True)


@record
class AugmentationPart(Part):
    """A registered augmentation with its options."""

    registry: ClassVar[Registry[Any]] = AUGMENTATIONS


@record
class NoAugmentationConfig:
    """No options."""


@AUGMENTATIONS.register("none")
class NoAugmentation(Augmentation[NoAugmentationConfig]):
    """The identity. It draws no random numbers."""

    Config = NoAugmentationConfig

    def __call__(self, obs: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return `obs` [B, ...] unchanged."""
        return obs
