"""A full Mahalanobis distance with one learned matrix for all pairs: PAMD without MetricNet."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pamd.distances.base import DISTANCES, Properties
from pamd.distances.packed import packed_size
from pamd.distances.pamd import QuadraticForm, cholesky_factor, diagonal_of_packed
from pamd.distances.quadratic import Form, QuadraticConfig


@DISTANCES.register("mahalanobis")
class Mahalanobis(QuadraticForm[QuadraticConfig]):
    """G = L L^T + lambda I with one learned lower-triangular L [d, d] for all pairs, initially isotropic."""

    Config = QuadraticConfig
    # One norm for all pairs. Both root guards preserve its triangle inequality, because x -> sqrt(x^2 + e) and
    # x -> max(x, sqrt(e)) are increasing and subadditive for x >= 0.
    properties = Properties(triangle=True)

    def __init__(self, latent_dim: int, config: QuadraticConfig) -> None:
        super().__init__(latent_dim, config)
        entries = torch.zeros(packed_size(latent_dim))
        on_diagonal = diagonal_of_packed(torch.arange(len(entries)), latent_dim)  # their positions among the entries
        entries[on_diagonal] = 1.0
        self.entries = nn.Parameter(entries)

    def rehu_inputs(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return diagonal_of_packed(self.entries, self.latent_dim).expand(2, len(z), -1)  # the same for all pairs

    def _factor(self, dtype: torch.dtype) -> Tensor:
        """Return L [d, d]."""
        return cholesky_factor(self.entries.to(dtype), self.config.diagonal_epsilon)

    def _metric(self, z: Tensor, z_prime: Tensor) -> Tensor:
        L = self._factor(torch.promote_types(z.dtype, torch.float32))
        return (L @ L.mT).expand(z.shape[0], -1, -1)

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        L = self._factor(delta.dtype)
        with torch.autocast(delta.device.type, enabled=False):  # sums of squares need float32
            quadratic = (delta @ L).square().sum(-1)
        return Form(quadratic, L.square().sum().expand(delta.shape[0]), lambda v: L @ (L.mT @ v))
