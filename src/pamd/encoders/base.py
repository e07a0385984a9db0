"""The base class of encoders: a trunk, whose features actors may share, and a projection to the latent dimension."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from torch import Tensor, nn

from pamd.registry import Registry

_ConfigT = TypeVar("_ConfigT")


class Encoder(nn.Module, ABC, Generic[_ConfigT]):
    """An encoder from observations [B, ...] to [B, d].

    A subclass is final. It defines `Config` and the abstract methods. Its `__init__` sets `feature_dim` and `head`.
    """

    Config: ClassVar[type[Any]]
    """The record of the options."""
    feature_dim: int
    """F, the number of features that the trunk returns."""
    head: nn.Module
    """The projection [B, F] -> [B, d]."""

    @classmethod
    @abstractmethod
    def check(cls, config: _ConfigT, observation_shape: tuple[int, ...]) -> None:
        """Raise ConfigError or ShapeError if observations of this shape do not fit the options. Build nothing."""

    @abstractmethod
    def __init__(self, config: _ConfigT, observation_shape: tuple[int, ...], latent_dim: int) -> None:
        super().__init__()
        self.latent_dim = latent_dim

    @abstractmethod
    def prepare(self, obs: Tensor) -> Tensor:
        """Convert observations to the trunk's input, e.g. bytes to floats. Prepared observations do not change.

        Several passes over the same observations share the result.
        """

    @abstractmethod
    def trunk(self, obs: Tensor) -> Tensor:
        """Return the features [B, F] of observations, prepared or not."""

    def forward(self, obs: Tensor) -> Tensor:
        """Map observations [B, ...] to [B, d], before the normalization of the latent space."""
        projected: Tensor = self.head(self.trunk(obs))
        return projected


ENCODERS: Registry[type[Encoder[Any]]] = Registry("encoder", "pamd.encoders", with_config=True)
