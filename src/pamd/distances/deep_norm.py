"""Deep norms (Pitis et al. 2020): a network of the displacement that is convex and positively homogeneous."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.distances.base import DISTANCES, Distance, Properties
from pamd.distances.components import Components, ComponentsConfig
from pamd.distances.pairwise import at_least_float32
from pamd.schema import Count, record

_LAYERS = 3


@record
class DeepNormConfig(ComponentsConfig):
    """The options of `deep-norm`."""

    hidden: Count = 276
    """The width of the three layers. 276 matches PAMD's parameter count at d = 50 (193,752 versus 193,915)."""
    symmetric: bool = True
    """Whether the value is (d(z, z') + d(z', z)) / 2. False: d(z, z') itself."""


@DISTANCES.register("deep-norm")
class DeepNorm(Distance[DeepNormConfig]):
    """The mean of the last of h_0 = (U_0 Delta)+ and h_l = (P_l h_(l-1) + U_l Delta)+ with P_l >= 0, l = 1, 2."""

    Config = DeepNormConfig

    def __init__(self, latent_dim: int, config: DeepNormConfig) -> None:
        super().__init__(latent_dim, config)
        # Each entry of h is convex in Delta, because P >= 0 and (.)+ keep convexity, and positively homogeneous:
        # there are no biases. So h(a + b) <= h(a) + h(b).
        self.properties = Properties(symmetric=config.symmetric, triangle=True)
        h = config.hidden
        # P_l takes means of the layer before. The mean of the last h is then 0.79 of the scale of U Delta. So it starts
        # at the scale of a form of trace 1.
        self.U = nn.Parameter(torch.randn(_LAYERS * h, latent_dim) * (latent_dim**-0.5 / 0.79))
        self.P = nn.Parameter(torch.rand(_LAYERS - 1, h, h) * (2 / h))
        self.reduce = Components(h, config)

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        steps = F.linear(z - z_prime, self.U)  # all U_l Delta: [P, 3h]
        value = self._norm(steps)
        return ((value + self._norm(-steps)) / 2 if self.config.symmetric else value).to(z.dtype)

    def max_value(self, length: float) -> float:
        """Return the value of the largest U_l Delta, entry by entry, with the weights as they are now."""
        longest = 2 * length * torch.linalg.vector_norm(self.U.detach(), dim=-1)
        return float(self._norm(longest).detach())

    def _norm(self, steps: Tensor) -> Tensor:
        """Return the value [...] of all U_l Delta, [..., 3h]."""
        first, *rest = steps.chunk(_LAYERS, dim=-1)
        h = F.relu(first)
        for P, step in zip(self.P.abs(), rest, strict=True):
            h = F.relu(F.linear(h, P) + step)
        value: Tensor = self.reduce(at_least_float32(h))
        return value

    def _floats_per_pair(self) -> int:
        return 2 * self.latent_dim + 4 * _LAYERS * self.config.hidden
