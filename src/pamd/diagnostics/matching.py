"""Match the parameter counts of distance heads by choosing their hidden widths."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from pamd.distances import DISTANCES, Distance, distance


@dataclass(frozen=True)
class Head:
    """The settings of a distance in a diagnostic."""

    distance: str
    parameters: int
    options: dict[str, Any] = field(default_factory=dict)
    reference: int | None = None
    """The parameter count to match; None for no matching."""

    def build(self, latent_dim: int) -> Distance[Any]:
        return distance(self.distance, latent_dim=latent_dim, **self.options)

    def __str__(self) -> str:
        name = DISTANCES.get(self.distance).width
        width = f", {name} {self.options[name]}" if name in self.options else ""
        target = f" (to match: {self.reference:,})" if self.reference is not None else ""
        return f"{self.distance}: {self.parameters:,} parameters{width}{target}"


def parameters(module: torch.nn.Module) -> int:
    """Return the number of parameters."""
    return sum(p.numel() for p in module.parameters())


def match(name: str, latent_dim: int, like: str | None = "pamd", preset: str | None = None) -> Head:
    """Return the distance `name` with the hidden width whose parameter count is closest to that of `like`.

    A distance without a width, and `like` itself, are unchanged. `preset` applies if the distance has it.
    """
    cls = DISTANCES.get(name)
    options: Mapping[str, Any] = cls.presets.get(preset, {}) if preset is not None else {}

    def count(hidden: int | None, of: str = name, settings: Mapping[str, Any] = options) -> int:
        """Count parameters at a width, without allocating them."""
        width = {} if hidden is None else {cls.width: hidden}
        with torch.device("meta"):
            return parameters(distance(of, latent_dim=latent_dim, **{**settings, **width}))

    if like is None or like == name or cls.width not in {f.name for f in dataclasses.fields(cls.Config)}:
        return Head(name, count(None), dict(options))
    target = count(None, like, {})
    low, high = 1, 1
    while count(high) < target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) < target else (low, middle)
    hidden = min((low, high), key=lambda width: abs(count(width) - target))
    return Head(name, count(hidden), {**options, cls.width: hidden}, target)
