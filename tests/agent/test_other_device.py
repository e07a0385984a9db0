"""The path on another device. Nothing here runs on a GPU: see `tests/agent/other_device.py` for what is checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.agent.batches import OBSERVATION, make_batch, make_config
from tests.agent.other_device import DEVICE, DeviceGenerator, Watch, pretend, watched
from tests.terms.windows import window_for

from pamd import methods
from pamd.agent import Agent
from pamd.methods import Method, OperatorPart
from pamd.rng import normal_like, one_of
from pamd.types import Batch, NStep

PIPELINES = [name for name in methods.names() if "+" not in name]
DISTANCES = [name for name in methods.names() if name.startswith(("dbc-det+", "simsr+pamd"))]
REST = [name for name in methods.names() if name not in (*PIPELINES, *DISTANCES)]


@pytest.fixture(autouse=True)
def _pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)


def batch_on_device(method: Method) -> Batch:
    batch = make_batch(size=4)
    n_step = NStep(batch.reward, batch.next_obs, batch.reward)
    steps = window_for(method, batch.action, batch.reward, batch.next_obs, torch.Generator().manual_seed(0))
    full = Batch(batch.obs, batch.action, batch.reward, batch.next_obs, batch.not_done, n_step, steps)
    return full.to(DEVICE)


def update(name: str, **fields: Any) -> Watch:
    options = fields.pop("options", {})
    options = {"actor_every": 1, **options} if fields.get("learner", "sac") == "sac" else options
    agent = Agent(
        make_config(name, options=options, **fields),
        observation_shape=OBSERVATION,
        action_dim=2,
        seed=0,
        device=DEVICE,
    )
    batch = batch_on_device(agent.config.method)
    with watched():
        agent.update(batch)  # The first update builds indices on the host, which are kept on the device.
    with watched() as watch:
        metrics = agent.update(batch)
    assert metrics
    assert all(value.device == DEVICE for value in metrics.values())
    assert watch.operations > 100
    return watch


@pytest.mark.parametrize("name", [*PIPELINES, *DISTANCES])
def test_an_update_stays_on_its_device_and_never_waits(name: str) -> None:
    watch = update(name, schedule="joint" if "+" in name else "sequential")
    assert not watch.problems
    assert watch.asynchronous == 0


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["sequential", "joint"])
@pytest.mark.parametrize("name", REST)
def test_so_does_every_other_method(name: str, schedule: str) -> None:
    assert not update(name, schedule=schedule).problems


@pytest.mark.parametrize(
    "fields",
    [
        {"learner": "drqv2"},
        {"learner": "drm", "options": {"drm": {"measure_every": 1}}},
        {"options": {"drm": {"measure_every": 1, "exploration": False}}},
        {"isolate_metric": True},
        {"precision": "bfloat16"},
        {"options": {"augmentation": {"name": "random-shift"}}},
        {"options": {"n_step": 3}},
        {"fidelity": "released"},
    ],
    ids=str,
)
def test_so_do_learners_and_options(fields: dict[str, Any]) -> None:
    assert not update("simsr+pamd", **fields).problems


@pytest.mark.parametrize("name", ["curl", "taco", "mrq", "spr"])
def test_so_do_windows_of_an_agent_that_augments(name: str) -> None:
    assert not update(name, learner="drqv2").problems


@pytest.mark.parametrize("operator", ["value", "advantage", "psm", "n-step", "kernel", "state-action"])
def test_so_do_operators(operator: str) -> None:
    assert not update("dbc-det+pamd", metric={"operator": OperatorPart(operator)}).problems


def test_acting_reads_the_action_and_nothing_else() -> None:
    agent = Agent(make_config(), observation_shape=OBSERVATION, action_dim=2, seed=0, device=DEVICE)
    obs = np.zeros(OBSERVATION, np.uint8)
    with watched() as watch:
        agent.act(obs, explore=True)
    assert not watch.mixed
    assert [problem.partition(" at ")[0] for problem in watch.problems] == [
        "aten._to_copy to the host",
        "aten._to_copy to the device",
    ]


def test_a_batch_goes_to_the_device_without_waiting() -> None:
    batch = make_batch()
    with watched() as watch:
        moved = batch.to(DEVICE, non_blocking=True)
    assert moved.obs.device == DEVICE
    assert not watch.problems
    assert watch.asynchronous == 5


def test_after_a_load_the_host_reads_the_count_of_updates_once() -> None:
    agent, other = (
        Agent(make_config(), observation_shape=OBSERVATION, action_dim=2, seed=0, device=DEVICE) for _ in range(2)
    )
    other.nets.load_state_dict(agent.nets.state_dict(), assign=True)
    with watched() as watch:
        other.representation.update_targets()
        other.representation.update_targets()
    assert len(watch.read) == 1


def test_a_choice_of_the_host_is_not_read_off_a_device() -> None:
    generator = DeviceGenerator()
    generator.manual_seed(3)
    with watched() as watch:
        drawn = [one_of(5, generator) for _ in range(200)]
    assert not watch.problems
    assert set(drawn) == {0, 1, 2, 3, 4}
    again = DeviceGenerator()
    again.manual_seed(3)
    assert [one_of(5, again) for _ in range(200)] == drawn


@pytest.mark.parametrize(
    ("does", "kind"),
    [
        (lambda x: float(x.sum()), "read"),
        (lambda x: x[x > 0], "read"),
        (lambda x: x.cpu(), "read"),
        (lambda x: x.nonzero(), "read"),
        (lambda x: x + torch.ones(3), "mixed"),
        (lambda x: x[torch.zeros(2, dtype=torch.int64)], "mixed"),
        (lambda x: torch.randn(3, generator=torch.Generator(), device=DEVICE), "mixed"),
        (lambda x: normal_like(x, torch.Generator()), "uploads"),
        (lambda x: x.copy_(torch.ones(3)), "uploads"),
    ],
)
def test_what_a_gpu_refuses_or_waits_for_is_seen(does: Any, kind: str) -> None:
    x = torch.empty(3, device=DEVICE)
    with watched() as watch:
        does(x)
    assert len(getattr(watch, kind)) == 1
    assert watch.problems == getattr(watch, kind)
