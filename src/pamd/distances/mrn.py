"""MRN (Liu et al. 2023): a symmetric part and an asymmetric part, each in an embedding of its own."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.distances.base import DISTANCES, Distance, Properties
from pamd.distances.pairwise import at_least_float32
from pamd.errors import ConfigError
from pamd.schema import Count, record

_OUTPUTS = 16
"""The dimension of both embeddings."""


@record
class MrnConfig:
    """The options of `mrn`."""

    hidden: Count = 1446
    """The width of both networks. 1446 matches PAMD's parameter count at d = 50 (193,796 versus 193,915)."""
    power: Count = 1
    """p: 1, or 2 as published. With 2 it is no metric: it violates the triangle inequality."""
    symmetric: bool = True
    """Whether the value is (d(z, z') + d(z', z)) / 2. False: d(z, z') itself."""

    def __post_init__(self) -> None:
        if self.power > 2:
            raise ConfigError(f"distance 'mrn': power must be 1 or 2, got {self.power}")


@DISTANCES.register("mrn")
class Mrn(Distance[MrnConfig]):
    """rms(f(z) - f(z'))^p + max_j (g_j(z) - g_j(z'))+ with networks f, g: d -> h -> 16, and its mean of both orders."""

    Config = MrnConfig

    def __init__(self, latent_dim: int, config: MrnConfig) -> None:
        super().__init__(latent_dim, config)
        # A norm of differences of f, plus a maximum of (a - b)+, which is at most (a - c)+ + (c - b)+. Squares (p = 2)
        # break the triangle inequality, as they do on a line: 2^2 > 1^2 + 1^2.
        self.properties = Properties(symmetric=config.symmetric, triangle=config.power == 1)
        self.f, self.g = (
            nn.Sequential(nn.Linear(latent_dim, config.hidden), nn.ReLU(), nn.Linear(config.hidden, _OUTPUTS))
            for _ in range(2)
        )

    def _embed(self, z: Tensor) -> Tensor:
        return torch.cat([self.f(z), self.g(z)], dim=-1)

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        f, g = at_least_float32(z - z_prime).chunk(2, dim=-1)
        return self._compared(f, g).to(z.dtype)

    def max_value(self, length: float) -> float:
        """Return a bound from the largest singular values of the layers, as they are now."""
        (f_in, f_out), (g_in, g_out) = self._weights(self.f), self._weights(self.g)
        f = 2 * length * torch.linalg.matrix_norm(f_in, ord=2) * torch.linalg.matrix_norm(f_out, ord=2)
        g = 2 * length * torch.linalg.matrix_norm(g_in, ord=2) * torch.linalg.vector_norm(g_out, dim=-1).amax()
        return float((f / math.sqrt(_OUTPUTS)) ** self.config.power + g)

    def _compared(self, f: Tensor, g: Tensor) -> Tensor:
        """Return the values [P] of the differences of f and g, [P, 16] each."""
        if self.config.power == 1:
            even: Tensor = torch.linalg.vector_norm(f, dim=-1) / math.sqrt(_OUTPUTS)
        else:
            even = f.square().mean(-1)
        uneven = F.relu(g.amax(-1))
        return even + (uneven if not self.config.symmetric else (uneven + F.relu((-g).amax(-1))) / 2)

    @staticmethod
    def _weights(net: nn.Module) -> list[Tensor]:
        return [p.detach().double() for p in net.parameters() if p.ndim == 2]

    def _floats_per_pair(self) -> int:
        return 8 * _OUTPUTS
