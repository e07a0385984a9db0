"""The losses of a representation, term by term."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pamd.types import Loss

__all__ = ["Losses"]


@dataclass(frozen=True)
class Losses(Mapping[str, Loss]):
    """Weighted losses by term: "transition", "reward", "metric". A term that the method does not have is absent."""

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
