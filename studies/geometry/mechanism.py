"""What the head of PAMD learns: its matrices during training, and the directions to which they give weight.

The runs of some arms are trained again in steps. After each step, pairs of states are drawn from the replay. The
weight of a direction u is d * u'Gu / u'u. It is 1 for every direction if G is isotropic.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.autograd.functional import jvp

from pamd.diagnostics.geometry import anisotropy, pair_variation
from pamd.diagnostics.transitions import choose
from pamd.distances.pamd import QuadraticForm
from pamd.envs.state import StateNoise
from pamd.representation.meters import entropy_rank
from pamd.training import Trained, load, train
from pamd.training.config import TrainConfig
from studies.geometry import plan
from studies.geometry.plan import HERE, TASKS

__all__ = ["ARMS", "DATA", "Row", "measure", "measured", "rows"]

DATA = HERE / "mechanism.csv"
ARMS = ("pamd", "pamd, d = 8", "pamd, projected noise", "frozen")
STEPS = (1_000, 3_000, 6_000, 12_000, plan.DECISIONS)
"""Budgets in decisions. The first 500 decisions are random, and there are 165 updates until the first step."""
PAIRS = 256
TOP = 0.1
"""The share of directions that are called the top directions of G; at least one."""


@dataclasses.dataclass(frozen=True)
class Row:
    """The means over the pairs of one run at one time."""

    arm: str
    task: str
    seed: int
    decisions: int
    rank: float
    """The effective rank of G, as a share of d."""
    anisotropy: float
    """|G - I/d|_F"""
    variation: float
    """|G_p - mean G|_F / |mean G|_F: 0 if all pairs share one matrix."""
    top: float
    """The share of |x - y|^2 in the top directions of G, relative to the share of these directions."""
    difference: float
    """The weight of x - y."""
    value: float
    """The weight of the gradient of the value at x."""
    state: float
    """The mean weight of the directions in which x moves if a coordinate of the state moves."""
    noise: float
    """The same, for coordinates of the noise."""
    heard: float
    """How far x moves with the noise, relative to the state, for changes of one standard deviation."""


def measured(trained: Trained, *, pairs: int = PAIRS, seed: int = 0) -> dict[str, float]:
    """Measure the matrices of a run on states with noise. Returns the fields of `Row` after `decisions`."""
    distance = trained.distance
    assert isinstance(distance, QuadraticForm)
    replay = trained.replay()
    rng = np.random.default_rng(seed)
    obs = replay.take(choose(replay, 2 * pairs, "spread", rng)).obs[torch.as_tensor(rng.permutation(2 * pairs))]
    encoder = trained.representation.encoder
    with torch.no_grad():
        x, y = trained.measured.encode(obs).chunk(2)
        G = distance.matrix(x, y).double()
        features = encoder.trunk(encoder.prepare(obs[:pairs]))
    G = G / G.diagonal(dim1=1, dim2=2).sum(-1)[:, None, None]
    d = G.shape[-1]

    def weight(u: Tensor) -> Tensor:
        """Return the weights [..., P] of directions u [..., P, d]; NaN for a direction of length 0."""
        u = u.double()
        return d * torch.einsum("...pi,pij,...pj->...p", u, G, u) / u.square().sum(-1)

    at = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(trained.agent.learner.value(features, at).sum(), at)
    delta = (x - y).double()
    eigenvalues, vectors = torch.linalg.eigh(G)
    count = max(1, round(TOP * d))
    inside = torch.einsum("pi,pik->pk", delta, vectors[..., -count:]).square().sum(-1) / delta.square().sum(-1)
    moves = _moves(trained, obs[:pairs])
    states = moves.shape[0] - _noise(trained).config.coordinates
    lengths = moves.square().sum(-1).mean(-1).sqrt() * _deviations(trained, obs)
    values = {
        "rank": entropy_rank(eigenvalues.clamp_min(0).flip(-1)) / d,
        "anisotropy": anisotropy(G),
        "variation": pair_variation(G),
        "top": inside * d / count,
        "difference": weight(delta),
        "value": weight(gradient),
        "state": weight(moves[:states]),
        "noise": weight(moves[states:]),
        "heard": lengths[states:].mean() / lengths[:states].mean(),
    }
    return {name: float(value.nanmean()) for name, value in values.items()}


def _noise(trained: Trained) -> StateNoise:
    config = trained.config.env.noise
    assert config is not None
    (size,) = trained.replay().layout.frame_shape
    return StateNoise(config, size - config.coordinates)


def _sources(trained: Trained) -> Tensor:
    """Return the columns [n, n] by which an observation moves with each coordinate of the state and of the noise."""
    noise = _noise(trained)
    return torch.as_tensor(np.eye(noise.size) if noise.matrix is None else noise.matrix, dtype=torch.float32)


def _moves(trained: Trained, obs: Tensor) -> Tensor:
    """Return the derivative [n, P, d] of the latents by each coordinate of the state, then of the noise."""
    encode: Callable[[Tensor], Tensor] = trained.measured.encode
    columns = _sources(trained)
    return torch.stack([jvp(encode, obs, column.expand_as(obs).contiguous())[1] for column in columns.T])


def _deviations(trained: Trained, obs: Tensor) -> Tensor:
    """Return the standard deviation [n] of each coordinate of the state and of the noise over `obs`."""
    both: Tensor = torch.linalg.solve(_sources(trained).double(), obs.double().T)
    return both.std(1).float()


def measure(runs_in: Path, seeds: int = 2) -> Iterator[str]:
    """Train the runs step by step, add the missing rows to mechanism.csv, and yield a line about each."""
    known = {(row.arm, row.task, row.seed, row.decisions) for row in rows()}
    for seed in range(seeds):
        for arm in ARMS:
            for task in TASKS:
                config = _config(arm, task, seed)
                for decisions in STEPS:
                    if (arm, task, seed, decisions) in known:
                        continue
                    run = train(dataclasses.replace(config, decisions=decisions), runs_in)
                    row = Row(arm, task, seed, decisions, **measured(load(run)))
                    _append(row)
                    yield f"{arm}, {task}, seed {seed}, {decisions} decisions: effective rank {row.rank:.2f} d"


def _config(arm: str, task: str, seed: int) -> TrainConfig:
    """Return the config of the study's own run of this arm."""
    stage = "primary" if arm in plan.PRIMARY else "exploration"
    (config,) = (
        one.config
        for one in plan.runs(stage)
        if (one.label, one.config.env.task, one.config.seed) == (arm, f"state:{task}", seed)
    )
    return config


def rows(data: Path = DATA) -> list[Row]:
    """Return the rows of mechanism.csv."""
    if not data.exists():
        return []
    with data.open(newline="") as file:
        types = {"arm": str, "task": str, "seed": int, "decisions": int}
        return [Row(**{key: types.get(key, float)(text) for key, text in row.items()}) for row in csv.DictReader(file)]


def _append(row: Row) -> None:
    new = not DATA.exists()
    with DATA.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(field.name for field in dataclasses.fields(Row))
        writer.writerow(f"{value:.5g}" if isinstance(value, float) else value for value in dataclasses.astuple(row))
