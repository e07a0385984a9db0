"""Residual fitting (eq:residual_fit): can the distance satisfy its fixed-point equation with a frozen encoder?"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from pamd.diagnostics import matching
from pamd.diagnostics.absorption import Absorption, Curve, absorption
from pamd.diagnostics.base import Ledger, Progress, diagnostic, quiet
from pamd.diagnostics.matching import Head
from pamd.diagnostics.transitions import Drawn, Encode, Rewards, Transitions, collect, open_replay
from pamd.distances import Distance
from pamd.encoders import encoder as make_encoder
from pamd.envs import EnvConfig
from pamd.errors import ConfigError, ShapeError, UnknownNameError
from pamd.initialization import Initialization
from pamd.operators import Operator, operator
from pamd.optimization import ema_update
from pamd.representation import LatentEncoder
from pamd.schema import Count, Discount, Fraction, Positive, record
from pamd.training import load
from pamd.types import Latents, Pairs

ENCODERS = ("frozen", "trainable")
_TOLD = 10
"""Progress is reported every so many steps. Measurements are minutes apart in the larger presets."""


@record(what="residual fitting")
class ResidualSettings:
    """The settings shared by all distances, encoders and seeds of a residual fitting experiment."""

    preset: str = "quick"
    """The preset that the settings were taken from. Changing a field does not change it."""
    latent_dim: Count = 50
    latent_space: Literal["layernorm", "sphere"] = "layernorm"
    filters: Count = 32
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
    batch: Count = 8
    learning_rate: Positive = 5e-4
    steps: Count = 5_000
    tau: Fraction = 0.05
    """The rate of the slow copy of the distance, which is used for next states."""
    gamma: Discount = 0.99
    distance_preset: str | None = "paper"
    """The preset of distances that have one of that name."""
    match: str | None = "pamd"
    """The distance whose parameter count the other heads match; None for no matching."""
    points: Count = 50
    """The number of residual measurements per curve."""
    pairs: Count = 1024
    """The number of evaluation pairs, which are the same for every curve."""

    def __post_init__(self) -> None:
        if self.batch < 2:
            raise ConfigError(
                f"residual fitting: batch must be at least 2 to make pairs of different states, got {self.batch}"
            )


_PRESETS = {
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

_SEEDS = {"quick": 3, "paper": 4, "released": 4}
"""The default number of seeds of each preset. It is not a setting, because seeds can be added later."""

_COLLECTED = {
    "quick": EnvConfig("cheetah_run", size=40, render="fast"),
    "released": EnvConfig("walker_walk"),
}
"""The task for collecting a replay if none is given. `paper` has none, because it requires a trained agent's replay."""


@dataclass(frozen=True)
class Residual:
    """A residual fitting experiment. `curves` holds the finished curves."""

    kind: ClassVar[str] = "residual"
    settings: ResidualSettings
    data: dict[str, Any]
    """The source of the transitions."""
    zero: float
    """The residual of a distance that is 0 everywhere: the mean squared reward distance."""
    heads: tuple[Head, ...]
    curves: tuple[Curve, ...]
    absorption: tuple[Absorption, ...]
    """The absorption of each distance with at least one seed finished for both encoders."""


