"""The encoder of a representation: any network, followed by the latent space."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from pamd.encoders import Encoder
from pamd.errors import ConfigError, ShapeError
from pamd.methods import LatentSpace, Method
from pamd.representation.ball import Ball
from pamd.representation.latent_space import Normalize

__all__ = ["LatentEncoder"]


class LatentEncoder(nn.Module):
    """An encoder from observations to latents z [B, d].

    `network` is an encoder of this package, or any module that maps observations to [B, d]. The output of such a module
    is also used as its features. `normalized`: the network's output already lies in the latent space. `ball`: the ball
    of latent space "ball".
    """

    def __init__(
        self,
        network: nn.Module,
        space: LatentSpace,
        latent_dim: int,
        *,
        normalized: bool = False,
        ball: Ball | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(network, nn.Module):
            raise ConfigError(f"the encoder must be an nn.Module, got {type(network).__name__}")
        if isinstance(network, Encoder) and network.latent_dim != latent_dim:
            raise ConfigError(f"the encoder gives {network.latent_dim} numbers, but latent_dim is {latent_dim}")
        self.network: Any = network
        self.latent_dim = latent_dim
        self.space = Normalize(space, latent_dim, ball)
        if normalized and self.space.ball is not None and self.space.ball.fixed is None:
            raise ConfigError(
                'normalized=True with latent_space "ball" requires a fixed method.ball_radius: an encoder that'
                " normalizes by itself does not see the radius grow with the rewards"
            )
        self.normalized = normalized
        self._splits = isinstance(network, Encoder)
        self.feature_dim = network.feature_dim if isinstance(network, Encoder) else latent_dim

    def prepare(self, obs: Tensor) -> Tensor:
        """Convert observations to the input of `trunk`. Several passes can share the result."""
        prepared: Tensor = self.network.prepare(obs) if self._splits else obs
        return prepared

    def trunk(self, obs: Tensor) -> Tensor:
        """Return the features [B, F] of observations, prepared or not."""
        features: Tensor = self.network.trunk(obs) if self._splits else self.network(obs)
        return features

    def head(self, features: Tensor) -> Tensor:
        """Return the latents z [B, d] of features [B, F]."""
        projected: Tensor = self.network.head(features) if self._splits else features
        if projected.ndim != 2 or projected.shape[1] != self.latent_dim:
            raise ShapeError(f"the encoder must give [B, {self.latent_dim}], got {list(projected.shape)}")
        return projected if self.normalized else self.space(projected)

    def head_modules(self) -> nn.Sequential:
        """Return the head's own modules. Callers can copy them, or let a slow copy follow them."""
        project = self.network.head if self._splits else nn.Identity()
        return nn.Sequential(project, nn.Identity() if self.normalized else self.space)

    def forward(self, obs: Tensor) -> Tensor:
        """Return the latents z [B, d] of observations [B, ...]."""
        return self.head(self.trunk(obs))

    @classmethod
    def from_method(cls, network: nn.Module, method: Method, *, normalized: bool = False) -> LatentEncoder:
        """Build an encoder from `network` and the latent space of `method`."""
        radius = None if isinstance(method.ball_radius, str) else method.ball_radius
        ball = Ball(radius=radius, bound=method.target_bound)
        return cls(network, method.latent_space, method.latent_dim, normalized=normalized, ball=ball)

    def observe(self, reward: Tensor) -> None:
        """Record the rewards [B] of an update, which may enlarge the ball. Call this before the update's first pass."""
        if self.space.ball is not None:
            self.space.ball.observe(reward)

    def longest(self) -> float:
        """Return the length that no latent exceeds; infinity if it is unknown."""
        if not self.normalized or self.space.space in ("sphere", "ball"):
            return self.space.longest()
        # The network normalizes its own output, with a gain that is unknown here.
        return float("inf")
