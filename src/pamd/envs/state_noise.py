"""Noise coordinates appended to a state vector. A good representation ignores them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.errors import UnknownNameError
from pamd.schema import Count, Index, NonNegative, build, record

__all__ = ["NOISES", "NoiseConfig", "StateNoise", "noise"]


@record(what="noise")
class NoiseConfig:
    """Gaussian noise coordinates, resampled for every decision and appended to the state (Luo et al. 2025)."""

    name: str = "gaussian"
    """The preset that the values come from."""
    coordinates: Count = 32
    """The number of noise coordinates that are appended to the state."""
    deviation: NonNegative = 2.0
    """Their standard deviation."""
    mean: float = 0.0
    """Their mean."""
    shift: float = 1.0
    """The shift of the mean in the unseen half of an evaluation, in standard deviations."""
    projection: Index | None = None
    """The seed of a random square matrix that mixes state and noise; None turns mixing off."""


NOISES: dict[str, dict[str, Any]] = {
    "gaussian": {},
    "projected": {"projection": 0},
}
"""Presets: noise in separate coordinates, and noise mixed with the state by a random matrix."""


def noise(name: str, **options: Any) -> NoiseConfig:
    """Return the preset `name`, with `options` (fields of NoiseConfig) overriding its values."""
    if name not in NOISES:
        raise UnknownNameError("noise", name, NOISES)
    return build(NoiseConfig, {"name": name, **NOISES[name], **options}, f"noise {name!r}")


@dataclass(frozen=True)
class StateNoise:
    """The noise of `config` for states of `state_size` numbers."""

    config: NoiseConfig
    state_size: int

    @property
    def size(self) -> int:
        """The dimension n of an observation."""
        return self.state_size + self.config.coordinates

    @cached_property
    def matrix(self) -> NDArray[np.float64] | None:
        """A matrix [n, n] with entries N(0, 1/n), which preserves the expected squared norm of an observation."""
        if self.config.projection is None:
            return None
        draws = np.random.default_rng([self.config.projection, self.size])
        entries: NDArray[np.float64] = draws.standard_normal((self.size, self.size))
        scaled: NDArray[np.float64] = entries / self.size**0.5
        return scaled

    def __call__(self, state: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
        """Return the observation [n] for the state [state_size]."""
        drawn = random.normal(self.config.mean, self.config.deviation, self.config.coordinates)
        both = np.concatenate([state, drawn])
        return both if self.matrix is None else self.matrix @ both
