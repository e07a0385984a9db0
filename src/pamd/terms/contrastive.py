"""InfoNCE, the contrastive loss of the terms `curl` and `taco`."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.initialization import initialize_uniform


class InfoNCE(nn.Module):
    """The cross-entropy of recognizing each query's own key among the keys of all rows, by the logits q_i W k_j."""

    def __init__(self, latent_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(latent_dim, latent_dim))
        initialize_uniform(self.weight, latent_dim)

    def forward(self, query: Tensor, key: Tensor, counted: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the loss [] and the accuracy [] of queries and keys [B, d].

        Rows that are not `counted` [B] are neither queries nor keys. Without any row, both are 0.
        """
        logits = query @ self.weight @ key.t()  # [B, B]; the cross-entropy subtracts the maximum of each row
        own = torch.arange(len(query), device=query.device)
        if counted is not None:
            logits = logits.masked_fill(~counted, torch.finfo(logits.dtype).min)
        loss = F.cross_entropy(logits, own, reduction="none")
        return mean_of(loss, counted), mean_of((logits.detach().argmax(1) == own).to(loss.dtype), counted)


def mean_of(values: Tensor, counted: Tensor | None = None) -> Tensor:
    """Return the mean [] of the values [B] that are `counted` [B]; 0 if there are none."""
    if counted is None:
        return values.mean()
    return torch.where(counted, values, 0).sum() / counted.sum().clamp_min(1)