@diagnostic("residual")
def residual(
    source: Path | None = None,
    *,
    preset: Literal["quick", "paper", "released"] = "quick",
    distances: Sequence[str] = ("pamd", "mlp"),
    seeds: int | None = None,
    steps: int | None = None,
    transitions: int | None = None,
    encoder: Literal["random", "run"] | None = None,
    latent_dim: int | None = None,
    match: str | None = None,
    out: Path | None = None,
    progress: Progress = quiet,
    interrupted: bool = False,
    **changes: Any,
) -> Residual:
    """Test whether the distance head absorbs the supervision.

    Each distance is fitted to its fixed point twice: with a frozen and with a trained encoder.

    Finished curves are kept. After an interruption, rerun the same command to continue; it may add seeds or distances.

    Args:
        source: a run directory or a saved replay (default: a replay filled by a random policy)
        preset: settings; quick takes ten minutes on two cores
        distances: distances to test; see `pamd list distances`
        seeds: number of seeds (default: 3 for quick, 4 for paper and released)
        steps: gradient steps per curve (default: the preset's)
        transitions: number of replay transitions to use (default: the preset's)
        encoder: initial weights of the encoder: random or the run's (default: the preset's)
        latent_dim: dimension of the latents (default: the preset's)
        match: distance whose parameter count the other heads match (default: pamd)

    `changes` are other fields of `ResidualSettings`. With `out`, finished curves are stored there and not recomputed.
    With `interrupted`, only stored curves are returned.
    """
    named = {"steps": steps, "transitions": transitions, "encoder": encoder, "latent_dim": latent_dim, "match": match}
    settings = _settings(preset, {**changes, **{key: value for key, value in named.items() if value is not None}})
    seeds = _SEEDS[preset] if seeds is None else seeds
    if seeds < 1 or not distances:
        raise ConfigError(f"residual fitting requires at least one seed and one distance, got {seeds} and {distances}")
    like = (settings.latent_dim, settings.match, settings.distance_preset)
    heads = tuple(matching.match(name, *like) for name in distances)
    experiment = _Experiment(source, settings, progress)
    kept = {"settings": dataclasses.asdict(settings), "data": experiment.data.description}
    ledger = Ledger(None if out is None else out / "curves.jsonl", kept)
    plan = [(head, which, seed) for seed in range(seeds) for head in heads for which in ENCODERS]
    for number, (head, which, seed) in enumerate(plan if not interrupted else (), start=1):
        # The width is part of the key, because curves of different widths must not be mixed.
        key = f"{head} {which} seed {seed}"
        if key not in ledger:
            told = _numbered(progress, f"curve {number} of {len(plan)}")
            ledger.add(key, dataclasses.asdict(experiment.fit(head, which == "trainable", seed, told)))
    curves = tuple(Curve(**ledger[key]) for h, e, s in plan if (key := f"{h} {e} seed {s}") in ledger)
    ratios = tuple(ratio for head in heads if (ratio := absorption(head.distance, curves)) is not None)
    return Residual(settings, experiment.data.description, experiment.zero, heads, curves, ratios)


def _numbered(progress: Progress, number: str) -> Progress:
    return lambda what, done, total: progress(f"{number}: {what}", done, total)


def _settings(preset: str, changes: dict[str, Any]) -> ResidualSettings:
    if preset not in _PRESETS:
        raise UnknownNameError("preset of residual fitting", preset, _PRESETS)
    names = [f.name for f in dataclasses.fields(ResidualSettings)]
    for key in changes:
        if key not in names:
            raise UnknownNameError("setting of residual fitting", key, names)
    return dataclasses.replace(_PRESETS[preset], **changes)


