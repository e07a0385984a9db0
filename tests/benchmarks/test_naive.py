"""The reference implementation and the agent compute the same losses and, after twenty updates, the same parameters."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import pytest
import torch
from benchmarks.naive import DensePamd, NaiveAgent
from tests.agent.batches import make_agent, make_batch

from pamd.agent import Agent
from pamd.methods import DistancePart, method

PAPER_TABLE = ["dbc", "dbc-det+pamd", "mico", "simsr", "simsr+pamd"]
# The reference implementation forms the norm of every G. The agent estimates it unless aux_pairs and aux_probes are
# None.


def made(name: str, fidelity: Literal["paper", "released"], **fields: Any) -> Agent:
    plain = method(name, fidelity)
    assert plain.distance is not None
    if plain.distance.name == "pamd":
        options = dataclasses.replace(plain.distance.options, aux_pairs=None, aux_probes=None)
        fields["metric"] = {"distance": DistancePart("pamd", options)}
    return make_agent(name, fidelity, **fields)


@pytest.mark.parametrize(
    ("name", "fidelity"),
    [*((n, "paper") for n in PAPER_TABLE), ("simsr+pamd", "released"), ("dbc-det+pamd", "released")],
)
@pytest.mark.usefixtures("double")
def test_sequential_computes_what_the_reference_computes(name: str, fidelity: Literal["paper", "released"]) -> None:
    """In double precision rounding has no room to grow: twenty updates later all is the same to nine digits."""
    agent = made(name, fidelity)
    naive = NaiveAgent(agent)
    for i in range(20):
        ours, theirs = agent.update(make_batch(i)), naive.update(make_batch(i))
        assert ours.keys() == theirs.keys()
        for key in ours:
            torch.testing.assert_close(ours[key], theirs[key], rtol=1e-9, atol=1e-9, msg=lambda m, k=key: f"{k}: {m}")
    found = naive.parameters_as(agent)
    for key, value in agent.nets.named_parameters():
        torch.testing.assert_close(found[key], value, rtol=1e-9, atol=1e-9, msg=lambda m, k=key: f"{k}: {m}")


@pytest.mark.parametrize("name", ["dbc-det+pamd", "simsr+pamd"])
def test_sequential_gives_the_parameters_of_the_reference_after_twenty_updates(name: str) -> None:
    agent = made(name, "paper")
    naive = NaiveAgent(agent)
    before = {key: value.clone() for key, value in agent.nets.state_dict().items()}
    for i in range(20):
        agent.update(make_batch(i)), naive.update(make_batch(i))
    found = naive.parameters_as(agent)
    for key, value in agent.nets.named_parameters():
        # Adam divides by the gradient's size. Where that is nothing but rounding, so is the step: of a million weights,
        # one may be farther away, and which one depends on the processor.
        way = float((value.detach() - before[key]).abs().max())
        away = (found[key] - value.detach()).abs()
        assert int((away > 0.02 * way).sum()) <= value.numel() / 100_000, f"{key}: {float(away.max()) / way}"
        assert float(away.max()) <= 0.1 * way, key


def test_the_reference_forms_the_matrix_and_the_agent_does_not() -> None:
    agent = made("simsr+pamd", "paper")
    assert isinstance(NaiveAgent(agent).distance, DensePamd)
    assert not isinstance(agent.representation.distance, DensePamd)
