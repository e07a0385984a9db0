"""pytorch-metric-learning: `TripletMarginLoss(distance=LatentDistance("pamd", latent_dim=64))`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pamd.distances import Distance
from pamd.distances import distance as named_distance
from pamd.errors import ConfigError
from pamd.integrations.requirements import require_library

require_library(__name__, "pytorch-metric-learning", (2, 9), "metric-learning")

from pytorch_metric_learning.distances import BaseDistance  # noqa: E402  The version is checked first.


class LatentDistance(BaseDistance):
    """A pamd distance for the losses and miners of pytorch-metric-learning.

    Embeddings are not normalized. Pass the parameters of the distance to an optimizer to train them. A coordinate-wise
    distance is averaged over its coordinates.

    Args:
        distance: a name such as "pamd" (see `pamd list distances`), or a distance object.
        latent_dim: the embedding size; required if `distance` is a name.
        options: the options of the named distance.
    """

    def __init__(self, distance: str | Distance[Any], *, latent_dim: int | None = None, **options: Any) -> None:
        super().__init__(normalize_embeddings=False)
        self.distance = _built(distance, latent_dim, options)

    def compute_mat(self, query_emb: Tensor, ref_emb: Tensor | None) -> Tensor:
        """Return the distances [B, C] between all rows of query_emb [B, d] and ref_emb [C, d] (default: query_emb)."""
        return self.distance.all_pairs(query_emb, ref_emb)

    def pairwise_distance(self, query_emb: Tensor, ref_emb: Tensor) -> Tensor:
        """Return the distances [P] between corresponding rows of query_emb and ref_emb [P, d]."""
        value: Tensor = self.distance(query_emb, ref_emb)
        return value.mean(-1) if self.distance.coordinate_wise else value


def _built(distance: str | Distance[Any], latent_dim: int | None, options: dict[str, Any]) -> Distance[Any]:
    if isinstance(distance, str):
        if latent_dim is None:
            raise ConfigError(f"LatentDistance({distance!r}) requires latent_dim, the embedding size")
        return named_distance(distance, latent_dim=latent_dim, **options)
    if not isinstance(distance, Distance):
        raise ConfigError(f"LatentDistance requires a name or a pamd.Distance, got {type(distance).__name__}")
    if options or latent_dim not in (None, distance.latent_dim):
        raise ConfigError(
            f"LatentDistance: {type(distance).__name__} was built already, with latent_dim {distance.latent_dim};"
            " latent_dim and options go with a name"
        )
    return distance
