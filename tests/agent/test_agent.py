"""The agent as a whole: seeds, state, schedules, augmentation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.agent.batches import make_batch

from pamd.agent import Agent
from pamd.agent.augment import random_shift
from pamd.methods import method, scale


def updated(name: str = "simsr+pamd", seed: int = 0, count: int = 4, **fields: Any) -> Agent:
    agent = Agent(method(name, **fields), scale("smoke"), action_dim=2, seed=seed)
    for i in range(count):
        agent.update(make_batch(i))
    return agent


def equal(one: Agent, other: Agent) -> bool:
    left, right = one.tensors(), other.tensors()
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def test_same_seed_same_result_and_another_seed_another() -> None:
    torch.manual_seed(1)
    one = updated()
    torch.manual_seed(2)  # the process's own randomness has no part in it
    assert equal(one, updated())
    assert not equal(one, updated(seed=1))


@pytest.mark.parametrize("schedule", ["sequential", "joint"])
@pytest.mark.parametrize("name", ["simsr+pamd", "dbc-det+pamd", "mico"])
def test_a_loaded_state_goes_on_bit_for_bit(name: str, schedule: str) -> None:
    straight = updated(name, count=6, schedule=schedule)
    # As a file keeps them: values, but not their order in memory.
    saved = {k: v.clone().contiguous() for k, v in updated(name, count=3, schedule=schedule).tensors().items()}
    resumed = Agent(method(name, schedule=schedule), scale("smoke"), action_dim=2, seed=9)
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


def test_joint_gradient_is_the_sum_of_the_sequential_ones_at_equal_weights() -> None:
    """The schedules differ in when the weights move, not in what is computed."""
    batch = make_batch(7)
    agent = updated(schedule="joint")
    encoder = list(agent.nets.encoder.parameters())
    generator = agent.generator.get_state()

    def gradient(terms: list[str]) -> list[torch.Tensor]:
        agent.generator.set_state(generator)
        encoded = agent.encode(batch)
        losses = [agent._critic_term(batch, encoded), *agent._model_term(batch, encoded)]
        losses += agent._metric_term(batch, encoded)
        wanted = {"critic": losses[:1], "representation": losses[1:]}
        total = sum(loss.value for term in terms for loss in wanted[term])
        return list(torch.autograd.grad(total, encoder))

    both = gradient(["critic", "representation"])
    apart = [a + b for a, b in zip(gradient(["critic"]), gradient(["representation"]), strict=True)]
    for one, other in zip(both, apart, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)


def test_random_shift_moves_each_image_whole() -> None:
    generator = torch.Generator().manual_seed(0)
    obs = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16).repeat(50, 3, 1, 1)
    shifted = random_shift(obs, 2, generator)
    assert shifted.shape == obs.shape
    assert shifted.dtype == torch.uint8
    padded = torch.nn.functional.pad(obs[:1].float(), (2,) * 4, mode="replicate")[0].byte()
    crops = {(y, x): padded[:, y : y + 16, x : x + 16] for y in range(5) for x in range(5)}
    seen = {next(k for k, crop in crops.items() if torch.equal(crop, image)) for image in shifted}
    assert len(seen) > 10


@pytest.mark.parametrize("schedule", ["sequential", "joint"])
@pytest.mark.parametrize("name", ["dbc", "dbc-det+pamd", "mico", "simsr", "simsr+pamd"])
def test_bfloat16_computes_roughly_the_same_and_keeps_float32_weights(name: str, schedule: Any) -> None:
    made = method(name, schedule=schedule)
    full, half = (
        Agent(made, scale("smoke"), action_dim=2, seed=0, precision=precision) for precision in ("float32", "bfloat16")
    )
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
