"""Which updates have a step of the actor and of the slow copies.

The released code reads a step that counts decisions from 0. A turn that comes every second update comes at even steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.agent.batches import make_agent, make_batch
from tests.fidelity.difference import report

from pamd.agent import Agent
from pamd.configuration import configure
from pamd.learners.sac import SacConfig
from pamd.methods import TargetCopies, method
from pamd.types import Batch


def released_steps(first_updates: int, updates: int, first_step: int = 1000) -> list[int]:
    """The step at which each update happens: `first_updates` of them at `first_step`, then one per step."""

    def steps() -> Iterator[int]:
        yield from [first_step] * first_updates
        yield from range(first_step + 1, first_step + 1 + updates)

    return list(steps())[:updates]


@pytest.mark.parametrize(("name", "first_updates"), [("dbc-det+pamd", 1000), ("simsr+pamd", 1), ("mico", 1)])
def test_turns_of_the_released_code(name: str, first_updates: int) -> None:
    config = configure("toy", name, fidelity="released")
    sac, made = config.learner.options, config.method
    assert (sac.first_updates or 1) == first_updates
    differ = 0
    for update, step in enumerate(released_steps(first_updates, 3000), start=1):
        copies = sac.in_burst(update) or (update + made.targets.offset) % made.targets.every == 0
        turns = (sac.due(sac.actor_every, update), sac.due(sac.targets_every, update), copies)
        differ += sum(turn != (step % 2 == 0) for turn in turns)
    report("schedule", differ)
    assert differ == 0


@pytest.mark.parametrize("name", ["dbc-det+pamd", "simsr+pamd"])
def test_the_paper_has_every_second_update(name: str) -> None:
    sac = configure("toy", name).learner.options
    assert [u for u in range(1, 9) if sac.due(2, u)] == [2, 4, 6, 8]
    assert method(name).targets.offset == 0


def moved(agent: Agent, updates: int) -> list[dict[str, bool]]:
    """For each of the first updates: whether actor, target critic and target encoder moved."""
    parts: dict[str, Any] = {
        "actor": agent.learner.actor,
        "target critic": agent.learner.target_critic,
        "target encoder": agent.representation.target_encoders["ema"],
    }
    rows = []
    for number in range(updates):
        before = {name: [p.clone() for p in part.parameters()] for name, part in parts.items()}
        agent.update(_double(make_batch(number)))
        rows.append(
            {
                name: any(not torch.equal(p, q) for p, q in zip(part.parameters(), before[name], strict=True))
                for name, part in parts.items()
            }
        )
    return rows


def _double(batch: Batch) -> Batch:
    return Batch(batch.obs, batch.action.double(), batch.reward.double(), batch.next_obs, batch.not_done.double())


@pytest.mark.parametrize(
    ("name", "fidelity", "options", "expected"),
    [
        ("dbc-det", "paper", {}, [False, True, False, True]),
        (
            "dbc-det",
            "released",
            {"first_updates": 3, "burst_every_update": True},
            [True, True, True, True, False, True],
        ),
        ("dbc-det", "released", {"first_updates": 3}, [False, True, False, True]),
        ("simsr", "released", {"schedule_offset": 999}, [True, False, True, False]),
    ],
)
def test_an_agent_keeps_the_schedule(name: str, fidelity: Any, options: dict[str, Any], expected: list[bool]) -> None:
    rows = moved(make_agent(name, fidelity, options=options), len(expected))
    for part in rows[0]:
        assert [row[part] for row in rows] == expected, part


@pytest.mark.parametrize(("fidelity", "update"), [("paper", 7000), ("released", 7001)])
def test_micos_copy(fidelity: Any, update: int) -> None:
    """At `released`, update u is at step u + 999, and the copy is made at steps that are multiples of 8000."""
    own = make_agent("mico", fidelity).representation
    online, slow = (e.network.head.weight for e in (own.encoder, own.target_encoders["periodic"]))
    with torch.no_grad():
        online.add_(1.0)
    own.updates.fill_(update - 2)
    own.update_targets()
    assert not torch.equal(online, slow)
    own.update_targets()
    assert int(own.updates) == update
    assert torch.equal(online, slow)


def test_offsets_are_checked() -> None:
    from pamd.errors import ConfigError, UnknownNameError

    with pytest.raises(ConfigError, match="schedule_offset must be a whole number of at least 0, got -1"):
        SacConfig(schedule_offset=-1)
    with pytest.raises(ConfigError, match="offset must be a whole number of at least 0, got -1"):
        TargetCopies(offset=-1)
    with pytest.raises(UnknownNameError, match="'released'"):
        SacConfig(log_prob="relesed")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="'sigmoid'"):
        method("dbc", transition={"std": "sigmod"})
    with pytest.raises(UnknownNameError, match="'pytorch'"):
        method("dbc", transition={"init": "pytorhc"})
