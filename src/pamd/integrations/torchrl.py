"""TorchRL: use `MetricLoss(representation)` together with `SACLoss` or `DQNLoss`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pamd.errors import ConfigError, ShapeError
from pamd.integrations.requirements import check_representation, require_library
from pamd.latents import Copy, Observation
from pamd.representation import Losses, Representation
from pamd.types import OperatorInputs

require_library(__name__, "torchrl", (0, 14), "torchrl")

from tensordict import TensorDict, TensorDictBase  # noqa: E402  The version is checked first.
from tensordict.nn import dispatch  # noqa: E402
from torchrl.objectives import LossModule  # noqa: E402

_TERMS = ("metric", "transition", "reward")
"""The terms whose losses are always returned, 0 if the method does not have them. Others are added to them."""
_PADDING = ("collector", "mask")
"""The key of TorchRL's padding mask, which is True for rows that are not padding."""


class MetricLoss(LossModule):
    """The losses of a representation on a TensorDict of transitions.

    `encode` writes the latents that the networks of other losses read, so that the encoder runs once. `forward` returns
    the weighted "loss_metric", "loss_transition" and "loss_reward" (0 if the method has no such term), and detached
    scalars for logging. Call `update_targets` once after every update.

    Args:
        representation: the representation, which owns the encoder. No network of another loss may contain the encoder.
        beside: the other losses, which read the latents. Raises ConfigError if their networks contain the encoder.
        generator: the generator for pairs and noise; by default torch's global generator.
    """

    @dataclass
    class _AcceptedKeys:
        """The keys of the TensorDict, for `set_keys`."""

        observation: Any = "observation"
        """The observation, also under "next"."""
        latent: Any = "latent"
        """The latents that `encode` writes, also under "next"."""
        action: Any = "action"
        """The action: floats, one-hot rows or indices."""
        reward: Any = "reward"
        """The reward, under "next"."""
        terminated: Any = "terminated"
        """The termination flag, under "next". A time limit is not a termination."""

    default_keys = _AcceptedKeys
    out_keys = [f"loss_{term}" for term in _TERMS]
    representation: Representation

    def __init__(
        self,
        representation: Representation,
        *,
        beside: Sequence[LossModule] = (),
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_representation("MetricLoss", representation)
        for loss in beside:
            _check_networks(representation, loss)
        self.representation, self.generator = representation, generator

    @property
    def in_keys(self) -> list[Any]:
        """The keys that `forward` reads. Latents are optional."""
        keys = self.tensor_keys
        return [
            keys.observation,
            keys.action,
            *(_next(key) for key in (keys.observation, keys.reward, keys.terminated)),
        ]

    def encode(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Add latents to `tensordict`. Only the latents of the states have a gradient.

        The latents of next states come from the "ema" copy of the encoder if the representation has one.
        """
        keys, rep, flat = self.tensor_keys, self.representation, tensordict.reshape(-1)
        obs, next_obs = (self._get(flat, key) for key in (keys.observation, _next(keys.observation)))
        latents = rep.batch_latents(obs, self._action(flat), self._reward(flat), next_obs)
        z, z_next = latents.z, latents.latent("next_obs", self._next_copy)
        written = tensordict.copy()
        written.set(keys.latent, z.unflatten(0, tensordict.batch_size))
        written.set(_next(keys.latent), z_next.unflatten(0, tensordict.batch_size))
        return written

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDict:
        """Return the losses of the transitions [B, ...]. Latents written by `encode` are reused."""
        if tensordict.get("steps_to_next_obs", None) is not None:
            raise ConfigError(
                "MultiStep sums rewards over several steps, but the metric's target reads the reward of one step;"
                " sample the metric's batch from a buffer of single steps"
            )
        flat = tensordict.reshape(-1)
        if (valid := flat.get(_PADDING, None)) is not None:
            flat = flat[valid.reshape(-1)]
        losses = self._losses(flat)
        zero = losses.total.new_zeros(())
        values = {f"loss_{term}": zero for term in _TERMS}
        values |= {f"loss_{term}": loss.value for term, loss in losses.items()}
        return TensorDict({**losses.metrics, **values})

    def update_targets(self) -> None:
        """Update the target copies of the representation. Call this once after every update."""
        self.representation.update_targets()

    def follow(self) -> None:
        """Call `update_targets`, which is the new name."""
        self.representation.follow()

    def _losses(self, batch: TensorDictBase) -> Losses:
        keys, rep, reward = self.tensor_keys, self.representation, self._reward(batch)
        obs, next_obs = (self._get(batch, key) for key in (keys.observation, _next(keys.observation)))
        not_done = 1 - self._get(batch, _next(keys.terminated)).reshape(len(obs)).to(reward.dtype)
        latents = rep.batch_latents(
            obs,
            self._action(batch),
            reward,
            next_obs,
            generator=self.generator,
            inputs=OperatorInputs(not_done=not_done),
            known=self._known(batch),
        )
        return rep.losses_of(latents)

    def _known(self, batch: TensorDictBase) -> dict[tuple[Observation, Copy], Tensor]:
        """Return the latents that `encode` has written."""
        keys = self.tensor_keys
        z, z_next = (batch.get(key, None) for key in (keys.latent, _next(keys.latent)))
        if z is None:
            return {}
        if torch.is_grad_enabled() and not z.requires_grad:
            raise ConfigError(
                f"{keys.latent!r} has no gradient, so the losses would not train the encoder; pass what"
                " MetricLoss.encode returned, not detached, with gradients on"
            )
        known: dict[tuple[Observation, Copy], Tensor] = {("obs", "online"): z}
        return known if z_next is None else {**known, ("next_obs", self._next_copy): z_next.detach()}

    @property
    def _next_copy(self) -> Copy:
        return "ema" if "ema" in self.representation.target_encoders else "online"

    def _reward(self, batch: TensorDictBase) -> Tensor:
        """Return the rewards [B] of a flat batch."""
        key = _next(self.tensor_keys.reward)
        reward = self._get(batch, key)
        if reward.numel() != len(batch):
            raise ShapeError(f"{key} must hold one reward per transition, {len(batch)}, got {list(reward.shape)}")
        return reward.reshape(-1)

    def _action(self, batch: TensorDictBase) -> Tensor:
        """Return actions in the format of the representation. One-hot rows of any type become floats."""
        action = self._get(batch, self.tensor_keys.action)
        rows = action.ndim == 2 and action.shape[1] == self.representation.action_dim > 1
        return action.to(torch.get_default_dtype()) if rows and not action.is_floating_point() else action

    def _get(self, batch: TensorDictBase, key: Any) -> Tensor:
        value: Tensor | None = batch.get(key, None)
        if value is None:
            known = ", ".join(sorted(str(known) for known in batch.keys(True, True)))
            raise ConfigError(f"the TensorDict has no {key!r}; name the key with set_keys. Its keys: {known}")
        return value


def _next(key: Any) -> tuple[Any, ...]:
    return ("next", *(key if isinstance(key, tuple) else (key,)))


def _check_networks(representation: Representation, loss: LossModule) -> None:
    """Raise ConfigError if a network of `loss` contains the representation's encoder."""
    encoder = {id(p) for p in representation.encoder.parameters()}
    for name, network in vars(loss).items():
        if isinstance(network, nn.Module) and encoder & {id(p) for p in network.parameters()}:
            raise ConfigError(
                f"{name} of {type(loss).__name__} contains the representation's encoder. A loss may train a copy of it"
                " (SACLoss does, with new random parameters); let the network read the latents that MetricLoss.encode"
                " writes"
            )
