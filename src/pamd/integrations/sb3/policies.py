"""Policies in which the critic reads a bounded latent, and the actor reads the same latent without gradient."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.preprocessing import get_flattened_obs_dim
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, NatureCNN
from stable_baselines3.dqn.policies import DQNPolicy
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import TD3Policy
from torch import Tensor, nn

from pamd.encoders.mlp import Mlp, MlpConfig
from pamd.errors import ConfigError
from pamd.methods import LatentSpace
from pamd.representation.encoder import Ball, Normalize

NATURE_SIZE = 36
"""The minimum image size for the three convolutions of NatureCNN."""
KERNEL = 3
"""The size of the convolution for smaller images."""
COLORS = 4
"""The largest number of channels of one image, with transparency."""
Q_WIDTH = 512
"""The width of the hidden layer between latent and action values, as in NatureCNN."""


class LatentCNN(BaseFeaturesExtractor):
    """Encodes images [B, C, H, W] to latents [B, d] in the method's latent space.

    It has the convolutions of NatureCNN (for images under 36 pixels, one convolution with 16 filters of 3 x 3, as
    usual for MinAtar), a linear layer without ReLU, and the latent space. NatureCNN itself ends in ReLU features, which
    are neither bounded nor centered. `ball_radius` is that of the latent space "ball".
    """

    def __init__(
        self,
        observation_space: spaces.Box,
        latent_dim: int = 50,
        latent_space: LatentSpace = "layernorm",
        ball_radius: float | None = None,
    ) -> None:
        _check_images(observation_space)
        super().__init__(observation_space, latent_dim)
        self.latent_space = latent_space
        if min(observation_space.shape[1:]) >= NATURE_SIZE:
            nature = NatureCNN(observation_space, latent_dim, normalized_image=True)
            self.trunk, self.project = nature.cnn, nature.linear[0]
        else:
            channels, height, width = observation_space.shape
            self.trunk = nn.Sequential(nn.Conv2d(channels, 16, KERNEL), nn.ReLU(), nn.Flatten())
            self.project = nn.Linear(16 * (height - KERNEL + 1) * (width - KERNEL + 1), latent_dim)
        self.space = Normalize(latent_space, latent_dim, Ball(radius=ball_radius))

    def forward(self, observations: Tensor) -> Tensor:
        """Encode images [B, C, H, W] in [0, 1] to latents [B, d]."""
        z: Tensor = self.space(self.project(self.trunk(observations)))
        return z


def _check_images(space: spaces.Space[Any]) -> None:
    shape = list(space.shape or ())
    wanted = f"LatentCNN requires images [C, H, W], got observations {shape}"
    if len(shape) != 3:
        raise ConfigError(f"{wanted}; add an axis of channels, or give policy_kwargs another features_extractor_class")
    if shape[2] <= COLORS < shape[0]:
        # SB3 moves the channels of uint8 images only. Convolutions would run over rows and colors.
        raise ConfigError(f"{wanted}, whose channels are last; use uint8 from 0 to 255, or transpose them to [C, H, W]")
    if min(shape[1:]) < KERNEL:
        raise ConfigError(f"{wanted}; the least size is {KERNEL} x {KERNEL}")


class LatentMLP(BaseFeaturesExtractor):
    """Encodes vectors [B, n] to latents [B, d] in the method's latent space: the encoder `mlp` of this package."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        latent_dim: int = 50,
        latent_space: LatentSpace = "layernorm",
        ball_radius: float | None = None,
        hidden: int = 256,
        layers: int = 2,
    ) -> None:
        super().__init__(observation_space, latent_dim)
        self.latent_space = latent_space
        width = get_flattened_obs_dim(observation_space)
        self.encoder = Mlp(MlpConfig(hidden=hidden, layers=layers), (width,), latent_dim)
        self.space = Normalize(latent_space, latent_dim, Ball(radius=ball_radius))

    def forward(self, observations: Tensor) -> Tensor:
        """Encode vectors [B, n] to latents [B, d]."""
        z: Tensor = self.space(self.encoder(observations))
        return z


