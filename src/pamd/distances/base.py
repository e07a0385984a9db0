"""The one base of all distances: checks shapes, then asks the subclass for values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from pamd.errors import DtypeError, ShapeError
from pamd.registry import Registry
from pamd.types import Measurement, Pairs

__all__ = ["DISTANCES", "Distance", "Laws", "NoOptions"]

ConfigT = TypeVar("ConfigT")

_CHUNK_FLOATS = 16 * 2**20
"""How many floats of workspace `all_pairs` may take at once (64 MB in float32)."""


@dataclass(frozen=True)
class Laws:
    """What a distance promises; the contract tests hold every registered one to it."""

    symmetric: bool = True
    """value(z, z') = value(z', z)"""
    nonnegative: bool = True
    self_zero: bool = True
    """value(z, z) = 0, up to the root guard (`Distance.floor`)"""
    triangle: bool = False
    """value(x, z) <= value(x, y) + value(y, z)"""


@dataclass(frozen=True)
class NoOptions:
    """The config of a distance that has none."""


class Distance(nn.Module, ABC, Generic[ConfigT]):
    """A latent dissimilarity over pairs.

    A subclass gives `Config`, its `laws` and `_measure`; it is final.
    """

    Config: ClassVar[type[Any]]
    laws: Laws = Laws()
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    coordinate_wise: ClassVar[bool] = False
    """True where values are [P, d], one per coordinate."""

    def __init__(self, latent_dim: int, config: ConfigT) -> None:
        super().__init__()
        self.latent_dim = latent_dim
        self.config = config

    @abstractmethod
    def _measure(
        self, z: Tensor, z_prime: Tensor, penalised: bool, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor | None]:
        """Values [P] (or [P, d]) of checked z, z_prime [P, d]; and, where `penalised`, the penalty [] if any."""

    def forward(self, z: Tensor, z_prime: Tensor) -> Tensor:
        """Values of the pairs (z[p], z_prime[p]). z, z_prime: [P, d] -> [P] (coordinate-wise: [P, d])."""
        self._check(z, z_prime, paired=True)
        return self._measure(z, z_prime, False, None)[0]

    def measure(self, z: Tensor, z_prime: Tensor, generator: torch.Generator | None = None) -> Measurement:
        """Values, penalty and statistics of the pairs. z, z_prime: [P, d].

        `generator` draws what a randomised penalty needs; without one torch's global generator does.
        """
        self._check(z, z_prime, paired=True)
        value, penalty = self._measure(z, z_prime, True, generator)
        seen = value.detach()
        stats = {"distance_mean": seen.mean(), "distance_max": seen.max()} if seen.numel() else {}
        return Measurement(value, value.new_zeros(()) if penalty is None else penalty, stats)

    def measure_between(
        self, z: Tensor, z_prime: Tensor, pairs: Pairs, generator: torch.Generator | None = None
    ) -> Measurement:
        """`measure` of the rows that `pairs` names. z, z_prime: [B, d]."""
        return self.measure(z[pairs.left], z_prime[pairs.right], generator)

    def between(self, z: Tensor, z_prime: Tensor, pairs: Pairs) -> Tensor:
        """Values of the rows that `pairs` names. z, z_prime: [B, d] -> [P] (coordinate-wise: [P, d])."""
        if pairs.complete and not self.coordinate_wise:
            return self.all_pairs(z, z_prime).reshape(-1)
        return self.forward(z[pairs.left], z_prime[pairs.right])

    def all_pairs(self, z: Tensor, z_prime: Tensor | None = None) -> Tensor:
        """Every value between the rows of z [B, d] and of z_prime [C, d] (default z) -> [B, C].

        Memory is bounded (without gradients) whatever B is. A coordinate-wise comparator is averaged over its
        coordinates, so that the answer ranks neighbours for every distance alike.
        """
        self._check(z, z if z_prime is None else z_prime, paired=False)
        return self._all_pairs(z, z if z_prime is None else z_prime)

    @property
    def floor(self) -> float:
        """The value of a pair z = z' where `laws.self_zero` holds: 0, or what a root guard leaves."""
        return 0.0

    def largest(self, length: float) -> float:
        """The largest value (coordinate-wise: of one coordinate) over pairs of latents of at most this length.

        What lies beyond it no encoder of such latents can express; infinity where there is no such bound.
        """
        return float("inf")

    def _all_pairs(self, z: Tensor, z_prime: Tensor) -> Tensor:
        """[B, d], [C, d] -> [B, C]; the plain way, in chunks of rows. Overridden where a matrix form exists."""
        columns = z_prime.shape[0]
        rows = max(1, _CHUNK_FLOATS // max(1, columns * self._floats_per_pair()))
        parts = [self._rows(chunk, z_prime) for chunk in z.split(rows)] if z.shape[0] else []
        return torch.cat(parts) if parts else z.new_zeros(0, columns)

    def _rows(self, z: Tensor, z_prime: Tensor) -> Tensor:
        """[R, d], [C, d] -> [R, C], itself in chunks where one row of pairs is too many."""
        columns = z_prime.shape[0]
        pairs = max(1, _CHUNK_FLOATS // self._floats_per_pair())
        left = torch.arange(z.shape[0], device=z.device).repeat_interleave(columns)
        right = torch.arange(columns, device=z.device).repeat(z.shape[0])
        parts = []
        for i, j in zip(left.split(pairs), right.split(pairs), strict=True):
            value = self._measure(z[i], z_prime[j], False, None)[0]
            parts.append(value.mean(-1) if self.coordinate_wise else value)
        return torch.cat(parts).view(z.shape[0], columns)

    def _floats_per_pair(self) -> int:
        """Workspace of one pair, in floats: sets the chunks of `all_pairs`."""
        return 4 * self.latent_dim

    def _check(self, z: Tensor, z_prime: Tensor, paired: bool) -> None:
        name = type(self).__name__
        for label, value in (("z", z), ("z_prime", z_prime)):
            if not isinstance(value, Tensor):
                raise DtypeError(f"{name}: {label} must be a torch.Tensor, got {type(value).__name__}")
            if not value.is_floating_point():
                raise DtypeError(f"{name}: {label} must be a floating-point tensor, got {value.dtype}")
            if value.ndim != 2 or value.shape[1] != self.latent_dim:
                raise ShapeError(f"{name}: {label} must be [P, {self.latent_dim}], got {list(value.shape)}")
        if z.dtype != z_prime.dtype:
            raise DtypeError(f"{name}: z is {z.dtype} but z_prime is {z_prime.dtype}; they must agree")
        weight = next(self.parameters(), None)
        if weight is not None and weight.device != z.device:
            raise DtypeError(f"{name}: z is on {z.device} but the distance on {weight.device}; move it with .to(...)")
        if weight is not None and weight.dtype != z.dtype and not torch.is_autocast_enabled(z.device.type):
            raise DtypeError(f"{name}: z is {z.dtype} but the distance {weight.dtype}; convert it with .to(z.dtype)")
        if paired and z.shape[0] != z_prime.shape[0]:
            raise ShapeError(
                f"{name}: z and z_prime must hold the same number of pairs, got {z.shape[0]} and {z_prime.shape[0]};"
                " use all_pairs for every combination"
            )


DISTANCES: Registry[type[Distance[Any]]] = Registry("distance", "pamd.distances")
