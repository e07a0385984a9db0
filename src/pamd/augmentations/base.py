"""The base of all augmentations: a random function from a batch of observations to one of the same shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from pamd.registry import Registry

__all__ = ["AUGMENTATIONS", "Augmentation"]

ConfigT = TypeVar("ConfigT")


class Augmentation(ABC, Generic[ConfigT]):
    """A subclass gives `Config`, a frozen dataclass of its options, and `__call__`; it is final."""

    Config: ClassVar[type[Any]]

    def __init__(self, config: ConfigT) -> None:
        self.config = config

    @abstractmethod
    def __call__(self, obs: Tensor, generator: torch.Generator) -> Tensor:
        """obs: [B, ...] -> the same shape and dtype. All randomness comes from `generator`."""


AUGMENTATIONS: Registry[type[Augmentation[Any]]] = Registry("augmentation", "pamd.augmentations", with_config=True)