def latent_extractor(space: spaces.Space[Any]) -> type[LatentCNN] | type[LatentMLP]:
    """Return the extractor of "LatentPolicy": a LatentCNN for images, and a LatentMLP for vectors and numbers."""
    return LatentMLP if len(space.shape or ()) < 2 else LatentCNN


class WithoutGradient(BaseFeaturesExtractor):
    """Runs the extractor of another network without gradient. It has no parameters itself."""

    def __init__(self, extractor: BaseFeaturesExtractor) -> None:
        super().__init__(extractor._observation_space, extractor.features_dim)
        self._extractor = (extractor,)  # The tuple prevents registration as a submodule.

    @torch.no_grad()
    def forward(self, observations: Tensor) -> Tensor:
        z: Tensor = self._extractor[0](observations)
        return z


def _read_latents(space: spaces.Space[Any], kwargs: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    """Return keyword arguments of a policy that reads latents of observations in `space` by default."""
    return {"features_extractor_class": latent_extractor(space), **defaults, **kwargs}


class LatentSACPolicy(SACPolicy):
    """SAC whose actor reads the critic's encoder without gradient. The critic's loss alone trains the encoder."""

    def __init__(self, observation_space: spaces.Space[Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(observation_space, *args, **_read_latents(observation_space, kwargs))

    def _build(self, lr_schedule: Any) -> None:
        _build_critics(self, lr_schedule)
        self.actor = self.make_actor(WithoutGradient(self.critic.features_extractor))
        self.actor.optimizer = _make_optimizer(self, self.actor, lr_schedule)


class LatentTD3Policy(TD3Policy):
    """TD3 whose actors read the critics' encoders without gradient. The critic's loss alone trains the encoder."""

    def __init__(self, observation_space: spaces.Space[Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(observation_space, *args, **_read_latents(observation_space, kwargs))

    def _build(self, lr_schedule: Any) -> None:
        _build_critics(self, lr_schedule)
        self.actor = self.make_actor(WithoutGradient(self.critic.features_extractor))
        self.actor_target = self.make_actor(WithoutGradient(self.critic_target.features_extractor))
        self.actor_target.load_state_dict(self.actor.state_dict())
        self.actor_target.set_training_mode(False)
        self.actor.optimizer = _make_optimizer(self, self.actor, lr_schedule)


def _build_critics(policy: SACPolicy | TD3Policy, lr_schedule: Any) -> None:
    """Build the critic with its own encoder, its target network and its optimizer."""
    policy.critic, policy.critic_target = policy.make_critic(), policy.make_critic()
    policy.critic_target.load_state_dict(policy.critic.state_dict())
    policy.critic_target.set_training_mode(False)
    policy.critic.optimizer = _make_optimizer(policy, policy.critic, lr_schedule)


def _make_optimizer(policy: BasePolicy, network: nn.Module, lr_schedule: Any) -> torch.optim.Optimizer:
    optimizer: Any = policy.optimizer_class
    made: torch.optim.Optimizer = optimizer(network.parameters(), lr=lr_schedule(1), **policy.optimizer_kwargs)
    return made


class LatentDQNPolicy(DQNPolicy):
    """DQN with one hidden layer between the latent and the action values."""

    def __init__(self, observation_space: spaces.Space[Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(observation_space, *args, **_read_latents(observation_space, kwargs, net_arch=[Q_WIDTH]))


class LatentPPOPolicy(ActorCriticPolicy):
    """PPO with policy and value heads on the latent. Both losses train the encoder, as in SB3's own policies."""

    def __init__(self, observation_space: spaces.Space[Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(observation_space, *args, **_read_latents(observation_space, kwargs))


LATENT_POLICIES: dict[str, type[BasePolicy]] = {
    "SAC": LatentSACPolicy,
    "TD3": LatentTD3Policy,
    "DQN": LatentDQNPolicy,
    "PPO": LatentPPOPolicy,
}
"""The "LatentPolicy" of each algorithm."""
