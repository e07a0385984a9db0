"""The SPR term: a latent model predicts the next K latents, compared by the cosine of their projections."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.initialization import initialize
from pamd.latents import BatchLatents, Copy
from pamd.optimization import target_copy
from pamd.schema import Count, NonNegative, record
from pamd.terms.base import TERMS, Term
from pamd.types import Batch, Loss


@record
class SprConfig:
    """The options of `spr`."""

    steps: Count = 5
    """K, the number of predicted latents."""
    hidden: Count = 512
    """Units of the hidden layer of the latent model."""
    projection: Count = 128
    """Number of coordinates of a projection."""
    weight: NonNegative = 1.0
    """Weight of the loss."""


@TERMS.register("spr")
class Spr(Term[SprConfig]):
    """1 - cos of q(g(z_k)) and g'(z'_k), summed over the steps of a row up to its end, and averaged over rows.

    z_k is the prediction of the latent model after k steps: d + A -> hidden -> LayerNorm -> ReLU -> d. z'_k is the
    latent of the "ema" copy of the encoder, and g' the target copy of the linear projection g. Neither carries a
    gradient. q is linear.
    """

    Config = SprConfig

    def __init__(self, config: SprConfig, latent_dim: int, action_dim: int) -> None:
        super().__init__(config, latent_dim, action_dim)
        self.model = nn.Sequential(
            nn.Linear(latent_dim + action_dim, config.hidden),
            nn.LayerNorm(config.hidden),
            nn.ReLU(),
            nn.Linear(config.hidden, latent_dim),
        )
        self.projection = nn.Linear(latent_dim, config.projection)
        self.predictor = nn.Linear(config.projection, config.projection)
        initialize(self)
        self.target_projection = target_copy(self.projection)
        self.targets = ((self.target_projection, self.projection),)

    def unroll(self, z: Tensor, action: Tensor) -> Tensor:
        """Predict latents [B, K, d] from z [B, d] and actions [B, K, A]."""
        steps = []
        for taken in action.unbind(1):
            z = self.model(torch.cat([z, taken], dim=-1))
            steps.append(z)
        return torch.stack(steps, 1)

    def loss(self, latents: BatchLatents, batch: Batch) -> Loss:
        window = self.windows(batch)
        assert window.action is not None  # `windows` has checked it
        predicted = self.predictor(self.projection(self.unroll(latents.z, window.action)))
        with torch.no_grad():
            target = self.target_projection(latents.sequence("ema"))
        # Inside autocast, projections are of half precision, in which the cosine of close vectors is lost.
        predicted, target = (x.to(torch.promote_types(x.dtype, latents.z.dtype)) for x in (predicted, target))
        error = 1 - F.cosine_similarity(predicted, target, dim=-1)
        loss = torch.where(window.mask, error, 0).sum(1).mean()
        return Loss(self.config.weight * loss, {"spr_loss": loss.detach()})

    @classmethod
    def copies(cls, config: SprConfig) -> frozenset[Copy]:
        return frozenset({"ema"})

    @classmethod
    def window(cls, config: SprConfig) -> int:
        return config.steps

    @classmethod
    def sequence(cls, config: SprConfig) -> bool:
        return True
