"""The representation of a method as one module, for any training loop: encoder, target copies and terms."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.distances import Distance
from pamd.errors import ConfigError, DtypeError, ShapeError, UnknownNameError
from pamd.latents import BatchLatents, Copy, Observation
from pamd.methods import Method
from pamd.methods import method as named_method
from pamd.operators import Operator
from pamd.optimization import ema_update, target_copy
from pamd.representation.encoder import LatentEncoder
from pamd.schema import Count, check_values
from pamd.terms import Term
from pamd.terms.metric import Metric
from pamd.types import Batch, Loss, OperatorInputs, Window


@dataclass(frozen=True)
class Losses(Mapping[str, Loss]):
    """Weighted losses by term, e.g. "transition" and "metric". A term that the method does not have is absent."""

    terms: Mapping[str, Loss] = field(default_factory=dict)
    zero: Tensor = field(default_factory=lambda: torch.zeros(()))
    """The total if there are no terms."""

    @property
    def total(self) -> Tensor:
        """[]: the sum of all terms; 0 if there are none."""
        values = [loss.value for loss in self.terms.values()]
        return functools.reduce(torch.add, values) if values else self.zero

    @property
    def metrics(self) -> dict[str, Tensor]:
        """Detached scalars to log."""
        return {name: value for loss in self.terms.values() for name, value in loss.metrics.items()}

    def __getitem__(self, term: str) -> Loss:
        return self.terms[term]

    def __iter__(self) -> Iterator[str]:
        return iter(self.terms)

    def __len__(self) -> int:
        return len(self.terms)


class Representation(nn.Module):
    """An encoder, its target copies, and the terms that train it.

    This is the only place that knows the order of an update: observe the rewards, encode, compute the terms, update the
    target copies. Train it together with your own loss: add `losses(...).total`, step `parameters()` (or
    `parameter_groups()`, which has the method's weight decay), then call `update_targets()` once per update.

    Args:
        method: a name such as "dbc-unit+pamd" (`pamd list methods`), or a `Method` record.
        encoder: a module that maps observations to [B, d]. The method's latent space is applied to its output.
        action_dim: the size of continuous actions, or the number of discrete actions.
        latent_dim: d; by default the method's (usually 50).
        fidelity: "paper" or "released", for a method given by name.
        gamma: the discount of the operator; by default the method's (0.99).
        normalized: the encoder's output already lies in the method's latent space and is not normalized again.
        target_encoder: keep an "ema" copy of the encoder even if no term reads one.
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
        target_encoder: bool = False,
        normalised: bool | None = None,
        slow_encoder: bool | None = None,
    ) -> None:
        super().__init__()
        if normalised is not None:
            _renamed("Representation(normalised=...)", "normalized")
            normalized = normalised
        if slow_encoder is not None:
            _renamed("Representation(slow_encoder=...)", "target_encoder")
            target_encoder = slow_encoder
        method = method if isinstance(method, Method) else named_method(method, fidelity)
        method = method.adapted(latent_dim=latent_dim, gamma=gamma).resolved
        check_values(f"method {method.name!r}", Count, action_dim=action_dim)
        self.method, self.action_dim = method, action_dim
        if not isinstance(encoder, LatentEncoder):
            encoder = LatentEncoder.from_method(encoder, method, normalized=normalized)
        self.encoder = encoder
        self.terms = nn.ModuleDict(
            {part.name: part.cls(part.options, method.latent_dim, action_dim) for part in method.terms}
        )
        copies = method.copies | ({"ema"} if target_encoder else set())
        self.target_encoders = nn.ModuleDict({copy: target_copy(encoder) for copy in sorted(copies)})
        self.updates: Tensor
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))
        self._counted: int | None = 0
        self._values_checked = self._z_checked = False
        self._losses_since_targets = 0
        self.register_load_state_dict_post_hook(_forget_count)  # type: ignore[no-untyped-call]

    @property
    def metric(self) -> Metric | None:
        """The metric term; None if the method has none."""
        metric: Metric | None = dict(self.terms.items()).get("metric")  # type: ignore[assignment]
        return metric

    @property
    def distance(self) -> Distance[Any] | None:
        """The distance of the metric term."""
        return None if self.metric is None else self.metric.distance

    @property
    def operator(self) -> Operator[Any] | None:
        """The operator of the metric term."""
        return None if self.metric is None else self.metric.operator

    def train(self, mode: bool = True) -> Representation:
        """Set the mode, but keep target copies in evaluation mode, so that targets do not depend on dropout."""
        super().train(mode)
        self.target_encoders.eval()
        return self

    def extra_repr(self) -> str:
        """Return the method with all of its fields, for `repr`."""
        return f"method={self.method!r}, action_dim={self.action_dim}"

    def encode(self, obs: Tensor) -> Tensor:
        """Return the latents for a critic or policy, with gradient: [B, ...] -> z [B, d].

        Encoders of this package convert observations: bytes are scaled to [0, 1]. Others get them unchanged.
        """
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
        inputs: OperatorInputs | None = None,
        extras: OperatorInputs | None = None,
    ) -> Losses:
        """Return the weighted losses of B transitions.

        obs, next_obs: [B, ...]; action: [B, A] floats, or [B] int64 for discrete actions; reward: [B] or [B, 1].
        `not_done` [B] or [B, 1]: 0 if the episode terminated, else 1; a pair with a 0 has no discounted term.
        `z`: the result of `encode(obs)`, if it is already computed. `generator` draws pairs and noise; by default,
        torch's global generator does. `inputs`: inputs of the operators "value", "advantage", "psm" and "n-step", and
        the windows of the terms that read some.

        float64 actions, rewards and `not_done` are converted to the type of the weights. Wrong shapes and types raise
        an error, and so do rewards that are not finite, a `not_done` outside [0, 1] and a `z` outside of the latent
        space. On a GPU, values are checked only in the first call, because reading them would wait for the GPU.
        """
        if extras is not None:
            _renamed("losses(extras=...)", "inputs")
            inputs = extras
        if not isinstance(inputs, (OperatorInputs, type(None))):
            raise ConfigError(f"inputs must be a pamd.OperatorInputs, got a {type(inputs).__name__}")
        if not_done is not None:
            inputs = dataclasses.replace(inputs or OperatorInputs(), not_done=not_done)
        known: dict[tuple[Observation, Copy], Tensor] = {} if z is None else {("obs", "online"): z}
        latents = self.batch_latents(obs, action, reward, next_obs, generator=generator, inputs=inputs, known=known)
        losses = self.losses_of(latents)
        return losses if losses else Losses(zero=0 * latents.z.sum())

    def batch_latents(
        self,
        obs: Tensor,
        action: Tensor,
        reward: Tensor,
        next_obs: Tensor,
        *,
        generator: torch.Generator | None = None,
        inputs: OperatorInputs | None = None,
        known: Mapping[tuple[Observation, Copy], Tensor] | None = None,
        source: Callable[[Observation | Tensor, Copy], Tensor] | None = None,
        observe: bool = True,
    ) -> BatchLatents:
        """Return the latents of B transitions, which `losses_of` reads. They are computed on first use.

        The arguments are those of `losses` and of `BatchLatents`. `observe`: record the rewards for the latent space.
        """
        inputs = inputs or OperatorInputs()
        z, not_done = None if known is None else known.get(("obs", "online")), inputs.not_done
        _check_types(obs=obs, action=action, reward=reward, next_obs=next_obs, z=z, not_done=not_done)
        reward = self._in_precision(reward.squeeze(-1) if reward.ndim == 2 and reward.shape[1] == 1 else reward)
        _check_transitions(self.encoder, obs, action, reward, next_obs, z)
        action = self._in_precision(_encode_action(action, self.action_dim))
        if not_done is not None:
            not_done = self._in_precision(not_done if not_done.is_floating_point() else not_done.to(reward.dtype))
            inputs = dataclasses.replace(inputs, not_done=not_done)
        self._check_values(reward, not_done, z)
        window = None if inputs.window is None else self._window(inputs.window)
        batch = Batch(obs, action, reward, next_obs, torch.ones_like(reward), window=window)
        return self.latents_of(
            batch,
            generator=generator,
            inputs=functools.partial(getattr, inputs),
            known=known,
            source=source,
            observe=observe,
        )

    def latents_of(self, batch: Batch, *, observe: bool = True, **options: Any) -> BatchLatents:
        """Return the latents of a batch from replay under the current weights. `options` are those of `BatchLatents`.

        `observe`: record the rewards first. They may enlarge the ball of latent space "ball", and every pass of this
        update must see the same ball.
        """
        if observe:
            self.encoder.observe(batch.reward)
        return BatchLatents(
            batch, self.encoder, dict(self.target_encoders.items()), dict(self.terms.items()), **options
        )

    def losses_of(self, latents: BatchLatents, terms: Iterable[str] | None = None) -> Losses:
        """Return the weighted losses of the named terms (default: all) on the latents of a batch, in their order."""
        self._count_losses()
        chosen = self.terms.keys() if terms is None else terms
        losses = {}
        for name in chosen:
            losses[name] = self._term(name).loss(latents, latents.batch)
            _check_loss(name, losses[name])
        return Losses(losses)

    def _term(self, name: str) -> Term[Any]:
        if name not in self.terms:
            raise UnknownNameError(f"term of method {self.method.name!r}", name, self.terms.keys())
        term: Term[Any] = self.terms[name]  # type: ignore[assignment]
        return term

    def _in_precision(self, tensor: Tensor) -> Tensor:
        """Return float64 as the type of the weights: NumPy's default would otherwise meet float32 networks."""
        if tensor.dtype != torch.float64:
            return tensor
        weight = next(self.parameters(), None)
        return tensor if weight is None else tensor.to(weight.dtype)

    def _window(self, window: Window) -> Window:
        """Return windows with one-hot actions and numbers in the type of the weights."""
        numbers = {name: self._in_precision(getattr(window, name)) for name in ("reward", "not_done")}
        if window.action is None:
            return dataclasses.replace(window, **numbers)
        if window.action.ndim < 2:
            raise ShapeError(f"Window.action must be [B, n, A], or [B, n] if discrete, got {list(window.action.shape)}")
        action = self._in_precision(_encode_action(window.action.flatten(0, 1), self.action_dim))
        return dataclasses.replace(window, **numbers, action=action.unflatten(0, window.action.shape[:2]))

    def _check_values(self, reward: Tensor, not_done: Tensor | None, z: Tensor | None) -> None:
        """Raise ConfigError for values that would train something else in silence. A compiled call checks nothing."""
        if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
            return
        if z is not None and not self._z_checked:  # a wrong z is wrong in every call, so the first one suffices
            inside = self.encoder.contains(z)
            if not bool(inside.all()):
                raise ConfigError(
                    f"z must be the result of encode(obs), in latent space {self.method.latent_space!r}, but"
                    f" {int((~inside).sum())} of its {len(z)} rows lie outside of it"
                )
            self._z_checked = True
        if reward.device.type != "cpu" and self._values_checked:  # reading from a GPU would wait for it
            return
        self._values_checked = True
        if not bool(reward.isfinite().all()):
            raise ConfigError(f"rewards must be finite, got {float(reward[~reward.isfinite()][0])}")
        if not_done is not None and not bool(((not_done >= 0) & (not_done <= 1)).all()):
            low, high = float(not_done.min()), float(not_done.max())
            raise ConfigError(f"not_done must lie in [0, 1], 0 if the episode terminated, got {low:g} to {high:g}")

    def _count_losses(self) -> None:
        """Warn once if the target copies seem to be forgotten: losses train, and nobody calls `update_targets`."""
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return
        self._losses_since_targets += 1
        if self._losses_since_targets == _FORGOTTEN and self._has_targets:
            warnings.warn(
                f"{_FORGOTTEN} losses were computed without update_targets(), so the target copies of method"
                f" {self.method.name!r} still have their first weights; call it once after every update",
                stacklevel=4,
            )

    @property
    def _has_targets(self) -> bool:
        return len(self.target_encoders) > 0 or any(self._term(name).targets for name in self.terms)

    def parameter_groups(self, terms: Iterable[str] | None = None, *, encoder: bool = True) -> list[dict[str, Any]]:
        """Return the trained parameters of the encoder and of the named terms (default: all), for an optimizer.

        One group per weight decay. `encoder`: whether to include the encoder, which has no weight decay.
        """
        groups: dict[float, list[nn.Parameter]] = {0.0: [*self.encoder.parameters()] if encoder else []}
        for name in self.terms.keys() if terms is None else terms:
            term = self._term(name)
            groups.setdefault(term.weight_decay, []).extend(term.parameters())
        trained = {decay: [p for p in parameters if p.requires_grad] for decay, parameters in groups.items()}
        return [{"params": parameters, "weight_decay": decay} for decay, parameters in trained.items() if parameters]

    @torch.no_grad()
    def update_targets(self, *, at_once: bool = False) -> None:
        """Update the target copies. Call this once after every update.

        `at_once`: update the "ema" copies even if they are not due.
        """
        targets, updates, self._losses_since_targets = self.method.targets, self._count_update(), 0
        if at_once or (updates + targets.offset) % targets.every == 0:
            if "ema" in self.target_encoders:
                ema_update(self.target_encoders["ema"], self.encoder, targets.tau)
            for target, online in (pair for name in self.terms for pair in self._term(name).targets):
                ema_update(target, online, targets.tau)
        if "periodic" in self.target_encoders and (updates + targets.period_offset) % targets.period == 0:
            ema_update(self.target_encoders["periodic"], self.encoder, 1.0)

    def _count_update(self) -> int:
        """Count one update. For a GPU the host counts as well, because reading `updates` would wait for the GPU."""
        self.updates += 1
        on_host = self.updates.device.type == "cpu"
        self._counted = int(self.updates) if on_host or self._counted is None else self._counted + 1
        return self._counted

    def follow(self, *, at_once: bool = False) -> None:
        """Call `update_targets`, which is the new name."""
        _renamed("Representation.follow", "update_targets")
        self.update_targets(at_once=at_once)

    def __getattr__(self, name: str) -> Any:
        """Return what an attribute of earlier versions is now: a term, None if there is none, or the target copies."""
        if name == "slow_encoders":
            _renamed("Representation.slow_encoders", "target_encoders")
            return self.target_encoders
        if name in _OLD_TERMS:
            _renamed(f"Representation.{name}", f"terms[{_OLD_TERMS[name]!r}]")
            return dict(self.terms.items()).get(_OLD_TERMS[name])
        return super().__getattr__(name)


