"""The base of all encoders: a trunk, whose features actors may share, and a projection to the latent dimension."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from torch import Tensor, nn

from pamd.registry import Registry

__all__ = ["ENCODERS", "Encoder"]

ConfigT = TypeVar("ConfigT")


class Encoder(nn.Module, ABC, Generic[ConfigT]):
    """Observations [B, ...] -> [B, d]. A subclass is final; it gives what is abstract here."""

    Config: ClassVar[type[Any]]
    feature_dim: int
    """F, the number of features that the trunk gives."""
    head: nn.Module
    """[B, F] -> [B, d]"""

    @classmethod
    @abstractmethod
    def check(cls, config: ConfigT, observation_shape: tuple[int, ...]) -> None:
        """Raise ConfigError where observations of this shape do not fit the options. Builds nothing."""

    @abstractmethod
    def __init__(self, config: ConfigT, observation_shape: tuple[int, ...], latent_dim: int) -> None:
        super().__init__()
        self.latent_dim = latent_dim

    @abstractmethod
    def prepare(self, obs: Tensor) -> Tensor:
        """Convert observations to what the trunk reads. Done once for several passes over the same observations."""

    @abstractmethod
    def trunk(self, obs: Tensor) -> Tensor:
        """Observations, prepared or not -> features [B, F]."""

    def forward(self, obs: Tensor) -> Tensor:
        """Observations [B, ...] -> [B, d], before the latent space's normalisation."""
        projected: Tensor = self.head(self.trunk(obs))
        return projected


ENCODERS: Registry[type[Encoder[Any]]] = Registry("encoder", "pamd.encoders", with_config=True)
