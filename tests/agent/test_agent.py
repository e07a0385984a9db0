"""The agent as a whole: seeds, state, schedules, augmentation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.agent.batches import OBSERVATION, equal, make_agent, make_batch, updated

from pamd.errors import ConfigError, DtypeError, ShapeError
from pamd.learners import Step


def test_same_seed_same_result_and_another_seed_another() -> None:
    torch.manual_seed(1)
    one = updated()
    torch.manual_seed(2)  # the process's own randomness has no part in it
    assert equal(one, updated())
    assert not equal(one, updated(seed=1))


@pytest.mark.parametrize("schedule", ["sequential", "joint"])
@pytest.mark.parametrize("name", ["simsr+pamd", "dbc-det+pamd", "mico"])
def test_a_loaded_state_continues_bit_for_bit(name: str, schedule: str) -> None:
    straight = updated(name, count=6, schedule=schedule)
    # As a file keeps them: values, but not their order in memory.
    saved = {k: v.clone().contiguous() for k, v in updated(name, count=3, schedule=schedule).tensors().items()}
    resumed = make_agent(name, schedule=schedule, seed=9)
    resumed.load(saved)
    for i in range(3, 6):
        resumed.update(make_batch(i))
    assert equal(straight, resumed)


def test_acting() -> None:
    agent = updated()
    obs = make_batch().obs[0].numpy()
    mode = agent.act(obs, explore=False)
    assert mode.shape == (2,)
    assert mode.dtype == np.float32
    assert np.abs(mode).max() <= 1
    assert np.array_equal(mode, agent.act(obs, explore=False))
    assert not np.array_equal(agent.act(obs, explore=True), agent.act(obs, explore=True))


def test_acting_takes_one_observation_or_a_batch_and_refuses_the_rest() -> None:
    agent, obs = updated(count=1), make_batch().obs.numpy()
    batch = agent.act(obs)
    assert batch.shape == (len(obs), 2)
    np.testing.assert_allclose(batch[3], agent.act(obs[3]), atol=1e-6)
    with pytest.raises(ShapeError, match=r"\[9, 24, 24\] or \[B, 9, 24, 24\], got \[9, 24, 23\]"):
        agent.act(obs[0, :, :, 1:])
    with pytest.raises(DtypeError, match="uint8, got float32"):
        agent.act(obs.astype(np.float32))
    assert agent.observation_shape == OBSERVATION


def test_the_discount_is_one() -> None:
    with pytest.raises(ConfigError, match=r"learner.gamma is 0.9 but method.metric.operator.gamma is 0.99"):
        make_agent("simsr+pamd", options={"gamma": 0.9})


def test_joint_gradient_is_the_sum_of_the_sequential_ones_at_equal_weights() -> None:
    """The schedules differ in when the weights move, not in what is computed."""
    batch = make_batch(7)
    agent = updated(schedule="joint")
    encoder = list(agent.representation.encoder.parameters())
    generator = agent.generator.get_state()

    def gradient(terms: list[str]) -> list[torch.Tensor]:
        agent.generator.set_state(generator)
        latents = agent.representation.latents_of(batch, generator=agent.generator)
        critic = agent.learner.critic_loss(batch, latents, Step(0, 1), agent.generator)
        wanted = {"critic": [critic], "representation": agent.representation.losses_of(latents).values()}
        total = sum(loss.value for term in terms for loss in wanted[term])
        return list(torch.autograd.grad(total, encoder))

    both = gradient(["critic", "representation"])
    apart = [a + b for a, b in zip(gradient(["critic"]), gradient(["representation"]), strict=True)]
    for one, other in zip(both, apart, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("schedule", ["sequential", "joint"])
@pytest.mark.parametrize("name", ["dbc", "dbc-det+pamd", "mico", "simsr", "simsr+pamd"])
def test_bfloat16_computes_roughly_the_same_and_keeps_float32_weights(name: str, schedule: Any) -> None:
    full, half = (make_agent(name, schedule=schedule, precision=precision) for precision in ("float32", "bfloat16"))
    exact, rough = full.update(make_batch(0)), half.update(make_batch(0))
    assert exact.keys() == rough.keys()
    differs = False
    for key, value in exact.items():
        torch.testing.assert_close(
            rough[key].to(value.dtype), value, rtol=0.1, atol=0.05, msg=lambda m, k=key: f"{k}: {m}"
        )
        differs |= bool(rough[key].to(value.dtype) != value)
    assert differs, "bfloat16 was not used"
    assert {p.dtype for p in half.nets.parameters()} == {torch.float32}
    assert all(bool(p.isfinite().all()) for p in half.nets.parameters())
