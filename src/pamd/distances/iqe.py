"""IQE (Wang & Isola 2022): lengths of unions of intervals. A quasimetric; its mean of both orders is a metric."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.distances.base import DISTANCES, Distance, Properties
from pamd.distances.components import Components, ComponentsConfig, Reduction
from pamd.distances.intervals import union_length
from pamd.distances.pairwise import at_least_float32
from pamd.schema import Count, record

_SCALE = 0.448
"""The standard deviation of u at which the default value of normal latents is that of a form of trace 1."""


@record
class IqeConfig(ComponentsConfig):
    """The options of `iqe`."""

    components: Count = 475
    """The number of components. 475 x 8 match PAMD's parameter count at d = 50 (193,801 versus 193,915)."""
    coordinates: Count = 8
    """The number of intervals of a component. 16 cost a third more time."""
    reduction: Reduction = "maxmean"
    """How the components become one value. maxmean: a max + (1 - a) mean with a learned a in (0, 1)."""
    symmetric: bool = True
    """Whether each component is the mean of both orders. False: that of (z, z')."""


@DISTANCES.register("iqe")
class Iqe(Distance[IqeConfig]):
    """Component i is the length of the union of [u_ij, max(u_ij, u'_ij)] over j, with u = A z + b."""

    Config = IqeConfig
    width = "components"

    def __init__(self, latent_dim: int, config: IqeConfig) -> None:
        super().__init__(latent_dim, config)
        # If a point is in [a, c] but not in [a, b], it is in [b, c]. So the union for (x, y) is covered by those for
        # (x, w) and (w, y).
        self.properties = Properties(symmetric=config.symmetric, triangle=True)
        rows = config.coordinates * config.components
        self.weight = nn.Parameter(torch.randn(rows, latent_dim) * (_SCALE * latent_dim**-0.5))
        self.bias = nn.Parameter(torch.zeros(rows))
        self.reduce = Components(config.components, config)

    def _embed(self, z: Tensor) -> Tensor:
        return F.linear(z, self.weight, self.bias)

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        u, u_prime = (at_least_float32(x).unflatten(-1, (self.config.coordinates, -1)) for x in (z, z_prime))
        value: Tensor = self.reduce(union_length(u, u_prime, self.config.symmetric))
        return value.to(z.dtype)

    def max_value(self, length: float) -> float:
        """Return a bound from the largest singular values, as they are now: a union is no longer than its intervals."""
        A = self.weight.detach().double().unflatten(0, (self.config.coordinates, -1)).transpose(0, 1)  # [k, m, d]
        intervals = math.sqrt(self.config.coordinates) * 2 * length * torch.linalg.matrix_norm(A, ord=2)
        return float(self.reduce(intervals / 2 if self.config.symmetric else intervals).detach())

    def _floats_per_pair(self) -> int:
        return 8 * self.weight.shape[0]
