"""The whole representation of a method as one module, for any training loop."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.config import check_whole
from pamd.distances import Distance
from pamd.methods import Method
from pamd.methods import method as named_method
from pamd.models import ALL, Prediction, RewardDecoder, StateReward, make_transition
from pamd.objective import metric_loss
from pamd.operators import Operator
from pamd.optimization import follow, slow_copy
from pamd.representation.encoder import LatentEncoder
from pamd.representation.extras import action_rewards, extra_fields
from pamd.representation.inputs import check_transitions, encode_action
from pamd.representation.latents import BatchLatents, CachedLatents
from pamd.representation.losses import Losses
from pamd.types import Extras, Latents, Loss

__all__ = ["Representation"]


class Representation(nn.Module):
    """Encoder, its slow copies, latent model, reward decoder, distance and its slow copy, operator and objective.

    Train it together with your own loss: add `losses(...).total`, step `parameters()`, then call `follow()` once per
    update.

    Args:
        method: a name such as "simsr+pamd" (`pamd list methods`), or a `Method` record.
        encoder: a module that maps observations to [B, d]. The method's latent space is applied to its output.
        action_dim: the size of continuous actions, or the number of discrete actions.
        latent_dim: d; by default the method's (usually 50).
        fidelity: "paper" or "released", for a method given by name.
        gamma: the discount of the operator; by default the method's (0.99).
        normalized: the encoder's output already lies in the method's latent space and is not normalized again.
        slow_encoder: keep a slow copy of the encoder even if the method does not read one.
    """

    def __init__(
        self,
        method: str | Method,
        *,
        encoder: nn.Module,
        action_dim: int,
        latent_dim: int | None = None,
        fidelity: Literal["paper", "released"] = "paper",
        gamma: float | None = None,
        normalized: bool = False,
        slow_encoder: bool = False,
    ) -> None:
        super().__init__()
        method = named_method(method, fidelity) if isinstance(method, str) else method
        method = method.adapted(latent_dim=latent_dim, gamma=gamma).resolved
        check_whole(f"method {method.name!r}", "action_dim", action_dim, 1)
        d = method.latent_dim
        self.method, self.action_dim = method, action_dim
        if not isinstance(encoder, LatentEncoder):
            encoder = LatentEncoder.from_method(encoder, method, normalized=normalized)
        self.encoder = encoder
        init, std = method.model_init, method.transition_std
        self.transition = make_transition(method.transition, d, action_dim, members=method.ensemble, init=init, std=std)
        self.reward_decoder = RewardDecoder(d, init) if method.reward_decoder else None
        self.state_reward = StateReward(d, init) if method.state_reward else None
        self.distance: Distance[Any] | None = None
        self.operator: Operator[Any] | None = None
        if method.distance is not None and method.operator is not None:
            self.distance = method.distance.cls(d, method.distance.options)
            self.operator = method.operator.cls(method.operator.options)
        slow = method.slow_encoders | ({"ema"} if slow_encoder else set())
        self.slow_encoders = nn.ModuleDict({which: slow_copy(encoder) for which in sorted(slow)})
        self.target_distance: Distance[Any] | None = None
        if self.distance is not None and method.target_distance == "ema":
            self.target_distance = slow_copy(self.distance)
        self.updates: Tensor
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))
        self._counted: int | None = 0
        self.register_load_state_dict_post_hook(_forget_count)  # type: ignore[no-untyped-call]

    def train(self, mode: bool = True) -> Representation:
        """Set the mode, but keep slow copies in evaluation mode, so that targets do not depend on dropout."""
        super().train(mode)
        self.slow_encoders.eval()
        if self.target_distance is not None:
            self.target_distance.eval()
        return self

    def extra_repr(self) -> str:
        """Return the method with all of its fields, for `repr`."""
        return f"method={self.method!r}, action_dim={self.action_dim}"

    def encode(self, obs: Tensor) -> Tensor:
        """Return the latents for a critic or policy, with gradient: [B, ...] -> z [B, d]."""
        z: Tensor = self.encoder(obs)
        return z

    def forward(self, obs: Tensor, *transition: Tensor, **options: Any) -> Tensor | Losses:
        """Return `encode(obs)`, or `losses(obs, *transition, **options)` for actions, rewards and next observations.

        A wrapper such as DistributedDataParallel forwards only this call, so the losses must be reachable through it.
        """
        return self.losses(obs, *transition, **options) if transition else self.encode(obs)

    def losses(
        self,
        obs: Tensor,
        action: Tensor,
        reward: Tensor,
        next_obs: Tensor,
        *,
        not_done: Tensor | None = None,
        z: Tensor | None = None,
        generator: torch.Generator | None = None,
        extras: Extras | None = None,
    ) -> Losses:
        """Return the weighted losses of B transitions.

        obs, next_obs: [B, ...]; action: [B, A] floats, or [B] int64 for discrete actions; reward: [B] or [B, 1].
        `not_done` [B] or [B, 1]: 0 if the episode terminated, else 1; a pair with a 0 has no discounted term.
        `z`: the result of `encode(obs)`, if it is already computed. `generator` draws pairs and noise; by default,
        torch's global generator does. `extras`: inputs of the operators "value", "advantage" and "n-step".
        """
        reward = reward.squeeze(-1) if reward.ndim == 2 and reward.shape[1] == 1 else reward
        check_transitions(self.encoder, obs, action, reward, next_obs, z)
        action = encode_action(action, self.action_dim)
        self.encoder.observe(reward)
        if not_done is not None:
            extras = dataclasses.replace(extras or Extras(), not_done=not_done)
        window_obs = None if extras is None or extras.window is None else extras.window.obs
        latents = self.cache(obs, next_obs, z=z, window_obs=window_obs)
        terms = self.model_losses(latents, action, reward, generator)
        terms |= self.metric_losses(latents, action, reward, generator, extras)
        return Losses(terms) if terms else Losses(zero=0 * latents.z.sum())

    @torch.no_grad()
    def follow(self, *, at_once: bool = False) -> None:
        """Update the slow copies. Call this once after every update.

        `at_once`: update the "ema" copies even if they are not due.
        """
        method, updates = self.method, self._count_update()
        if at_once or (updates + method.follow_offset) % method.follow_every == 0:
            if "ema" in self.slow_encoders:
                follow(self.slow_encoders["ema"], self.encoder, method.encoder_tau)
            if self.target_distance is not None and self.distance is not None:
                follow(self.target_distance, self.distance, method.encoder_tau)
        if "periodic" in self.slow_encoders and (updates + method.target_offset) % method.target_period == 0:
            follow(self.slow_encoders["periodic"], self.encoder, 1.0)

    def _count_update(self) -> int:
        """Count one update. For a GPU the host counts as well, because reading `updates` would wait for the GPU."""
        self.updates += 1
        on_host = self.updates.device.type == "cpu"
        self._counted = int(self.updates) if on_host or self._counted is None else self._counted + 1
        return self._counted

    def cache(
        self,
        obs: Tensor,
        next_obs: Tensor,
        *,
        z: Tensor | None = None,
        return_obs: Tensor | None = None,
        window_obs: Tensor | None = None,
    ) -> CachedLatents:
        """Return the latents of a batch under the current weights. Each is computed on first use.

        `return_obs`: the observations at which n-step returns end; by default `next_obs`. `window_obs`: the
        observations at which windows end.
        """
        slow: Any = dict(self.slow_encoders.items())
        return CachedLatents(obs, next_obs, self.encoder, slow, z=z, return_obs=return_obs, window_obs=window_obs)

    def model_losses(
        self, latents: BatchLatents, action: Tensor, reward: Tensor, generator: torch.Generator | None
    ) -> dict[str, Loss]:
        """Return the weighted "transition" and "reward" terms. Both train the encoder through `latents.z`."""
        method, terms = self.method, {}
        if self.transition is not None:
            predicted = self._prediction(latents, action)
            transition = predicted.loss(latents.z_next(method.next_latent_encoder))
            terms["transition"] = Loss(method.transition_weight * transition, {"transition_loss": transition.detach()})
            if self.reward_decoder is not None:
                decoded = self.reward_decoder(predicted.member(generator).sample(generator))
                terms["reward"] = self._reward_loss(F.mse_loss(decoded, reward))
        if self.state_reward is not None:
            terms["reward"] = self._reward_loss(self.state_reward(latents.z).loss(reward))
        return terms

    def _reward_loss(self, loss: Tensor) -> Loss:
        return Loss(self.method.reward_weight * loss, {"reward_loss": loss.detach()})

    def metric_losses(
        self,
        latents: BatchLatents,
        action: Tensor,
        reward: Tensor,
        generator: torch.Generator | None,
        extras: Extras | None = None,
    ) -> dict[str, Loss]:
        """Return the weighted "metric" term (eq:metric_loss). Gradients reach only `latents.z` and the distance."""
        if self.distance is None or self.operator is None:
            return {}
        seen = self.metric_latents(latents, action, reward, generator, extras)
        slow = self.target_distance or self.distance
        objective = self.method.objective
        loss = metric_loss(seen, self.distance, self.operator, objective, target_distance=slow, generator=generator)
        return {"metric": loss}

    def metric_latents(
        self,
        latents: BatchLatents,
        action: Tensor,
        reward: Tensor,
        generator: torch.Generator | None,
        extras: Extras | None = None,
    ) -> Latents:
        """Return the inputs of the distance and the operator for a batch. Only `z` carries a gradient."""
        assert self.operator is not None
        method, needs = self.method, self.operator.needs
        fields = extra_fields(method, extras)
        if method.objective.right == "target":
            fields["z_target"] = latents.fixed_z(method.target_encoder)
        if "z_next" in needs:
            fields["z_next"] = latents.z_next(method.target_encoder)
        if "reward_std" in needs and self.state_reward is not None:
            with torch.no_grad():
                fields["reward_std"] = self.state_reward(latents.fixed_z(method.target_encoder)).std
        if "z_window" in needs:
            fields["z_window"] = latents.z_window(method.target_encoder)
        if needs & {"next_mean", "next_std", "next_sample"}:
            fields |= self._sample_next(latents, action, generator)
        if "action_reward" in needs:
            z = latents.fixed_z(method.target_encoder)
            tried = encode_action(action, self.action_dim)[: self.operator.config.actions]
            fields["action_reward"] = action_rewards(self._predicted_by_one, self.reward_decoder, z, tried, generator)
        return Latents(z=latents.z, reward=reward, **fields)

    def _prediction(self, latents: BatchLatents, action: Tensor) -> Prediction:
        """Return the latent model's prediction from the online latents, with gradient."""
        predicted: Prediction = latents.once("prediction", lambda: self._predicted(latents.z, action))
        return predicted

    @torch.no_grad()
    def _sample_next(
        self, latents: BatchLatents, action: Tensor, generator: torch.Generator | None
    ) -> dict[str, Tensor]:
        """Return the mean, standard deviation and a sample of one member's prediction, without gradient."""
        which = self.method.target_encoder
        if which == "online":
            with torch.enable_grad():  # the transition loss shares this prediction
                chosen = self._prediction(latents, action).member(generator)
        else:
            chosen = self._predicted_by_one(latents.fixed_z(which), action, generator)
        fields = {"next_mean": chosen.mean[0].detach(), "next_sample": chosen.sample(generator).detach()}
        if self.operator is not None and "next_sample_other" in self.operator.needs:
            fields["next_sample_other"] = chosen.sample(generator).detach()
        if chosen.log_std is not None:
            fields["next_std"] = chosen.log_std[0].exp().detach()
        return fields

    def _predicted_by_one(self, z: Tensor, action: Tensor, generator: torch.Generator | None) -> Prediction:
        """Return the prediction of one member from z [B, d]. The member is drawn for the whole batch."""
        assert self.transition is not None
        return self._predicted(z, action, self.transition.one(generator))

    def _predicted(self, z: Tensor, action: Tensor, members: slice = ALL) -> Prediction:
        """Return the latent model's prediction from z [B, d], projected if the method says so."""
        assert self.transition is not None
        predicted: Prediction = self.transition(z, encode_action(action, self.action_dim), members)
        return predicted.projected(self.encoder.space) if self.method.project_predictions else predicted


def _forget_count(module: Representation, _: object) -> None:
    """Drop the cached count, because a loaded state has a different one."""
    module._counted = None
