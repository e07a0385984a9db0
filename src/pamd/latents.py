"""The latents of one batch. Each is computed on first use and kept until the weights change.

Several losses read the same latents: the critic and the metric share the online encoder's pass on the states, the
critic's target and the latent model share a target copy's pass on the next states. Nobody has to know who comes first.
Whoever asks first pays, and everyone else gets the stored result. So each network runs at most once per update on the
same weights and input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import torch
from torch import Tensor

from pamd.errors import ConfigError, UnknownNameError
from pamd.types import Batch

Copy = Literal["online", "ema", "periodic"]
"""A copy of the encoder: the trained one, its exponential moving average, or its periodic copy."""
Observation = Literal["obs", "next_obs", "return_obs", "window_obs"]
"""The states, the next states, the states at which n-step returns end, and those at which windows end."""
_OBSERVATIONS = get_args(Observation)

T = TypeVar("T")


class _Key(NamedTuple):
    """The name of a stored result: what it is, of which observations, by which copy, with or without gradient."""

    what: str
    of: str = ""
    copy: str = "online"
    gradient: bool = False


class _Terms(dict[str, Any]):
    """The terms by name. A name that the method does not have raises UnknownNameError instead of KeyError."""

    def __missing__(self, name: str) -> Any:
        advice = "A term that reads another one requires it in its `check`."
        raise UnknownNameError("term of this method", name, self, advice=advice)


class BatchLatents:
    """What the losses of one batch read: the batch, its latents under every copy of the encoder, and other terms.

    Call `forget` after a step of the online encoder. The results of the target copies stay valid.

    Args:
        batch: the transitions.
        encoder: the online encoder, with `prepare`, `trunk` and `head`.
        copies: the target copies of the encoder, by name.
        terms: the terms of the representation, by name. A term may use the networks of another one.
        generator: the generator for noise and pairs.
        inputs: inputs that no encoder computes ("value", "policy_action", "not_done", ...), by name; None if not given.
        known: latents [B, d] that are already computed, by observation and copy.
        source: the input of a copy of the encoder, by copy and observations, which are a name or a tensor [B, ...]. By
            default, the batch's observations.
        dtype: the type of the products in trunks, e.g. torch.bfloat16. By default, that of the weights.
    """

    def __init__(
        self,
        batch: Batch,
        encoder: Any,
        copies: Mapping[str, Any],
        terms: Mapping[str, Any],
        *,
        generator: torch.Generator | None = None,
        inputs: Callable[[str], Tensor | None] | None = None,
        known: Mapping[tuple[Observation, Copy], Tensor] | None = None,
        source: Callable[[Observation | Tensor, Copy], Tensor] | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.batch, self.encoder, self.copies, self.terms = batch, encoder, copies, _Terms(terms)
        self.generator, self._inputs, self._source, self._dtype = generator, inputs, source, dtype
        # One flat store for everything. States and next states go through a network one after the other: the
        # activations of both together would exceed the freed memory that the C library keeps, and cause page faults.
        self._stored: dict[_Key, Any] = {}
        for (of, copy), z in (known or {}).items():
            self._stored[_Key("latent", of, copy, gradient=(of, copy) == ("obs", "online"))] = z

    def forget(self) -> None:
        """Drop everything that depends on the online encoder, because its weights have changed."""
        self._stored = {key: value for key, value in self._stored.items() if key.copy != "online"}

    @property
    def z(self) -> Tensor:
        """The online latents of the states, with gradient: [B, d]."""
        return self.latent("obs", gradient=True)

    @property
    def return_of(self) -> Observation:
        """The observations at which returns end: the next states, unless the batch has n-step returns."""
        return "next_obs" if self.batch.n_step is None else "return_obs"

    def features(self, of: Observation = "obs", *, gradient: bool = False) -> Tensor:
        """Return the features [B, F] of the online encoder's trunk. A pass with gradient serves those without, too."""
        key = _Key("features", of, gradient=gradient)
        if not gradient and key._replace(gradient=True) in self._stored:
            return self.features(of, gradient=True).detach()
        if key not in self._stored:
            with torch.set_grad_enabled(gradient and torch.is_grad_enabled()):
                self._stored[key] = self._trunk(self.encoder, self._input(of, "online"))
        features: Tensor = self._stored[key]
        return features

    def latent(self, of: Observation = "obs", copy: Copy = "online", *, gradient: bool = False) -> Tensor:
        """Return the latents [B, d] of observations under a copy of the encoder. Only `z` has a gradient."""
        # The losses train the pass of `z`, so it always has a gradient. Those who need none read it detached.
        trained = (of, copy) == ("obs", "online")
        key = _Key("latent", of, copy, gradient=trained)
        if key not in self._stored:
            with torch.set_grad_enabled(trained and torch.is_grad_enabled()):
                if copy == "online":
                    self._stored[key] = self.encoder.head(self.features(of, gradient=trained))
                else:
                    encoder = self._encoder(copy)
                    self._stored[key] = encoder.head(self._trunk(encoder, self._input(of, copy)))
        z: Tensor = self._stored[key]
        return z.detach() if trained and not gradient else z

    def sequence(self, copy: Copy = "online") -> Tensor:
        """Return the latents [B, n, d] of the observations after each step of the windows, without gradient.

        Steps after the end of a window have latents without meaning: see `Window.mask`.
        """
        key = _Key("latent", "sequence", copy)
        if key not in self._stored:
            window = self.batch.window
            if window is None or window.sequence is None:
                raise ConfigError("latents of a sequence require windows with one; a term declares its `sequence`")
            # The first is the next state, whose latents others read as well. One step after the other: see `__init__`.
            steps = [self.latent("next_obs", copy)]
            steps += [self._encoded(obs, copy) for obs in window.sequence.unbind(1)[1:]]
            self._stored[key] = torch.stack(steps, 1)
        z: Tensor = self._stored[key]
        return z

    def augmented(self, augment: Callable[[Tensor, torch.Generator | None], Tensor], copy: Copy = "online") -> Tensor:
        """Return the latents [B, d] of a new augmentation of the states. Those of the online encoder have a gradient.

        If an agent has already augmented the batch, it is the original observations that are augmented here.
        """
        batch = self.batch
        obs = augment(batch.obs if batch.original_obs is None else batch.original_obs, self.generator)
        return self._encoded(obs, copy, gradient=copy == "online")

    def _encoded(self, obs: Tensor, copy: Copy, *, gradient: bool = False) -> Tensor:
        """Return the latents [B, d] of other observations [B, ...]. They are not stored."""
        encoder = self._encoder(copy)
        with torch.set_grad_enabled(gradient and torch.is_grad_enabled()):
            source = self.encoder.prepare(obs) if self._source is None else self._source(obs, copy)
            z: Tensor = encoder.head(self._trunk(encoder, source))
        return z

    def _trunk(self, encoder: Any, x: Tensor) -> Tensor:
        """Return the features [B, F] of an encoder's trunk, with products in the type of this batch."""
        if self._dtype is None:  # Autocast of the caller, if there is one, stays as it was set.
            features: Tensor = encoder.trunk(x)
            return features
        with torch.autocast(x.device.type, self._dtype):
            features = encoder.trunk(x)
        return features

    def _encoder(self, copy: Copy) -> Any:
        if copy == "online":
            return self.encoder
        if copy not in self.copies:
            advice = "A term declares the copies that it reads in its `copies`."
            raise UnknownNameError("copy of the encoder", copy, ["online", *self.copies], advice=advice)
        return self.copies[copy]

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return `compute()`, which depends on the online latents. It runs only once until the weights change."""
        key = _Key(name)
        if key not in self._stored:
            self._stored[key] = compute()
        result: T = self._stored[key]
        return result

    def given(self, name: str) -> Tensor | None:
        """Return an input that no encoder computes, e.g. "value"; None if the caller did not give it."""
        return None if self._inputs is None else self._inputs(name)

    def _input(self, of: Observation, copy: Copy) -> Tensor:
        """Return the input of a copy of the encoder. Observations are prepared once for all copies."""
        if of not in _OBSERVATIONS:
            raise UnknownNameError("observations", of, _OBSERVATIONS)
        if self._source is not None:
            return self._source(of, copy)
        key = _Key("prepared", of, copy="any")
        if key not in self._stored:
            self._stored[key] = self.encoder.prepare(self._observation(of))
        prepared: Tensor = self._stored[key]
        return prepared

    def _observation(self, of: Observation) -> Tensor:
        batch = self.batch
        if of == "return_obs":
            if batch.n_step is None:
                raise ConfigError("latents of return_obs require a batch with n-step returns (Batch.n_step)")
            return batch.n_step.next_obs
        if of == "window_obs":
            if batch.window is None:
                raise ConfigError("latents of window_obs require a batch with windows; a term declares its `window`")
            return batch.window.last_obs
        return batch.obs if of == "obs" else batch.next_obs
