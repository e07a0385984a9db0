"""The MR.Q term: a model that is unrolled in latent space and linear in z_sa predicts latents, rewards and ends."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from annotated_types import Ge
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.initialization import initialize
from pamd.latents import BatchLatents, Copy
from pamd.schema import Count, NonNegative, Positive, record
from pamd.terms.base import TERMS, Term
from pamd.types import Batch, Loss

ACTION = 256
"""Number of coordinates of an encoded action."""


@record
class MrqConfig:
    """The options of `mrq`."""

    steps: Count = 5
    """Number of steps over which the model is unrolled."""
    hidden: Count = 512
    """Number of coordinates of z_sa, and units of the hidden layer before it."""
    bins: Annotated[Count, Ge(2)] = 65
    """Number of bins of the reward's distribution."""
    largest_bin: Positive = 10.0
    """The bins are symexp(x), with x evenly spaced between minus this number and this number."""
    target_encoder: Literal["ema", "periodic"] = "periodic"
    """The copy of the encoder that computes the latents to predict."""
    latent_weight: NonNegative = 1.0
    """Weight of the squared error of the latents."""
    reward_weight: NonNegative = 0.1
    """Weight of the cross-entropy of the rewards."""
    done_weight: NonNegative = 0.1
    """Weight of the squared error of the terminations."""
    weight: NonNegative = 1.0
    """Weight of the whole term."""


@TERMS.register("mrq")
class Mrq(Term[MrqConfig]):
    """The errors of a model that predicts (z', reward, done) by one linear map of z_sa = g(z, a), unrolled.

    The first z is the state's latent, the next ones are predictions. The errors of a row are summed over its steps up
    to its end, and averaged over rows. g is an action -> 256 -> ELU, joined with z -> hidden -> LayerNorm -> ELU ->
    hidden -> ELU.
    """

    Config = MrqConfig

    def __init__(self, config: MrqConfig, latent_dim: int, action_dim: int) -> None:
        super().__init__(config, latent_dim, action_dim)
        hidden = config.hidden
        self.action = nn.Sequential(nn.Linear(action_dim, ACTION), nn.ELU())
        self.joint = nn.Sequential(
            nn.Linear(latent_dim + ACTION, hidden),
            nn.LayerNorm(hidden),
            nn.ELU(),
            nn.Linear(hidden, hidden),
            nn.ELU(),
        )
        self.linear = nn.Linear(hidden, latent_dim + config.bins + 1)
        initialize(self)

    def unroll(self, z: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Predict latents [B, n, d], logits of rewards [B, n, bins] and ends [B, n] from z [B, d], action [B, n, A]."""
        steps = []
        for encoded in self.action(action).unbind(1):
            steps.append(self.linear(self.joint(torch.cat([z, encoded], dim=-1))))
            z = steps[-1][:, : self.latent_dim]
        latent, reward, done = torch.stack(steps, 1).split([self.latent_dim, self.config.bins, 1], dim=-1)
        return latent, reward, done.squeeze(-1)

    def loss(self, latents: BatchLatents, batch: Batch) -> Loss:
        config, window = self.config, self.windows(batch)
        assert window.action is not None  # `windows` has checked it
        latent, reward, done = self.unroll(latents.z, window.action)
        bins = symexp_bins(config.bins, config.largest_bin, window.reward)
        errors = {
            "latent": (latent - latents.sequence(config.target_encoder)).square().mean(-1),
            "reward": two_hot_cross_entropy(reward, window.reward, bins),
            "done": (done - window.terminated.to(window.reward.dtype)).square(),
        }
        sums = {name: torch.where(window.mask, error, 0).sum(1).mean() for name, error in errors.items()}
        total = (
            config.latent_weight * sums["latent"]
            + config.reward_weight * sums["reward"]
            + config.done_weight * sums["done"]
        )
        return Loss(config.weight * total, {f"mrq_{name}_loss": value.detach() for name, value in sums.items()})

    @classmethod
    def copies(cls, config: MrqConfig) -> frozenset[Copy]:
        return frozenset({config.target_encoder})

    @classmethod
    def window(cls, config: MrqConfig) -> int:
        return config.steps

    @classmethod
    def sequence(cls, config: MrqConfig) -> bool:
        return True


def symexp_bins(count: int, largest: float, like: Tensor) -> Tensor:
    """Return symexp(x) = sign(x) (exp(|x|) - 1) of `count` even steps from -largest to largest, in the type of `like`.

    They are computed anew, because a stored copy would be rounded to the type of the weights.
    """
    x = torch.linspace(-largest, largest, count, dtype=like.dtype, device=like.device)
    return x.sign() * torch.expm1(x.abs())


def two_hot_cross_entropy(logits: Tensor, value: Tensor, bins: Tensor) -> Tensor:
    """Return the cross-entropy [...] of logits [..., K] with the two-hot encoding of value [...] on bins [K].

    The encoding has its mass on the two bins around the value, such that its mean is the value. Values outside of the
    bins are encoded as the nearest bin.
    """
    value = value.clamp(bins[0], bins[-1])
    above = torch.searchsorted(bins, value, right=True).clamp(max=len(bins) - 1)
    low, high = bins[above - 1], bins[above]
    log_p = F.log_softmax(logits, dim=-1)
    share = ((value - low) / (high - low)).to(log_p.dtype)
    at_low, at_high = (log_p.gather(-1, index[..., None]).squeeze(-1) for index in (above - 1, above))
    return -(1 - share) * at_low - share * at_high
