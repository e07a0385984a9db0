"""The data types that the parts of the package exchange, with their shapes.

B is the batch size, P the number of pairs, d the latent dimension. An observation is k stacked frames. An action has A
coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from pamd.errors import DtypeError, ShapeError
from pamd.schema import explained


@explained
@dataclass(frozen=True)
class NStep:
    """The returns of B transitions over m steps. m is n, or less if the episode or the replay ends earlier."""

    reward: Tensor
    """[B], float32: the sum of gamma^k r_{t+k} over k < m"""
    next_obs: Tensor
    """[B, ...], like `Batch.obs`: the observation after m steps"""
    discount: Tensor
    """[B], float32: gamma^m, or 0 if the episode terminated within the m steps. A time limit bootstraps."""


@explained
@dataclass(frozen=True)
class Window:
    """B transitions and the steps after them, m steps in total.

    m is n, or less if the episode or the replay ends earlier. The rewards are separate, because an operator compares
    two windows step by step. What a window holds after the m-th step has no meaning; `mask` leaves it out.
    """

    reward: Tensor
    """[B, n], float32: the reward of each step, not discounted; 0 after the m-th"""
    length: Tensor
    """[B], int64: m"""
    obs: Tensor | None
    """[B, ...], like `Batch.obs`: the observation after m steps. None if `sequence` holds it."""
    not_done: Tensor
    """[B], float32: 0 if the episode terminated at the m-th step, 1 otherwise"""
    action: Tensor | None = None
    """[B, n, A], float32; or [B, n], int64, for discrete actions: the action of each step"""
    sequence: Tensor | None = None
    """[B, n, ...]: the observation after each step, for terms that read all of them. The first is `Batch.next_obs`."""

    @property
    def mask(self) -> Tensor:
        """[B, n], bool: whether each step belongs to the m steps."""
        return torch.arange(self.reward.shape[1], device=self.length.device) < self.length[:, None]

    @property
    def terminated(self) -> Tensor:
        """[B, n], bool: whether each step terminated the episode. Only the m-th one can."""
        steps = torch.arange(1, self.reward.shape[1] + 1, device=self.length.device)
        return (steps == self.length[:, None]) & (self.not_done[:, None] == 0)

    @property
    def last_obs(self) -> Tensor:
        """[B, ...]: the observation after m steps."""
        if self.obs is not None:
            return self.obs
        assert self.sequence is not None  # Batch has checked it
        return self.sequence[torch.arange(len(self.length), device=self.length.device), self.length - 1]


_Sampled = TypeVar("_Sampled", "Batch", NStep, Window)


@explained
@dataclass(frozen=True)
class Batch:
    """B transitions from replay."""

    obs: Tensor
    """[B, ...], uint8 or float32: k stacked frames, the newest last, as [B, k*C, H, W] or [B, k*n]"""
    action: Tensor
    """[B, A], float32; or [B], int64, for discrete actions"""
    reward: Tensor
    """[B], float32"""
    next_obs: Tensor
    """[B, ...], like `obs`"""
    not_done: Tensor
    """[B], float32: 0 if the episode terminated, 1 otherwise. It is 1 at a time limit, which bootstraps."""
    n_step: NStep | None = None
    """The same transitions over n steps, if n-step returns were sampled."""
    window: Window | None = None
    """The same transitions and the steps after them, if windows were sampled."""
    original_obs: Tensor | None = None
    """[B, ...]: `obs` before the agent augmented it; None if `obs` is not augmented"""

    def __post_init__(self) -> None:
        if self.obs.ndim < 2:
            raise ShapeError(f"Batch.obs must be [B, ...] with at least two axes, got {list(self.obs.shape)}")
        if self.obs.dtype == torch.bool or self.obs.is_complex():
            raise DtypeError(f"Batch.obs must be uint8, another integer type or floating-point, got {self.obs.dtype}")
        self._check_action()
        vector, obs = (len(self),), tuple(self.obs.shape)
        _check_shapes("Batch", self, reward=vector, next_obs=obs, not_done=vector)
        if self.n_step is not None:
            _check_shapes("Batch.n_step", self.n_step, reward=vector, next_obs=obs, discount=vector)
        if self.original_obs is not None:
            _check_shapes("Batch", self, original_obs=obs)
        if self.window is not None:
            _check_window(self.window, obs, tuple(self.action.shape))

    def __len__(self) -> int:
        return self.obs.shape[0]

    def to(self, device: torch.device, *, non_blocking: bool = False) -> Batch:
        """Return the batch on `device`, or itself if it is already there.

        `non_blocking`: return before the copies from pinned memory are done. That memory must not change until then.
        """
        if self.obs.device == device:
            return self
        return _moved(self, device, non_blocking)

    def _check_action(self) -> None:
        shape = list(self.action.shape)
        if self.action.ndim not in (1, 2) or shape[0] != len(self):
            raise ShapeError(f"Batch.action must be [{len(self)}, A], or [{len(self)}] if discrete, got {shape}")
        if self.action.ndim == 1 and self.action.dtype != torch.int64:
            raise DtypeError(f"Batch.action of shape {shape} must be int64 (discrete actions), got {self.action.dtype}")
        if self.action.ndim == 2 and not self.action.is_floating_point():
            raise DtypeError(f"Batch.action of shape {shape} must be float32, got {self.action.dtype}")


def _moved(record: _Sampled, device: torch.device, non_blocking: bool) -> _Sampled:
    moved: dict[str, Any] = {}
    for item in fields(record):
        value = getattr(record, item.name)
        if isinstance(value, Tensor):
            moved[item.name] = value.to(device, non_blocking=non_blocking)
        elif value is not None:
            moved[item.name] = _moved(value, device, non_blocking)
    return replace(record, **moved)


def _check_shapes(owner: str, record: object, **expected_shapes: tuple[int, ...]) -> None:
    for name, expected in expected_shapes.items():
        shape = tuple(getattr(record, name).shape)
        if shape != expected:
            raise ShapeError(f"{owner}.{name} must be {list(expected)}, got {list(shape)}")


def _check_window(window: Window, obs: tuple[int, ...], action: tuple[int, ...]) -> None:
    """Raise ShapeError unless the window belongs to a batch with these shapes of observations and actions."""
    size, *shape = obs
    steps = (size, *window.reward.shape[1:2])
    _check_shapes("Batch.window", window, reward=steps, length=(size,), not_done=(size,))
    if window.obs is None and window.sequence is None:
        raise ShapeError("Batch.window must have obs, the last observations, or sequence, all of them; got neither")
    optional = {"obs": obs, "action": (*steps, *action[1:]), "sequence": (*steps, *shape)}
    given = {name: expected for name, expected in optional.items() if getattr(window, name) is not None}
    _check_shapes("Batch.window", window, **given)


class Measurement(NamedTuple):
    """The values of a distance for P pairs."""

    value: Tensor
    """[P], or [P, d] from a coordinate-wise comparator."""
    penalty: Tensor
    """[]: the term to add to the loss. PAMD's penalty is negative, because it rewards anisotropy."""
    stats: Mapping[str, Tensor]
    """Detached scalars for the log."""