_FORGOTTEN = 1000
"""The number of losses without an update of the target copies after which the user is warned."""

_OLD_TERMS = {"transition": "transition", "reward_decoder": "reward", "state_reward": "state-reward"}
"""Attributes of earlier versions, and the terms that they are now."""


def _renamed(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=3)


def _forget_count(module: Representation, _: object) -> None:
    """Drop the cached count, because a loaded state has a different one."""
    module._counted = None


def _check_types(**tensors: Any) -> None:
    for name, tensor in tensors.items():
        if tensor is not None and not isinstance(tensor, Tensor):
            kind = type(tensor)
            raise DtypeError(
                f"{name} must be a torch.Tensor, got {kind.__module__}.{kind.__name__}; convert it by"
                f" torch.as_tensor({name})"
            )


def _check_loss(name: str, loss: Any) -> None:
    """Raise an error unless a term returned a Loss with one number."""
    if not isinstance(loss, Loss):
        raise DtypeError(f"term {name!r} must return pamd.Loss(value, metrics), got a {type(loss).__name__}")
    if not isinstance(loss.value, Tensor) or loss.value.ndim:
        kind = list(loss.value.shape) if isinstance(loss.value, Tensor) else type(loss.value).__name__
        raise ShapeError(f"the loss of term {name!r} must be one number, a tensor [], got {kind}; take its mean")


