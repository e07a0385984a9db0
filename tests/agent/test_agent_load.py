"""An agent loads the state of such an agent and nothing else: a tensor that would be cast or ignored is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.agent.batches import make_agent, updated
from torch import Tensor

from pamd.errors import CheckpointError

WEIGHT = "nets.learner.actor.head.weight"
MOMENT = "optimizers.critic.0.exp_avg"
STRANGE = "optimizers.critic.999.step"


def cast(tensors: dict[str, Tensor], name: str) -> None:
    tensors[name] = tensors[name].double()


def longer(tensors: dict[str, Tensor]) -> None:
    tensors[WEIGHT] = tensors[WEIGHT][None]


CHANGES: dict[str, tuple[str, Callable[[dict[str, Tensor]], object]]] = {
    "another type": (rf"'{WEIGHT}' must be .* torch.float32, got .* torch.float64", lambda t: cast(t, WEIGHT)),
    "another shape": (rf"'{WEIGHT}' must be \[50, 200\] .*, got \[1, 50, 200\]", longer),
    "missing": (rf"'{WEIGHT}' is missing", lambda t: t.pop(WEIGHT)),
    "unknown": ("'nets.more' is unknown to this agent", lambda t: t.update({"nets.more": torch.zeros(1)})),
    "no generator": ("'generator' is missing", lambda t: t.pop("generator")),
    "another generator": ("'generator' must be", lambda t: t.update(generator=torch.zeros(17, dtype=torch.uint8))),
    "a moment of another type": (rf"'{MOMENT}' must be .* got .* torch.float64", lambda t: cast(t, MOMENT)),
    "a moment of another shape": (rf"'{MOMENT}' must be", lambda t: t.update({MOMENT: torch.zeros(3)})),
    "a moment of no parameter": (f"'{STRANGE}' belongs to no parameter", lambda t: t.update({STRANGE: t["updates"]})),
}  # fmt: skip


@pytest.fixture(scope="module")
def saved() -> dict[str, Tensor]:
    return updated("mico", count=1).tensors()


@pytest.mark.parametrize("kind", CHANGES)
def test_tensors_that_do_not_fit_are_refused_by_name(kind: str, saved: dict[str, Tensor]) -> None:
    says, change = CHANGES[kind]
    tensors = dict(saved)
    make_agent("mico").load(tensors)
    change(tensors)
    with pytest.raises(CheckpointError, match=says):
        make_agent("mico").load(tensors)


def test_a_state_from_a_gpu_loads_with_noise_from_the_agents_seed(saved: dict[str, Tensor]) -> None:
    agent, fresh = updated("mico", seed=5, count=2), make_agent("mico", seed=5)
    agent.load({**saved, "generator": torch.zeros(16, dtype=torch.uint8)})
    assert torch.equal(agent.generator.get_state(), fresh.generator.get_state())
    assert torch.equal(agent.tensors()[WEIGHT], saved[WEIGHT])
