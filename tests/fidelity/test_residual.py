"""The residual preset `released`: PyTorch's initialization, the first 32 transitions, r / max r, the batch's loss."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.fidelity.difference import largest_difference, report
from torch import nn

import pamd
from pamd.diagnostics.base import quiet
from pamd.diagnostics.matching import match
from pamd.diagnostics.residual import _COLLECTED, _PRESETS, _SEEDS, _Experiment
from pamd.diagnostics.transitions import choose, collect, reward_scale
from pamd.envs import EnvConfig
from pamd.errors import ConfigError
from pamd.experiments import EXPERIMENTS
from pamd.representation import LatentEncoder

TOY = EnvConfig("toy", size=24)
RELEASED = dataclasses.replace(_PRESETS["released"], latent_dim=6, filters=4, pairs=16, steps=1, points=1)


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch) -> _Experiment:
    monkeypatch.setitem(_COLLECTED, "released", TOY)
    made = _Experiment(None, RELEASED, quiet)
    made.data.reward = made.data.reward.double()
    return made


def played_rewards(count: int, seed: int) -> list[float]:
    """The first rewards of the random policy."""
    env, rng = pamd.make_env("toy", size=24, seed=seed), np.random.default_rng(seed)
    rewards: list[float] = []
    over = True
    while len(rewards) < count:
        if over:
            env.reset()
        _, reward, terminated, truncated, _ = env.step(rng.uniform(-1.0, 1.0, 2).astype(np.float32))
        rewards.append(reward)
        over = terminated or truncated
    return rewards


def test_the_first_transitions_are_taken() -> None:
    replay, formula = collect(TOY, 90, seed=3), np.float32(played_rewards(90, 3)).astype(np.float64)
    for drawn, wanted in (("first", formula[:32]), ("newest", formula[-32:])):
        rows = choose(replay, 32, drawn, np.random.default_rng(0))  # type: ignore[arg-type]
        assert largest_difference("residual", replay.take(rows).reward.double(), wanted) == 0
    assert (formula[:32] != formula[-32:]).any()


def test_rewards_are_divided_by_the_largest() -> None:
    reward = torch.tensor([-4.0, 0.5, 2.0])
    formula = {"as-is": 1.0, "over-maximum": 2.0, "over-magnitude": 4.0}
    for rewards, scale in formula.items():
        difference = abs(reward_scale(reward, rewards) - scale)  # type: ignore[arg-type]
        report("residual", difference)
        assert difference == 0
    assert reward_scale(torch.zeros(3), "over-maximum") == 1


def test_the_encoder_keeps_the_weights_that_pytorch_draws(experiment: _Experiment) -> None:
    encoder = experiment._encoder(5)
    assert isinstance(encoder, LatentEncoder)
    torch.manual_seed(5)
    # 24 pixels become 11, then 9.
    plain = [nn.Conv2d(9, 4, 3, stride=2), nn.Conv2d(4, 4, 3), nn.Linear(4 * 9 * 9, 6)]
    formula = [parameter for layer in plain for parameter in layer.parameters()]
    for found, expected in zip(encoder.network.parameters(), formula, strict=True):
        assert largest_difference("residual", found, expected.detach().numpy()) == 0


def test_the_loss_of_the_training_batch(experiment: _Experiment) -> None:
    seed, head = 2, match("pamd", 6, "pamd", "released-residual")
    curve = experiment.fit(head, trainable=True, seed=seed, progress=quiet)
    assert (curve.steps, len(curve.batch_loss)) == ([0, 1], 2)
    rows = torch.as_tensor(np.random.default_rng(seed).integers(0, 32, 8))
    other = torch.randperm(8, generator=torch.Generator().manual_seed(seed))
    torch.manual_seed(seed)
    distance = head.build(6)
    latents = experiment.data.live(experiment._encoder(seed))(rows)
    assert latents.z_next is not None
    value, beyond = (distance(z, z[other]).detach().numpy() for z in (latents.z, latents.z_next))
    reward = experiment.data.reward[rows].numpy()
    gap = np.abs(reward - reward[other])
    target = np.where(gap < 1, gap**2 / 2, gap - 0.5) + 0.99 * beyond  # At the start the slow copy is the distance.
    found, formula = torch.tensor(curve.batch_loss[0]), np.asarray(np.mean((value - target) ** 2))
    assert largest_difference("residual", found, formula) < 1e-14
    assert curve.batch_loss[0] != curve.residual[0]


def test_the_presets() -> None:
    released, paper, quick = (_PRESETS[name] for name in ("released", "paper", "quick"))
    assert (released.encoder_init, released.drawn, released.rewards) == ("pytorch", "first", "over-maximum")
    assert (released.transitions, released.batch, _SEEDS["released"]) == (32, 8, 4)
    assert (paper.encoder_init, paper.drawn, paper.rewards) == ("orthogonal", "spread", "as-is")
    assert (quick.drawn, _SEEDS["quick"]) == ("newest", 3)
    with pytest.raises(ConfigError, match="'over-maximum'"):
        dataclasses.replace(released, rewards="over-maximun")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scale", "fidelity", "preset"),
    [("paper", "paper", "paper"), ("paper", "released", "released"), ("cpu", "released", "quick")],
)
def test_the_figure_fits_with_the_preset_of_its_fidelity(
    scale: str, fidelity: Any, preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr("pamd.diagnostics.residual", lambda source, **options: asked.append(options))
    monkeypatch.setattr("pamd.diagnostics.save", lambda result, place: None)
    (tmp_path / "replay").mkdir()
    after = EXPERIMENTS.get("fig-mlp").after
    assert after is not None
    place = after(scale, fidelity, [("simsr+pamd", Path("other")), ("simsr", tmp_path)])
    assert place == tmp_path / "diagnostics" / f"residual-{preset}"
    assert [options["preset"] for options in asked] == [preset]
