"""Wide norms (Pitis et al. 2020): the mean of several global Mahalanobis norms, a true metric."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.distances.base import DISTANCES, Distance, Properties
from pamd.distances.components import Components, ComponentsConfig
from pamd.distances.pairwise import at_least_float32
from pamd.schema import Count, record


@record
class WideNormConfig(ComponentsConfig):
    """The options of `wide-norm`."""

    components: Count = 32
    """The number of norms."""
    hidden: Count = 121
    """The rows of each W_i. 32 x 121 match PAMD's parameter count at d = 50 (193,600 versus 193,915)."""
    symmetric: bool = True
    """False: the asymmetric form. It reads [Delta+; (-Delta)+] with W_i >= 0, which are twice as wide."""


@DISTANCES.register("wide-norm")
class WideNorm(Distance[WideNormConfig]):
    """The mean of |W_i Delta| over i, with learned W_i [m, d] for all pairs."""

    Config = WideNormConfig

    def __init__(self, latent_dim: int, config: WideNormConfig) -> None:
        super().__init__(latent_dim, config)
        # Each |W_i Delta| is a norm of a linear map. In the asymmetric form, (a + b)+ <= a+ + b+, and |W_i u| does not
        # fall if u >= 0 grows. `Components` keeps the triangle inequality.
        self.properties = Properties(symmetric=config.symmetric, triangle=True)
        inputs = latent_dim if config.symmetric else 2 * latent_dim
        # It starts at the scale of a form of trace 1: the mean of |W_i Delta|^2 is |Delta|^2 / d.
        std = (config.hidden * latent_dim) ** -0.5
        self.weight = nn.Parameter(std * torch.randn(config.components * config.hidden, inputs))
        self.reduce = Components(config.components, config)

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        delta = z - z_prime
        u = delta if self.config.symmetric else torch.cat([F.relu(delta), F.relu(-delta)], dim=-1)
        rows = at_least_float32(F.linear(u, self._nonnegative())).unflatten(-1, (self.config.components, -1))
        value: Tensor = self.reduce(torch.linalg.vector_norm(rows, dim=-1))
        return value.to(z.dtype)

    def max_value(self, length: float) -> float:
        """Return the bound from the largest singular value of each W_i, as they are now."""
        W = self._nonnegative().detach().double().unflatten(0, (self.config.components, -1))
        return float(self.reduce(2 * length * torch.linalg.matrix_norm(W, ord=2)).detach())

    def _nonnegative(self) -> Tensor:
        """Return all W_i, stacked: [k m, d] (asymmetric: [k m, 2d], without negative entries)."""
        return self.weight if self.config.symmetric else self.weight.abs()

    def _floats_per_pair(self) -> int:
        return 3 * self.latent_dim + 2 * self.weight.shape[0]
