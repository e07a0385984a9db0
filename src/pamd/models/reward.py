"""A decoder of the reward from a latent. On the DBC side it reads the predicted next latent."""

from __future__ import annotations

from torch import Tensor, nn

from pamd.initialization import Initialization, initialize

__all__ = ["RewardDecoder"]


class RewardDecoder(nn.Module):
    """A reward decoder: d -> 512 -> LayerNorm -> ReLU -> 1."""

    def __init__(self, latent_dim: int, init: Initialization = "orthogonal", hidden: int = 512) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(latent_dim, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )
        if init == "orthogonal":
            initialize(self)

    def forward(self, z: Tensor) -> Tensor:
        """Predict the rewards: [B, d] -> [B]."""
        reward: Tensor = self.layers(z).squeeze(-1)
        return reward
