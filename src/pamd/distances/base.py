"""The base class of all distances. It checks the inputs, then calls the subclass to compute the values."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from pamd.errors import DtypeError, ShapeError
from pamd.registry import Registry
from pamd.schema import record
from pamd.types import Measurement, Pairs

_ConfigT = TypeVar("_ConfigT")

_CHUNK_FLOATS = 16 * 2**20
"""The maximum workspace of `all_pairs` at once, in floats (64 MB in float32)."""


@dataclass(frozen=True)
class Properties:
    """The properties that a distance guarantees. The contract tests check them for every registered distance."""

    symmetric: bool = True
    """value(z, z') = value(z', z)"""
    nonnegative: bool = True
    """value(z, z') >= 0"""
    self_zero: bool = True
    """value(z, z) = 0, up to the root guard (`Distance.self_distance`)"""
    triangle: bool = False
    """value(x, z) <= value(x, y) + value(y, z)"""


@record(what="a distance without options")
class NoOptions:
    """The config of a distance that has no options."""


class _Renamed:
    """An attribute under its old name. It works for one more version, with a DeprecationWarning."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new

    def __get__(self, instance: Any, owner: type) -> Any:
        self.warn()
        return getattr(owner if instance is None else instance, self.new)

    def __set__(self, instance: Any, value: Any) -> None:
        self.warn()
        setattr(instance, self.new, value)

    def warn(self) -> None:
        warnings.warn(f"Distance.{self.old} is deprecated; use {self.new}", DeprecationWarning, stacklevel=3)


class Distance(nn.Module, ABC, Generic[_ConfigT]):
    """A latent dissimilarity over pairs.

    Concrete subclasses are final. They define `Config`, `properties` and `_value`. They may also override the optional
    hooks: `resolve`, `self_distance`, `max_value`, `_embed`, `_value_and_penalty`, `_all_pairs` and
    `_floats_per_pair`. Apart from `__init__`, they do not override any other method.
    """

    Config: ClassVar[type[Any]]
    properties: Properties = Properties()
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    coordinate_wise: ClassVar[bool] = False
    """True if values are [P, d], one per coordinate."""

    width: ClassVar[str] = "hidden"
    """The option that sets the number of parameters. Diagnostics choose it to match another distance."""

    laws = _Renamed("laws", "properties")
    floor = _Renamed("floor", "self_distance")
    largest = _Renamed("largest", "max_value")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for renamed in (Distance.__dict__[name] for name in ("laws", "floor", "largest")):
            if renamed.old in cls.__dict__:  # A distance from elsewhere that was written for an earlier version.
                renamed.warn()
                setattr(cls, renamed.new, cls.__dict__[renamed.old])
                delattr(cls, renamed.old)

    def __init__(self, latent_dim: int, config: _ConfigT) -> None:
        super().__init__()
        self.latent_dim = latent_dim
        self.config = self.resolve(config, latent_dim)

    @abstractmethod
    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        """Compute the values [P] (coordinate-wise: [P, d]) of z, z_prime [P, d], which are already checked."""

    def forward(
        self, z: Tensor, z_prime: Tensor, *, measured: bool = False, generator: torch.Generator | None = None
    ) -> Tensor | Measurement:
        """Compute the values of the pairs (z[p], z_prime[p]). z, z_prime: [P, d] -> [P] (coordinate-wise: [P, d]).

        With `measured`, it returns `measure(z, z_prime, generator)`. Wrappers such as DistributedDataParallel
        forward only this call, so the penalty must be available through it.
        """
        if measured:
            return self.measure(z, z_prime, generator)
        return self._values(*self._embedded(*self._checked(z, z_prime, paired=True)))

    def measure(self, z: Tensor, z_prime: Tensor, generator: torch.Generator | None = None) -> Measurement:
        """Compute the values, penalty and statistics of the pairs. z, z_prime: [P, d].

        A randomized penalty draws from `generator`. The default is torch's global generator.
        """
        return self._measured(*self._embedded(*self._checked(z, z_prime, paired=True)), generator)

    def measure_between(
        self, z: Tensor, z_prime: Tensor, pairs: Pairs, generator: torch.Generator | None = None
    ) -> Measurement:
        """Call `measure` on the rows that `pairs` selects. z, z_prime: [B, d]."""
        return self._measured(*self._selected(z, z_prime, pairs), generator)

    def between(self, z: Tensor, z_prime: Tensor, pairs: Pairs) -> Tensor:
        """Compute the values of the rows that `pairs` selects. z, z_prime: [B, d] -> [P] (coordinate-wise: [P, d])."""
        if pairs.complete and not self.coordinate_wise:
            return self.all_pairs(z, z_prime).reshape(-1)
        return self._values(*self._selected(z, z_prime, pairs))

    def all_pairs(self, z: Tensor, z_prime: Tensor | None = None) -> Tensor:
        """Compute the values between all rows of z [B, d] and all rows of z_prime [C, d] (default z) -> [B, C].

        Without gradients, the default implementation limits its workspace for every B. Coordinate-wise values are
        averaged over the coordinates, so that the result ranks neighbors for every distance.
        """
        return self._all_pairs(*self._embedded(*self._checked(z, z if z_prime is None else z_prime, paired=False)))

    def extra_repr(self) -> str:
        """Return the latent dimension and the configuration, for `repr`."""
        return f"latent_dim={self.latent_dim}, config={self.config!r}"

    @classmethod
    def resolve(cls, config: _ConfigT, latent_dim: int) -> _ConfigT:
        """Return `config` with all values that depend on latent_dim filled in and checked (optional hook).

        It does not need a module, so a config can be validated before anything is built.
        """
        return config

    @property
    def self_distance(self) -> float:
        """The value of a pair z = z' if `properties.self_zero` holds: 0 without a root guard (optional hook)."""
        return 0.0

    def max_value(self, length: float) -> float:
        """Return the largest value (coordinate-wise: of one coordinate) over latents of at most this length.

        No encoder with such latents can express a larger value. Optional hook; infinity if there is no bound.
        """
        return float("inf")

    def _embed(self, z: Tensor) -> Tensor:
        """Map each latent to what the hooks below compare: [B, d] -> [B, e], z itself by default (optional hook).

        A row is mapped once, however many pairs it is in.
        """
        return z

    def _value_and_penalty(
        self, z: Tensor, z_prime: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the same values as `_value`, and the penalty [] (optional hook for a distance with a penalty)."""
        return self._value(z, z_prime), None

    def _all_pairs(self, z: Tensor, z_prime: Tensor) -> Tensor:
        """Compute all values: [B, d], [C, d] -> [B, C], by default in row chunks (optional hook for a matrix form)."""
        columns = z_prime.shape[0]
        rows = max(1, _CHUNK_FLOATS // max(1, columns * self._floats_per_pair()))
        parts = [self._rows(chunk, z_prime) for chunk in z.split(rows)] if z.shape[0] else []
        return torch.cat(parts) if parts else z.new_zeros(0, columns)

    def _floats_per_pair(self) -> int:
        """Return the workspace of one pair, in floats (optional hook). It determines the chunk size of `all_pairs`."""
        return 4 * self.latent_dim

    def _embedded(self, z: Tensor, z_prime: Tensor) -> tuple[Tensor, Tensor]:
        """Call `_embed` on both, and once if they are the same. The dtype stays that of z, also inside autocast."""
        embedded = self._embed(z).to(z.dtype)
        return embedded, embedded if z_prime is z else self._embed(z_prime).to(z.dtype)

    def _selected(self, z: Tensor, z_prime: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Check and embed z, z_prime [B, d], and return both sides of the pairs. The gradient of z[rows] is slower."""
        z, z_prime = self._embedded(*self._checked(z, z_prime, paired=False))
        return z if pairs.aligned else z.index_select(0, pairs.left), z_prime.index_select(0, pairs.right)

    def _measured(self, z: Tensor, z_prime: Tensor, generator: torch.Generator | None) -> Measurement:
        """Compute `measure` of embedded latents."""
        value, penalty = self._value_and_penalty(z, z_prime, generator)
        self._check_returned(value, z)
        seen = value.detach()
        stats = {"distance_mean": seen.mean(), "distance_max": seen.max()} if seen.numel() else {}
        return Measurement(value, value.new_zeros(()) if penalty is None else penalty, stats)

    def _rows(self, z: Tensor, z_prime: Tensor) -> Tensor:
        """Compute all values: [R, d], [C, d] -> [R, C], in chunks if one row of pairs is too large."""
        columns = z_prime.shape[0]
        pairs = max(1, _CHUNK_FLOATS // self._floats_per_pair())
        left = torch.arange(z.shape[0], device=z.device).repeat_interleave(columns)
        right = torch.arange(columns, device=z.device).repeat(z.shape[0])
        parts = []
        for i, j in zip(left.split(pairs), right.split(pairs), strict=True):
            value = self._values(z[i], z_prime[j])
            parts.append(value.mean(-1) if self.coordinate_wise else value)
        return torch.cat(parts).view(z.shape[0], columns)

    def _values(self, z: Tensor, z_prime: Tensor) -> Tensor:
        """Call `_value` and check the shape of its result."""
        value = self._value(z, z_prime)
        self._check_returned(value, z)
        return value

    def _check_returned(self, value: Tensor, z: Tensor) -> None:
        """Raise ShapeError unless `value` is [P] (coordinate-wise: [P, d]), because [P, 1] would broadcast later."""
        if isinstance(value, Tensor) and value.shape == (z.shape if self.coordinate_wise else z.shape[:1]):
            return
        got = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
        expected = "[P, d] (coordinate_wise is True)" if self.coordinate_wise else "[P]"
        advice = "; set coordinate_wise = True for [P, d]" if got == list(z.shape) and not self.coordinate_wise else ""
        raise ShapeError(
            f"{type(self).__name__}._value must return {expected} for z of {list(z.shape)}, got {got}{advice}"
        )

    def _checked(self, z: Tensor, z_prime: Tensor, paired: bool) -> tuple[Tensor, Tensor]:
        """Return z and z_prime, or raise an error that names the problem. Inside autocast, mixed dtypes are cast."""
        name = type(self).__name__
        for label, value in (("z", z), ("z_prime", z_prime)):
            if not isinstance(value, Tensor):
                raise DtypeError(f"{name}: {label} must be a torch.Tensor, got {type(value).__name__}")
            if not value.is_floating_point():
                raise DtypeError(f"{name}: {label} must be a floating-point tensor, got {value.dtype}")
            if value.ndim != 2 or value.shape[1] != self.latent_dim:
                raise ShapeError(f"{name}: {label} must be [P, {self.latent_dim}], got {list(value.shape)}")
        if paired and z.shape[0] != z_prime.shape[0]:
            raise ShapeError(
                f"{name}: z and z_prime must hold the same number of pairs, got {z.shape[0]} and {z_prime.shape[0]};"
                " use all_pairs for every combination"
            )
        weight = next(self.parameters(), None)
        if weight is not None and weight.device != z.device:
            raise DtypeError(f"{name}: z is on {z.device} but the distance on {weight.device}; move it with .to(...)")
        distance_dtype = z.dtype if weight is None else weight.dtype
        if z.dtype == z_prime.dtype == distance_dtype:
            return z, z_prime
        if torch.is_autocast_enabled(z.device.type):
            # The wider dtype of the latents, or the weights' dtype if either is float64, which autocast never casts.
            dtype = torch.promote_types(z.dtype, z_prime.dtype)
            if weight is not None and torch.float64 in (dtype, weight.dtype):
                dtype = weight.dtype
            return z.to(dtype), z_prime.to(dtype)
        if z.dtype != z_prime.dtype:
            raise DtypeError(f"{name}: z is {z.dtype} but z_prime is {z_prime.dtype}; they must agree")
        raise DtypeError(f"{name}: z is {z.dtype} but the distance is {distance_dtype}; convert it with .to(z.dtype)")


DISTANCES: Registry[type[Distance[Any]]] = Registry("distance", "pamd.distances", with_config=True)


def __getattr__(name: str) -> Any:
    if name == "Laws":
        warnings.warn("Laws is deprecated; use Properties", DeprecationWarning, stacklevel=2)
        return Properties
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
