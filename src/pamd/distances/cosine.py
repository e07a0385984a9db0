"""SimSR's cosine dissimilarity (eq:simsr_pair_distance)."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from pamd.distances.base import DISTANCES, Distance, Properties
from pamd.schema import record


@record
class CosineConfig:
    """The options of `cosine`."""

    normalized: bool = True
    """If False, use 1 - <z, z'> without normalization, as released (predicted next latents leave the unit sphere)."""


@DISTANCES.register("cosine")
class Cosine(Distance[CosineConfig]):
    """1 - cos(z, z'). A zero vector is orthogonal to every vector, including itself."""

    Config = CosineConfig
    presets = {"paper": {}, "released": {"normalized": False}}

    def __init__(self, latent_dim: int, config: CosineConfig) -> None:
        super().__init__(latent_dim, config)
        self.properties = Properties(nonnegative=config.normalized, self_zero=config.normalized)

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return 1 - (self._unit(z) * self._unit(z_prime)).sum(-1)

    def max_value(self, length: float) -> float:
        return 2.0 if self.config.normalized else 1 + length**2

    def _all_pairs(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return 1 - self._unit(z) @ self._unit(z_prime).T

    def _unit(self, z: Tensor) -> Tensor:
        return F.normalize(z, dim=-1) if self.config.normalized else z
