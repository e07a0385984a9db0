"""An unconstrained pairwise network (eq:app_mlp_def). It guarantees no property of a distance: a baseline."""

from __future__ import annotations

import torch
from torch import Tensor

from pamd.distances.base import DISTANCES, Distance, Properties
from pamd.distances.pairwise import pair_network
from pamd.schema import Count, record


@record
class MlpConfig:
    """The options of `mlp`."""

    hidden: Count = 392
    """The width of the network. 392 matches PAMD's parameter count at d = 50 (194,041 versus 193,915)."""


@DISTANCES.register("mlp")
class Mlp(Distance[MlpConfig]):
    """f([z; z']) with f: 2d -> h -> h -> 1 and ReLU activations."""

    Config = MlpConfig
    properties = Properties(symmetric=False, nonnegative=False, self_zero=False)

    def __init__(self, latent_dim: int, config: MlpConfig) -> None:
        super().__init__(latent_dim, config)
        self.net = pair_network(latent_dim, config.hidden, 1)

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        value: Tensor = self.net(torch.cat([z, z_prime], dim=-1)).squeeze(-1)
        return value

    def _floats_per_pair(self) -> int:
        return 2 * self.latent_dim + 3 * self.config.hidden
