"""The settings of residual fitting, and the three presets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pamd.config import check_choice, check_positive
from pamd.diagnostics.source import Drawn
from pamd.diagnostics.transitions import Rewards
from pamd.envs import EnvConfig
from pamd.errors import ConfigError
from pamd.initialisation import Initialisation

__all__ = ["COLLECTED", "PRESETS", "SEEDS", "ResidualSettings"]


@dataclass(frozen=True)
class ResidualSettings:
    """All that is the same for every distance, encoder and seed of one residual-fitting experiment."""

    preset: str = "quick"
    """Where the settings came from; a changed field does not change it."""
    latent_dim: int = 50
    latent_space: Literal["layernorm", "sphere"] = "layernorm"
    filters: int = 32
    strides: tuple[int, ...] = (2, 2)
    """One convolution each."""
    encoder: Literal["random", "run"] = "random"
    """What the encoder starts from (and, frozen, stays): fresh weights of the seed, or those of the run."""
    encoder_init: Initialisation = "orthogonal"
    """How fresh weights are drawn."""
    transitions: int | None = 32
    """How many of the replay's are used, drawn once; None: all."""
    drawn: Drawn = "newest"
    """The first or the newest transitions, whose next states are mostly among the states; or some from all of them."""
    rewards: Rewards = "over-magnitude"
    """Unchanged, or divided by the largest r (over-maximum) or |r| (over-magnitude) of the transitions used."""
    batch: int = 8
    learning_rate: float = 5e-4
    steps: int = 5_000
    tau: float = 0.05
    """Of the slow copy of the distance, which measures next states."""
    gamma: float = 0.99
    distance_preset: str | None = "paper"
    """Taken by the distances that have a preset of that name."""
    match: str | None = "pamd"
    """Whose parameter count the other heads are brought near; None: nobody's."""
    points: int = 50
    """How often along the way the residual is measured."""
    pairs: int = 1024
    """On how many pairs, the same for every curve."""

    def __post_init__(self) -> None:
        what = "residual fitting"
        check_positive(what, latent_dim=self.latent_dim, filters=self.filters, batch=self.batch, steps=self.steps)
        check_positive(what, learning_rate=self.learning_rate, tau=self.tau, points=self.points, pairs=self.pairs)
        check_choice(what, "drawn", self.drawn, get_args(Drawn))
        check_choice(what, "rewards", self.rewards, get_args(Rewards))
        check_choice(what, "encoder_init", self.encoder_init, get_args(Initialisation))
        check_choice(what, "encoder", self.encoder, ("random", "run"))
        if not 0 <= self.gamma < 1 or self.tau > 1:
            raise ConfigError(f"{what}: gamma must lie in [0, 1) and tau in (0, 1], got {self.gamma} and {self.tau}")
        if self.batch < 2:
            raise ConfigError(f"{what}: batch must be at least 2 to make pairs of different states, got {self.batch}")


PRESETS = {
    "quick": ResidualSettings(),
    "paper": ResidualSettings(
        preset="paper",
        strides=(2, 1, 1, 1),
        transitions=20_000,
        drawn="spread",
        tau=0.005,
        rewards="as-is",
        batch=128,
        learning_rate=1e-3,
        steps=100_000,
        points=100,
    ),
    "released": ResidualSettings(
        preset="released",
        strides=(2, 1),
        encoder_init="pytorch",
        drawn="first",
        rewards="over-maximum",
        learning_rate=1e-4,
        tau=0.005,
        steps=100_000,
        distance_preset="released-residual",
        points=100,
    ),
}
"""`paper`: the text (its open numbers are those of the agent). `released`: what the released code does. `quick`:
`released` with smaller pictures, the paper's small constants, and time run ten to twenty times as fast."""

SEEDS = {"quick": 3, "paper": 4, "released": 4}
"""How many seeds each preset has. More may be added to finished ones, so the number is none of the settings."""

COLLECTED = {
    "quick": EnvConfig("cheetah_run", size=40, render="fast"),
    "released": EnvConfig("walker_walk"),
}
"""Whose random policy fills the replay where none is given; `paper` has none, because it requires a trained agent's."""
