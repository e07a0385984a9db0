"""The encoder of a representation: any network, followed by the latent space (LayerNorm, sphere, ball, ...)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.encoders import Encoder
from pamd.errors import ConfigError, DtypeError, ShapeError
from pamd.methods import LatentSpace, Method

SMALLEST = 1.0
"""The smallest radius computed from rewards. Latents must be able to differ even if all rewards so far are equal."""

_ROUNDING = 0.05
"""The tolerance of `Normalize.contains`, wide enough for bfloat16."""


class Ball(nn.Module):
    """Projection into a ball, z / max(|z| / radius, 1) with the Euclidean norm: [..., d] -> [..., d].

    The radius is fixed, or half of what `bound` returns for the range of the rewards seen so far (at least `SMALLEST`).
    Half suffices, because two points of a ball are at most two radii apart. The range and the radius are part of the
    state.
    """

    low: Tensor
    high: Tensor
    radius: Tensor

    def __init__(self, *, radius: float | None = None, bound: Callable[[Any], Any] = abs) -> None:
        super().__init__()
        self.fixed, self.bound = radius, bound
        for name, value in (("low", math.inf), ("high", -math.inf), ("radius", radius or SMALLEST)):
            self.register_buffer(name, torch.tensor(value, dtype=torch.float64))

    @torch.no_grad()
    def observe(self, reward: Tensor) -> None:
        """Extend the range to include the rewards [B]. The radius never shrinks."""
        if torch._C._are_functorch_transforms_active():
            raise ConfigError(
                'latent space "ball" records the rewards in place, which torch.func does not allow; compute the'
                ' losses outside of torch.func, or use latent space "layernorm", "tanh" or "sphere"'
            )
        self.low.copy_(torch.minimum(self.low, reward.min()))
        self.high.copy_(torch.maximum(self.high, reward.max()))
        if self.fixed is None:
            # Use only tensors: a Python number would have to be read from the device at every update.
            half = torch.as_tensor(self.bound(self.high - self.low) / 2)
            self.radius.copy_(half.clamp_min(SMALLEST))

    def forward(self, x: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        inside: Tensor = x / (length / self.radius.to(x.dtype)).clamp_min(1.0)
        return inside

    def extra_repr(self) -> str:
        return f"radius={float(self.radius):g}, fixed={self.fixed is not None}"


class Normalize(nn.Module):
    """Normalization [..., d] -> [..., d]: LayerNorm; LayerNorm then tanh; unit sphere; ball; or none ("free")."""

    def __init__(self, space: LatentSpace, latent_dim: int, ball: Ball | None = None) -> None:
        super().__init__()
        self.space, self.latent_dim = space, latent_dim
        self.norm = nn.LayerNorm(latent_dim) if space in ("layernorm", "tanh") else None
        self.ball = (ball or Ball()) if space == "ball" else None

    def forward(self, x: Tensor) -> Tensor:
        if self.space == "sphere":
            return F.normalize(x, dim=-1)
        if self.ball is not None:
            projected: Tensor = self.ball(x)
            return projected
        if self.norm is not None:
            x = self.norm(x)
        return torch.tanh(x) if self.space == "tanh" else x

    @torch.no_grad()
    def max_norm(self) -> float:
        """Return the length that no latent exceeds. With LayerNorm, it depends on the gain and the bias."""
        if self.space == "sphere":
            return 1.0
        if self.ball is not None:
            return float(self.ball.radius)
        if self.space == "tanh":
            return float(self.latent_dim**0.5)
        if self.norm is None:
            return float("inf")
        # A normalized vector has length at most sqrt(d). The bias cancels in differences, but not in MICo's norms.
        return float(self.norm.weight.abs().max() * self.latent_dim**0.5 + self.norm.bias.norm())

    def contains(self, z: Tensor) -> Tensor:
        """Return whether the latents z [B, d] can be outputs, up to rounding: [B]."""
        z = z.detach().float()
        length, inside = torch.linalg.vector_norm(z, dim=-1), torch.isfinite(z).all(-1)
        if self.space == "sphere":
            inside = ((length - 1).abs() < _ROUNDING) | (length < _ROUNDING)
        elif self.ball is not None:
            inside = length < self.ball.radius * (1 + _ROUNDING)
        elif self.space == "tanh":
            inside = z.abs().amax(-1) < 1 + _ROUNDING
        elif self.norm is not None and bool((self.norm.weight.abs() > _ROUNDING).all()):
            plain = (z - self.norm.bias) / self.norm.weight
            # Inputs with a small variance come out shorter, because LayerNorm adds an epsilon to it.
            inside = (plain.mean(-1).abs() < _ROUNDING) & (plain.square().mean(-1) < 1 + _ROUNDING)
        return inside

    def extra_repr(self) -> str:
        return self.space


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
                'an encoder that normalizes by itself (normalized=True, or "LatentPolicy") does not see the ball grow'
                " with the rewards; fix its radius, for example pamd.method('dbc-normed', ball_radius=10.0)"
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
        features: Tensor = self.network.trunk(obs) if self._splits else self._foreign(obs)
        return features

    def _foreign(self, obs: Tensor) -> Any:
        """Run a network of another package. If it fails because of the observations' type, name both types."""
        if torch.compiler.is_compiling():  # a graph cannot break inside of `try`
            return self.network(obs)
        try:
            return self.network(obs)
        except (RuntimeError, TypeError) as error:
            weight = next(self.network.parameters(), None)
            kind = obs.dtype if isinstance(obs, Tensor) else f"{type(obs).__module__}.{type(obs).__name__}"
            if weight is None or kind == weight.dtype:
                raise
            raise DtypeError(
                f"the encoder failed on observations of type {kind}, but its weights are {weight.dtype}; convert them"
                " first, for example by torch.as_tensor(obs).float(), and divide the bytes of images by 255"
            ) from error

    def head(self, features: Tensor) -> Tensor:
        """Return the latents z [B, d] of features [B, F], in the type of the weights even inside autocast.

        Distances of close latents are lost in bfloat16, whose numbers have eight bits.
        """
        projected: Tensor = project(self.network.head, features) if self._splits else features
        if not isinstance(projected, Tensor):
            raise DtypeError(
                f"the encoder must return one tensor [B, {self.latent_dim}], got a {type(projected).__name__}; wrap it"
                " in a module that returns only the latents"
            )
        if projected.ndim != 2 or projected.shape[1] != self.latent_dim:
            raise ShapeError(f"the encoder must give [B, {self.latent_dim}], got {list(projected.shape)}")
        if not self._splits:
            wide = next(self.network.parameters(), projected).dtype
            projected = projected.to(torch.promote_types(projected.dtype, wide))
        return projected if self.normalized else self.space(projected)

    def head_modules(self) -> nn.Sequential:
        """Return the head's own modules. Callers can copy them, and update the copy from them."""
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

    def contains(self, z: Tensor) -> Tensor:
        """Return whether the latents z [B, d] can be outputs: [B]. The gain of an own LayerNorm is unknown."""
        unknown = self.normalized and self.space.space == "layernorm"
        return torch.isfinite(z).all(-1) if unknown else self.space.contains(z)

    def max_norm(self) -> float:
        """Return the length that no latent exceeds; infinity if it is unknown."""
        if not self.normalized or self.space.space in ("sphere", "ball"):
            return self.space.max_norm()
        # The network normalizes its own output, with a gain that is unknown here.
        return float("inf")


def project(head: nn.Module, features: Tensor) -> Tensor:
    """Return head(features) in the type of its weights: [B, F] -> [B, d]. Features may be of half precision.

    The product of half-precision features is one of the largest of an update, so it is not widened. A number has eight
    significant bits in bfloat16, which would hide the distances of close latents. So the products are those of
    differences between rows, whose rounding is relative to these distances. One row is projected in full.
    """
    weight = next(head.parameters(), features)
    if features.dtype == weight.dtype or features.dtype not in (torch.bfloat16, torch.float16):
        projected: Tensor = head(features)
        return projected.to(torch.promote_types(projected.dtype, weight.dtype))
    # Constant, so that the gradients of features and weights are those of the plain product.
    first = features[:1].detach()
    with torch.autocast(features.device.type, enabled=False):
        if not isinstance(head, nn.Linear):
            return torch.as_tensor(head(features.to(weight.dtype)))
        differences = F.linear(features - first, head.weight.to(features.dtype))
        return differences.to(weight.dtype) + F.linear(first.to(weight.dtype), head.weight, head.bias)
