"""The base class of augmentations: random functions from a batch of observations to a batch of the same shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from pamd.registry import Registry

__all__ = ["AUGMENTATIONS", "Augmentation"]

ConfigT = TypeVar("ConfigT")


class Augmentation(ABC, Generic[ConfigT]):
    """The base class. A subclass is final and defines `__call__` and `Config`, a frozen dataclass of its options."""

    Config: ClassVar[type[Any]]

    def __init__(self, config: ConfigT) -> None:
        self.config = config

    @abstractmethod
    def __call__(self, obs: Tensor, generator: torch.Generator) -> Tensor:
        """Augment obs [B, ...]. The shape and dtype stay the same. All randomness comes from `generator`."""


AUGMENTATIONS: Registry[type[Augmentation[Any]]] = Registry("augmentation", "pamd.augmentations", with_config=True)