def _check_transitions(
    encoder: LatentEncoder, obs: Tensor, action: Tensor, reward: Tensor, next_obs: Tensor, z: Tensor | None
) -> None:
    """Raise ShapeError unless these are B transitions, and ConfigError if z [B, d] cannot train the encoder."""
    if not obs.ndim or not len(obs):
        raise ShapeError(f"obs must be [B, ...] with at least one row, got {list(obs.shape)}")
    size = len(obs)
    if reward.ndim != 1 or not reward.is_floating_point():
        raise ShapeError(f"reward must be floating-point [B] or [B, 1], got {reward.dtype} {list(reward.shape)}")
    if next_obs.shape != obs.shape:
        raise ShapeError(f"next_obs must have the shape of obs, {list(obs.shape)}, got {list(next_obs.shape)}")
    for name, tensor in (("action", action), ("reward", reward), ("z", z)):
        if tensor is not None and len(tensor) != size:
            raise ShapeError(f"{name} must have one row per observation, {size}, got {list(tensor.shape)}")
    if z is not None and tuple(z.shape) != (size, encoder.latent_dim):
        raise ShapeError(f"z must be [{size}, {encoder.latent_dim}], the result of encode(obs), got {list(z.shape)}")
    learned = torch.is_grad_enabled() and any(p.requires_grad for p in encoder.parameters())
    if z is not None and learned and not z.requires_grad:
        raise ConfigError(
            "z carries no gradient, so the losses would not train the encoder; call encode with gradients on"
        )


def _encode_action(action: Tensor, action_dim: int) -> Tensor:
    """Return continuous actions [B, A] unchanged, and discrete actions [B] one-hot encoded as [B, A]."""
    if action.is_floating_point():
        if action.ndim != 2 or action.shape[1] != action_dim:
            raise ShapeError(f"action must be [B, {action_dim}], got {list(action.shape)}")
        return action
    action = action.squeeze(-1) if action.ndim == 2 and action.shape[1] == 1 else action
    if action.ndim != 1 or action.dtype != torch.int64:
        raise DtypeError(
            f"discrete actions must be int64 [B] or [B, 1], got {action.dtype} {list(action.shape)};"
            f" continuous ones must be floating-point [B, {action_dim}]"
        )
    try:
        return F.one_hot(action, action_dim).to(torch.get_default_dtype())
    except RuntimeError:
        raise ShapeError(f"discrete actions must lie in [0, {action_dim}), got {action.tolist()[:10]}") from None
