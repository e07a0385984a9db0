"""Two Q-functions on one latent."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pamd.nets.init import initialise

__all__ = ["Critic"]


class Critic(nn.Module):
    """z [B, d], action [B, A] -> Q1, Q2 [B] each."""

    def __init__(self, latent_dim: int, action_dim: int, hidden: int) -> None:
        super().__init__()
        self.q1, self.q2 = (
            nn.Sequential(
                nn.Linear(latent_dim + action_dim, hidden),
                nn.ReLU(),
                nn.Linear(hidden, hidden),
                nn.ReLU(),
                nn.Linear(hidden, 1),
            )
            for _ in range(2)
        )
        initialise(self)

    def forward(self, z: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """z: [B, d], action: [B, A] -> [B], [B]"""
        joined = torch.cat([z, action], dim=-1)
        return self.q1(joined).squeeze(-1), self.q2(joined).squeeze(-1)