class _Experiment:
    """The transitions, evaluation pairs and operator shared by all fits."""

    def __init__(self, source: Path | None, settings: ResidualSettings, progress: Progress) -> None:
        self._settings, self._source = settings, source
        if source is None and settings.preset not in _COLLECTED:
            raise ConfigError(
                f"preset {settings.preset!r} requires the replay of a trained agent: train one"
                " (`pamd train walker_walk --method simsr`) and name its run directory"
            )
        if source is None and settings.encoder == "run":
            raise ConfigError('residual fitting: encoder "run" requires a run directory')
        if source is not None:
            replay, origin = open_replay(source), {"source": source.name}
        else:
            env = _COLLECTED[settings.preset]
            replay = collect(env, settings.transitions or 1000, 0, progress)
            origin = {"task": env.task, "policy": "random"}
        self.data = Transitions(replay, settings.transitions, settings.drawn, settings.rewards, origin)
        self._operator: Operator[Any] = operator("independent", gamma=settings.gamma, reward_gap="smooth-l1")
        rng = np.random.default_rng(0)
        left, right = (torch.as_tensor(rng.integers(0, len(self.data), settings.pairs)) for _ in range(2))
        rows, places = torch.unique(torch.cat([left, right]), return_inverse=True)
        self._rows, self._pairs = rows, Pairs(*places.chunk(2))
        gap = F.smooth_l1_loss(self.data.reward[left], self.data.reward[right], reduction="none")
        self.zero = float(gap.square().mean())

    def fit(self, head: Head, trainable: bool, seed: int, progress: Progress) -> Curve:
        """Compute one curve. Batches, pairs and initial weights are the same for both encoders of a seed."""
        settings = self._settings
        encoder = self._encoder(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            distance = head.build(settings.latent_dim)
        slow = copy.deepcopy(distance).requires_grad_(False)
        encode: Encode = self.data.live(encoder) if trainable else self.data.fixed(encoder)
        learned = [*(p for p in distance.parameters() if p.requires_grad), *(encoder.parameters() if trainable else ())]
        optimizer = torch.optim.Adam(learned, lr=settings.learning_rate, fused=True) if learned else None
        rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
        name: Literal["frozen", "trainable"] = "trainable" if trainable else "frozen"
        curve = Curve(head.distance, name, seed, [], [], [])
        every = max(1, settings.steps // settings.points)
        batch = min(settings.batch, len(self.data))
        for step in range(settings.steps + 1):
            measured = step % every == 0 or step == settings.steps
            if optimizer is None and not measured:
                continue
            rows = torch.as_tensor(rng.integers(0, len(self.data), batch))
            loss = self._loss(encode(rows), Pairs.permutation(batch, generator), distance, slow)[0]
            if measured:
                self._record(curve, step, encode, distance, slow)
                curve.batch_loss.append(float(loss.detach()))
            if step % _TOLD == 0 or step == settings.steps:
                progress(f"{head.distance}, {name} encoder, seed {seed}", step, settings.steps)
            # Some distances ignore their latents, so their loss has no gradient.
            if step == settings.steps or optimizer is None or not loss.requires_grad:
                continue
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema_update(slow, distance, settings.tau)
        return curve

    def _loss(
        self, latents: Latents, pairs: Pairs, distance: Distance[Any], slow: Distance[Any]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss eq:residual_fit and the targets [P]."""
        target = self._operator.target(latents, pairs, slow)
        return F.mse_loss(distance.between(latents.z, latents.z, pairs), target), target

    @torch.no_grad()
    def _record(self, curve: Curve, step: int, encode: Encode, distance: Distance[Any], slow: Distance[Any]) -> None:
        value, target = self._loss(encode(self._rows), self._pairs, distance, slow)
        curve.steps.append(step)
        curve.residual.append(float(value))
        curve.target_square.append(float(target.square().mean()))

    def _encoder(self, seed: int) -> nn.Module:
        settings = self._settings
        channels, size = self.data.channels, self.data.size
        if settings.encoder == "random":
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                network = make_encoder(
                    "conv",
                    observation_shape=(channels, size, size),
                    latent_dim=settings.latent_dim,
                    filters=settings.filters,
                    strides=settings.strides,
                    init=settings.encoder_init,
                )
                return LatentEncoder(network, settings.latent_space, settings.latent_dim)
        assert self._source is not None
        run = load(self._source)
        seen = run.config.env.size
        if (seen, run.config.method.latent_dim) != (size, settings.latent_dim):
            raise ShapeError(
                f"the run's encoder requires {seen} x {seen} images and returns {run.config.method.latent_dim} numbers,"
                f" but the replay has {size} x {size} images and latent_dim is {settings.latent_dim}"
            )
        return copy.deepcopy(run.measured.encoder).requires_grad_(True)
