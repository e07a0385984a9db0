"""The CURL term: two augmentations of the same observations recognize each other among those of the batch."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from pamd.augmentations import AugmentationPart
from pamd.latents import BatchLatents, Copy
from pamd.schema import NonNegative, record
from pamd.terms.base import TERMS, Term
from pamd.terms.contrastive import InfoNCE
from pamd.types import Batch, Loss


@record
class CurlConfig:
    """The options of `curl`."""

    augmentation: AugmentationPart = field(default_factory=lambda: AugmentationPart("jitter"))
    """The augmentation: by default, a random shift of images and Gaussian noise on vectors."""
    query: Literal["augmented", "given"] = "augmented"
    """The observations of the queries: another augmentation, or the batch's own. An agent that augments has already
    made the batch's own one of the two augmentations, so that both choices are the same."""
    weight: NonNegative = 1.0
    """Weight of the loss."""


@TERMS.register("curl")
class Curl(Term[CurlConfig]):
    """InfoNCE between the latents of two augmentations of the states.

    The keys are latents of the "ema" copy of the encoder, without gradient.
    """

    Config = CurlConfig

    def __init__(self, config: CurlConfig, latent_dim: int, action_dim: int) -> None:
        super().__init__(config, latent_dim, action_dim)
        self.contrast = InfoNCE(latent_dim)
        self.augment = config.augmentation.cls(config.augmentation.options)

    def loss(self, latents: BatchLatents, batch: Batch) -> Loss:
        given = self.config.query == "given" or batch.original_obs is not None
        query = latents.z if given else latents.augmented(self.augment)
        loss, accuracy = self.contrast(query, latents.augmented(self.augment, "ema"))
        return Loss(self.config.weight * loss, {"curl_loss": loss.detach(), "curl_accuracy": accuracy})

    @classmethod
    def copies(cls, config: CurlConfig) -> frozenset[Copy]:
        return frozenset({"ema"})
