"""Evaluation of the released DBC side: 20 episodes every 10 training episodes, and an exact auxiliary term."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.fidelity.difference import largest_difference, report
from tests.training.runs import toy

import pamd
from pamd.configuration import configure
from pamd.errors import ConfigError
from pamd.experiments import EXPERIMENTS
from pamd.sweep.forecast import _evaluations
from pamd.training import train


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def evaluation(config: Any) -> tuple[int, str, int]:
    return config.evaluate_every, config.evaluate_unit, config.evaluate_episodes


@pytest.mark.parametrize(
    ("method", "options", "expected"),
    [
        ("dbc-det+pamd", {"fidelity": "released"}, (10, "episodes", 20)),
        ("simsr+pamd", {"fidelity": "released"}, (10_000, "decisions", 10)),
        ("dbc-det+pamd", {}, (10_000, "decisions", 10)),
        ("dbc-det+pamd", {"fidelity": "released", "scale": "cpu"}, (1_000, "decisions", 5)),
        ("dbc-det+pamd", {"fidelity": "released", "evaluate_every": 500}, (500, "decisions", 20)),
        ("dbc", {"evaluate_every": 7, "evaluate_unit": "episodes"}, (7, "episodes", 10)),
    ],
)
def test_how_often_and_how_long(method: str, options: dict[str, Any], expected: tuple[int, str, int]) -> None:
    assert evaluation(configure("toy", method, **options)) == expected


def test_units_are_checked() -> None:
    with pytest.raises(ConfigError, match="evaluate_unit 'episodes' requires evaluate_every"):
        configure("toy", "dbc", evaluate_unit="episodes")
    with pytest.raises(ConfigError, match=r"evaluate_unit of a run 'episode'.*Valid: decisions, episodes"):
        configure("toy", "dbc", evaluate_every=3, evaluate_unit="episode")


def test_evaluations_come_before_every_third_training_episode(tmp_path: Path) -> None:
    torch.set_default_dtype(torch.float32)
    config = toy("dbc-det+pamd", fidelity="released", evaluate_every=3, evaluate_unit="episodes")
    run = train(config, tmp_path)
    lengths = [row["length"] for row in rows(run / "train.jsonl") if row["kind"] == "episode"]
    ends = [0, *itertools.accumulate(lengths)]  # Episode k begins after decision ends[k].
    formula = sorted({*ends[::3], config.decisions})
    found = [row["decisions"] for row in rows(run / "eval.jsonl")]
    assert len(formula) > 3
    assert len(found) == len(formula)
    difference = float(np.abs(np.subtract(found, formula)).max())
    report("evaluation", difference)
    assert difference == 0


def test_the_forecast_counts_episodes() -> None:
    by_episodes = configure("cheetah_run", "dbc", fidelity="released")
    # An episode is 1000 frames at action repeat 4: ten of them are 2500 decisions.
    by_decisions = configure("cheetah_run", "dbc", fidelity="released", evaluate_every=2500)
    assert _evaluations(by_episodes, 100_000) == _evaluations(by_decisions, 100_000)


def exact_term(distance: Any, z: np.ndarray, z_prime: np.ndarray) -> float:
    """-1e-3 mean (G_tilde - I/d)^2 over pairs, rows and columns, by the equations, in float64."""
    weights = [(p.detach().numpy()) for p in distance.net.parameters()]
    d = z.shape[-1]

    def factor(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        x = np.concatenate([one, other], -1)
        for index in range(0, len(weights), 2):
            x = x @ weights[index].T + weights[index + 1]
            x = np.maximum(x, 0) if index < len(weights) - 2 else x
        L = np.zeros((len(x), d, d))
        L[:, *np.tril_indices(d)] = x
        corner = np.arange(d)
        raw = L[:, corner, corner]
        L[:, corner, corner] = np.where(raw <= 0, 0, np.where(raw < 1, raw**2 / 2, raw - 0.5)) + 1e-12
        return L

    G = sum(L @ L.swapaxes(1, 2) for L in (factor(z, z_prime), factor(z_prime, z)))
    G_tilde = G / (np.trace(G, axis1=1, axis2=2)[:, None, None] + 1e-12)
    return float(-1e-3 * np.mean((G_tilde - np.eye(d) / d) ** 2))


@pytest.mark.parametrize(
    ("method", "preset"), [("dbc-det+pamd", "released-dbc"), ("simsr+pamd", "released-independent")]
)
def test_the_auxiliary_term_is_exact(method: str, preset: str) -> None:
    torch.manual_seed(0)
    distance = configure("toy", method, fidelity="released").method.distance
    assert distance is not None
    made = pamd.distance("pamd", latent_dim=6, preset=preset)
    assert dataclasses.replace(distance.options, hidden=made.config.hidden) == made.config
    z, z_prime = torch.randn(33, 6), torch.randn(33, 6)
    found = made.measure(z, z_prime, generator=torch.Generator().manual_seed(0))[1]
    again = made.measure(z, z_prime, generator=torch.Generator().manual_seed(1))[1]
    assert found is not None
    assert again is not None
    assert torch.equal(found, again), "nothing is drawn"
    formula = np.asarray(exact_term(made, z.numpy(), z_prime.numpy()))
    assert largest_difference("evaluation", found, formula) < 1e-15


def test_none_makes_the_estimated_term_exact() -> None:
    settings = ("method.metric.distance.aux_pairs=none", "method.metric.distance.aux_probes=none")
    distance = configure("toy", "simsr+pamd", settings=settings).method.distance
    assert distance is not None
    assert (distance.options.aux_pairs, distance.options.aux_probes) == (None, None)


@pytest.mark.parametrize(
    ("fidelity", "name", "scene"), [("paper", "paper-video", "stock"), ("released", "released-video", "released-dbc")]
)
def test_fig_video_follows_the_fidelity(fidelity: Any, name: str, scene: str) -> None:
    runs = EXPERIMENTS.get("fig-video").runs("paper", fidelity, seeds=[0])
    assert [run.config.env.distractor.name for run in runs] == [name, name]
    assert [run.config.env.scene for run in runs] == [scene, scene]
    assert len({run.config.method.name for run in runs}) == 2