class Loss(NamedTuple):
    """A scalar to minimize, and metrics to log."""

    value: Tensor
    """[]"""
    metrics: Mapping[str, Tensor]
    """Detached scalars."""


@explained
@dataclass(frozen=True)
class Pairs:
    """P pairs of rows of one batch: row `left[p]` is paired with row `right[p]`."""

    left: Tensor
    """[P], int64"""
    right: Tensor
    """[P], int64"""
    complete: bool = False
    """Whether these are all B x B pairs in row-major order. Matrix computations are then possible."""
    aligned: bool = False
    """Whether `left` is 0, 1, ..., B - 1. The left rows are then the batch itself, without a copy."""

    def __post_init__(self) -> None:
        if self.left.ndim != 1 or self.left.shape != self.right.shape:
            raise ShapeError(f"Pairs must be [P] and [P], got {list(self.left.shape)} and {list(self.right.shape)}")

    @staticmethod
    def permutation(batch: int, generator: torch.Generator | None = None, device: torch.device | None = None) -> Pairs:
        """Return B pairs: each row with its image under one random permutation. Fixed points may occur."""
        device_ = device or torch.device("cpu")
        # Draw on the generator's device, so that a CPU generator gives the same pairs on every device.
        drawn_on = generator.device if generator is not None else device_
        right = torch.randperm(batch, generator=generator, device=drawn_on).to(device_)
        return Pairs(torch.arange(batch, device=device_), right, aligned=True)

    @staticmethod
    def all(batch: int, device: torch.device | None = None) -> Pairs:
        """Return all B x B ordered pairs in row-major order, including the diagonal."""
        rows = torch.arange(batch, device=device)
        return Pairs(rows.repeat_interleave(batch), rows.repeat(batch), complete=True)

    def __len__(self) -> int:
        return self.left.shape[0]


