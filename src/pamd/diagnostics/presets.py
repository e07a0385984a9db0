"""The settings and presets of residual fitting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from pamd.config import check_choice, check_positive
from pamd.diagnostics.source import Drawn
from pamd.diagnostics.transitions import Rewards
from pamd.envs import EnvConfig
from pamd.errors import ConfigError
from pamd.initialization import Initialization

__all__ = ["COLLECTED", "PRESETS", "SEEDS", "ResidualSettings"]


@dataclass(frozen=True)
class ResidualSettings:
    """The settings shared by all distances, encoders and seeds of a residual fitting experiment."""

    preset: str = "quick"
    """The preset that the settings were taken from. Changing a field does not change it."""
    latent_dim: int = 50
    latent_space: Literal["layernorm", "sphere"] = "layernorm"
    filters: int = 32
    strides: tuple[int, ...] = (2, 2)
    """The stride of each convolution."""
    encoder: Literal["random", "run"] = "random"
    """The initial weights of the encoder: random, or those of the run. A frozen encoder keeps them."""
    encoder_init: Initialization = "orthogonal"
    """The initialization of random weights."""
    transitions: int | None = 32
    """The number of replay transitions to use; None uses all."""
    drawn: Drawn = "newest"
    """Which transitions to use: the first or newest ones, which are mostly consecutive, or a random sample."""
    rewards: Rewards = "over-magnitude"
    """The scaling of rewards: none, or division by the largest r (over-maximum) or |r| (over-magnitude)."""
    batch: int = 8
    learning_rate: float = 5e-4
    steps: int = 5_000
    tau: float = 0.05
    """The rate of the slow copy of the distance, which is used for next states."""
    gamma: float = 0.99
    distance_preset: str | None = "paper"
    """The preset of distances that have one of that name."""
    match: str | None = "pamd"
    """The distance whose parameter count the other heads match; None for no matching."""
    points: int = 50
    """The number of residual measurements per curve."""
    pairs: int = 1024
    """The number of evaluation pairs, which are the same for every curve."""

    def __post_init__(self) -> None:
        what = "residual fitting"
        check_positive(what, latent_dim=self.latent_dim, filters=self.filters, batch=self.batch, steps=self.steps)
        check_positive(what, learning_rate=self.learning_rate, tau=self.tau, points=self.points, pairs=self.pairs)
        check_choice(what, "drawn", self.drawn, get_args(Drawn))
        check_choice(what, "rewards", self.rewards, get_args(Rewards))
        check_choice(what, "encoder_init", self.encoder_init, get_args(Initialization))
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
"""`paper` follows the text (unstated values are those of the agent). `released` follows the released code. `quick` is a
faster variant of `released`: smaller images, a 5 times larger learning rate, a 10 times larger tau and 20 times fewer
steps. It uses the paper's small constants, and other strides, encoder_init, drawn, rewards and points."""

SEEDS = {"quick": 3, "paper": 4, "released": 4}
"""The default number of seeds of each preset. It is not a setting, because seeds can be added later."""

COLLECTED = {
    "quick": EnvConfig("cheetah_run", size=40, render="fast"),
    "released": EnvConfig("walker_walk"),
}
"""The task for collecting a replay if none is given. `paper` has none, because it requires a trained agent's replay."""
