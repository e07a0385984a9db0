"""DrM: what a learner does about dormant units. The share of dormant units controls noise, targets and perturbations.

A hidden unit is dormant if its activation is small compared with its layer's (`pamd.representation.meters`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from pamd.initialization import initialize
from pamd.latents import BatchLatents
from pamd.learners.networks import perceptron
from pamd.optimization import expectile_loss
from pamd.schema import Count, Fraction, Level, record
from pamd.types import Loss

_TURN = 0.2
"""The dormant ratio at which noise and targets are half way between their extremes."""
_LEAST_KEPT = 0.2
"""The smallest share of the weights that a perturbation keeps."""


@record(what="learner.drm")
class DrmOptions:
    """The options of DrM. beta is the dormant ratio of the actor that was measured last."""

    measure_every: Count = 100
    """Updates between two measurements of beta. The first update measures it."""
    perturb_every: Count | None = 50_000
    """Updates between two perturbations of encoder, actor and critic. Null: there are none."""
    alpha_max: Fraction = 0.9
    """The largest share of the weights that a perturbation keeps; the share is 1 - 2 beta, and at least 0.2."""
    exploration: bool = True
    """Whether the standard deviation of the noise is 1 / (1 + exp(-10 (beta - 0.2))). From the first measurement of at
    most 0.2 on, it is at least the scheduled one, which starts then. Only for learners with scheduled noise."""
    value_weight: Annotated[float, Ge(0), Le(1)] = 0.6
    """The largest weight of V in the critic's target. It is multiplied by 1 / (1 + exp(50 (beta - 0.2))). 0: no V."""
    value_expectile: Level = 0.9
    """The expectile of Q over the actions in the replay that V learns."""


class Drm(nn.Module):
    """The state of DrM in a learner: the ratio in use, the time of awakening, and V. All of it is saved."""

    ratio: Tensor
    awake_at: Tensor

    def __init__(self, options: DrmOptions, latent_dim: int, hidden: int, layer_norm: bool) -> None:
        super().__init__()
        self.options = options
        # Before the first measurement, every unit counts as dormant: full noise, and no use of V.
        self.register_buffer("ratio", torch.ones(()))
        self.register_buffer("awake_at", torch.tensor(-1))
        self.value = perceptron(latent_dim, hidden, 1, layer_norm) if options.value_weight else None
        if self.value is not None:
            initialize(self.value)

    @torch.no_grad()
    def measure(
        self,
        ratios: Callable[[Tensor, Tensor], Mapping[str, Tensor]],
        latents: BatchLatents,
        decisions: int,
        updates: int,
    ) -> None:
        """Measure the ratio of the actor if it is due. `ratios` are the learner's. Nothing is read from the device."""
        if (updates - 1) % self.options.measure_every:
            return
        with torch.enable_grad():
            z = latents.latent()  # comes first: the critic's loss reuses this pass with its gradient
        self.ratio.copy_(ratios(latents.features(), z)["dormant_actor"])
        awakens = (self.awake_at < 0) & (self.ratio <= _TURN)
        self.awake_at.copy_(torch.where(awakens, decisions, self.awake_at))

    def noise(self, decisions: int, schedule: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the standard deviation of the noise: []. `schedule` is that of the decisions since awakening."""
        noise = torch.sigmoid(10 * (self.ratio - _TURN))
        since = (decisions - self.awake_at).clamp(min=0).to(noise.dtype)
        return torch.where(self.awake_at < 0, noise, torch.maximum(noise, schedule(since)))

    def mixed(self, value: Tensor, z: Tensor) -> Tensor:
        """Return lambda V(z) + (1 - lambda) value: [B]. z: [B, d], the latents that the target critic reads."""
        if self.value is None:
            return value
        weight = self.options.value_weight * torch.sigmoid(-50 * (self.ratio - _TURN))
        mixed: Tensor = weight * self.value(z).squeeze(-1) + (1 - weight) * value
        return mixed

    def with_value_loss(self, loss: Loss, z: Tensor, q: Tensor) -> Loss:
        """Return the critic's loss plus the expectile regression of V(z) on q [B]. z and q get no gradient."""
        metrics = {**loss.metrics, "drm_ratio": self.ratio.clone()}
        if self.value is None:
            return Loss(loss.value, metrics)
        value = expectile_loss(self.value(z.detach()).squeeze(-1), q.detach(), self.options.value_expectile)
        return Loss(loss.value + value, {**metrics, "value_loss": value.detach()})

    def perturbs(self, updates: int) -> bool:
        """Return whether update number `updates`, counted from 1, ends with a perturbation."""
        every = self.options.perturb_every
        return every is not None and updates % every == 0

    @property
    def kept(self) -> float:
        """alpha = clip(1 - 2 beta, 0.2, alpha_max), the share of the weights that a perturbation keeps."""
        return min(max(1 - 2 * float(self.ratio), _LEAST_KEPT), self.options.alpha_max)


def build_drm(options: DrmOptions | None, latent_dim: int, hidden: int, layer_norm: bool) -> Drm | None:
    """Return the state of DrM, or None if the learner does not use it."""
    return None if options is None else Drm(options, latent_dim, hidden, layer_norm)


@torch.no_grad()
def perturb(network: nn.Module, fresh: nn.Module, kept: float) -> None:
    """Set each parameter to kept * itself + (1 - kept) * the parameter of a `fresh` network. Buffers stay."""
    for parameter, new in zip(network.parameters(), fresh.parameters(), strict=True):
        parameter.lerp_(new.to(parameter.device), 1 - kept)