@explained
@dataclass(frozen=True)
class Latents:
    """The inputs of the objective for one batch of transitions.

    Every network has run once to fill this. Code that reads it does not run an encoder again. Only `z` and `reward` are
    always required. An operator lists the fields that it requires (`Operator.needs`). The fields of shape [B] may also
    be [B, 1]. Their last dimension is then removed, because [B, 1] against [B] would broadcast to [B, B].
    """

    z: Tensor
    """[B, d]: the online encoder's latents of the states, with gradient."""
    reward: Tensor
    """[B]: the reward of each transition."""
    z_target: Tensor | None = None
    """[B, d]: the slow encoder's latents of the same states."""
    z_next: Tensor | None = None
    """[B, d]: latents of the next states, from replay."""
    next_mean: Tensor | None = None
    """[B, d]: the latent model's mean of the next latent."""
    next_std: Tensor | None = None
    """[B, d]: its standard deviation."""
    next_sample: Tensor | None = None
    """[B, d]: one sample of the next latent from the model."""
    reward_std: Tensor | None = None
    """[B]: the standard deviation of each state's reward, predicted by a model."""
    not_done: Tensor | None = None
    """[B]: 0 if the episode terminated, else 1. The target of a pair with a 0 has no discounted term."""
    weight: Tensor | None = None
    """[B]: sample weights. The weight of a pair is the mean of its two weights, relative to the mean over pairs."""
    next_sample_other: Tensor | None = None
    """[B, d]: a second sample of the next latent from the model, independent of the first."""
    value: Tensor | None = None
    """[B]: V(s), the learner's value of the states."""
    action_value: Tensor | None = None
    """[B]: Q(s, a), the learner's value of the transitions' actions."""
    policy_action: Tensor | None = None
    """[B, A]: the policy's action in the states, or the probabilities of A discrete actions."""
    action_reward: Tensor | None = None
    """[B, K]: the model's rewards of K actions, which are the same for every state."""
    z_window: Tensor | None = None
    """[B, d]: latents of the states at which windows end."""
    window_reward: Tensor | None = None
    """[B, n]: `Window.reward`."""
    window_length: Tensor | None = None
    """[B]: `Window.length`."""
    window_not_done: Tensor | None = None
    """[B]: `Window.not_done`."""

    def __post_init__(self) -> None:
        if not isinstance(self.z, Tensor):
            raise DtypeError(f"Latents.z must be a torch.Tensor, got {type(self.z).__name__}")
        if not (isinstance(self.reward, Tensor) and self.reward.is_floating_point()):
            kind = getattr(self.reward, "dtype", type(self.reward).__name__)
            raise DtypeError(f"Latents.reward must be a floating-point tensor, got {kind}")
        if self.z.ndim != 2 or not len(self.z):
            raise ShapeError(f"Latents.z must be [B, d], got {list(self.z.shape)}")
        batch = self.z.shape[0]
        for item in fields(self):
            value = getattr(self, item.name)
            if value is None and item.default is None:
                continue
            if not isinstance(value, Tensor):
                raise DtypeError(f"Latents.{item.name} must be a torch.Tensor, got {type(value).__name__}")
            if item.name in _PER_ROW:
                object.__setattr__(self, item.name, one_per_row(f"Latents.{item.name}", value, batch))
            elif item.name in _ROWS_OF_MANY:
                if value.ndim != 2 or len(value) != batch:
                    raise ShapeError(f"Latents.{item.name} must be [{batch}, n], got {list(value.shape)}")
            elif value.shape != self.z.shape:
                raise ShapeError(f"Latents.{item.name} must be {list(self.z.shape)}, got {list(value.shape)}")

    def __len__(self) -> int:
        return self.z.shape[0]


@explained
@dataclass(frozen=True)
class OperatorInputs:
    """The inputs of an operator for B transitions that a representation cannot compute. An agent computes them."""

    value: Tensor | None = None
    """[B]: V(s), for operators "value" and "advantage"."""
    action_value: Tensor | None = None
    """[B]: Q(s, a), for operator "advantage"."""
    policy_action: Tensor | None = None
    """[B, A]: the policy's action without noise, or the probabilities of A discrete actions, for operator "psm"."""
    window: Window | None = None
    """The steps after each transition, for operator "n-step" and for the terms that read windows."""
    not_done: Tensor | None = None
    """[B] or [B, 1]: 0 if the episode terminated, else 1. A pair with a 0 has no discounted term."""


_PER_ROW = ("reward", "reward_std", "not_done", "weight", "value", "action_value", "window_length", "window_not_done")
"""The fields of `Latents` that hold one number per row."""
_ROWS_OF_MANY = ("policy_action", "action_reward", "window_reward")
"""The fields of `Latents` that hold several numbers per row."""


def one_per_row(name: str, value: Tensor, batch: int) -> Tensor:
    """Return value [B] or [B, 1] as [B]."""
    if tuple(value.shape) == (batch, 1):
        return value.squeeze(-1)
    if tuple(value.shape) != (batch,):
        hint = "; remove the last dimension with squeeze(-1)" if value.ndim > 1 and value.shape[-1] == 1 else ""
        raise ShapeError(f"{name} must be [{batch}] or [{batch}, 1], got {list(value.shape)}{hint}")
    return value
