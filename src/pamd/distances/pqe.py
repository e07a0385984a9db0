"""PQE-LH (Wang & Isola 2022): a weighted sum of 1 - exp(-mean of positive differences). It is bounded."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.distances.base import DISTANCES, Distance, Properties
from pamd.distances.pairwise import at_least_float32
from pamd.schema import Count, record

_CHUNK = 4
"""The number of coordinates of a component."""


@record
class PqeConfig:
    """The options of `pqe`."""

    components: Count = 965
    """The number of components. 965 match PAMD's parameter count at d = 50 (193,965 versus 193,915)."""
    symmetric: bool = True
    """Whether the value is (d(z, z') + d(z', z)) / 2. False: d(z, z') itself."""


@DISTANCES.register("pqe")
class Pqe(Distance[PqeConfig]):
    """The sum of w_i (1 - exp(-mean_j (u_ij - u'_ij)+)) with learned w_i > 0 and u = A z, 4 rows of A per i."""

    Config = PqeConfig
    width = "components"

    def __init__(self, latent_dim: int, config: PqeConfig) -> None:
        super().__init__(latent_dim, config)
        # (a - b)+ <= (a - c)+ + (c - b)+, and t -> 1 - exp(-t) is 0 at 0, increasing and concave, hence subadditive.
        self.properties = Properties(symmetric=config.symmetric, triangle=True)
        # It starts with the slope of a form of trace 1: the mean of (A Delta)+ is |Delta| / sqrt(2 pi d).
        self.weight = nn.Parameter(torch.randn(_CHUNK * config.components, latent_dim) * latent_dim**-0.5)
        self.log_w = nn.Parameter(
            torch.full((config.components,), math.log(math.sqrt(2 * math.pi) / config.components))
        )

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        u = at_least_float32(F.linear(z - z_prime, self.weight)).unflatten(-1, (-1, _CHUNK))
        value = self._sum(u)
        return ((value + self._sum(-u)) / 2 if self.config.symmetric else value).to(z.dtype)

    def max_value(self, length: float) -> float:
        """Return the sum of the weights as they are now. No latents have a larger value."""
        return float(self.log_w.detach().double().exp().sum())

    def _sum(self, u: Tensor) -> Tensor:
        """Return the values [P] of differences u [P, k, 4]."""
        components = -torch.expm1(-F.relu(u).mean(-1))
        return (components * self.log_w.to(components.dtype).exp()).sum(-1)

    def _floats_per_pair(self) -> int:
        return 2 * self.latent_dim + 5 * _CHUNK * self.config.components
