"""Every operator x distance x latent space, and every term x latent space, trains or is refused by name.

New registrations are in by themselves.
"""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from tests.terms.windows import inputs_for
from torch import Tensor, nn

import pamd
from pamd.errors import PamdError
from pamd.methods import DistancePart, LatentSpace, Method, OperatorPart
from pamd.terms import TERMS, MetricConfig, TermPart

D, BATCH = 4, 6
OPERATORS = pamd.OPERATORS.names()
DISTANCES = pamd.DISTANCES.names()
SPACES = get_args(LatentSpace)
TRAINED = {"bisimulation", "bisimulation-det", "independent", "rap"}
"""Operators whose needs a representation fills by itself. They must train with every scalar distance."""


def make(operator: str, distance: str, space: Any) -> pamd.Representation:
    needs = pamd.operator(operator).needs
    terms = [TermPart("transition", {"kind": "gaussian", "std": "sigmoid"})]
    terms += [TermPart("state-reward")] if "reward_std" in needs else []
    terms += [TermPart("reward")] if "action_reward" in needs else []
    metric = MetricConfig(distance=DistancePart(distance), operator=OperatorPart(operator))
    terms.append(TermPart("metric", metric))
    method = Method(f"{operator}+{distance}", latent_dim=D, latent_space=space, terms=tuple(terms))
    torch.manual_seed(0)
    return pamd.Representation(method, encoder=nn.Linear(3, D), action_dim=1)


def train(rep: pamd.Representation, term: str = "metric", *, windows: bool = False) -> list[Tensor]:
    """Two updates on random transitions, with the windows that the method reads: the losses of a term."""
    draw = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(rep.parameters(), 1e-3)
    totals = []
    for _ in range(2):
        obs, next_obs = (torch.randn(BATCH, 3, generator=draw) for _ in range(2))
        action, reward = torch.rand(BATCH, 1, generator=draw), torch.rand(BATCH, generator=draw)
        inputs = inputs_for(rep.method, action, reward, next_obs, draw) if windows else None
        loss = rep.losses(obs, action, reward, next_obs, generator=draw, inputs=inputs)
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
        rep.update_targets()
        totals.append(loss[term].value.detach())
    return totals


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_it_trains_or_is_refused_by_name(operator: str, distance: str, space: Any) -> None:
    refused = None
    try:
        rep = make(operator, distance, space)
        before = rep.encoder.network.weight.clone()
        losses = train(rep)
    except PamdError as error:
        refused = str(error)
    if refused is not None:
        assert operator in refused or pamd.OPERATORS.get(operator).__name__ in refused
        assert operator not in TRAINED or pamd.DISTANCES.get(distance).coordinate_wise
        return
    assert all(loss.isfinite() for loss in losses)
    assert not torch.equal(rep.encoder.network.weight, before)
    assert all(p.isfinite().all() for p in rep.parameters())


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("term", TERMS.names())
def test_every_term_trains_in_every_latent_space(term: str, space: Any) -> None:
    needed = (TermPart("transition"),) if term == "reward" else ()
    method = Method(term, latent_dim=D, latent_space=space, terms=(*needed, TermPart(term)))
    torch.manual_seed(0)
    rep = pamd.Representation(method, encoder=nn.Linear(3, D), action_dim=1)
    before = rep.encoder.network.weight.clone()
    assert all(loss.isfinite() for loss in train(rep, term, windows=True))
    assert not torch.equal(rep.encoder.network.weight, before)
    assert all(p.isfinite().all() for p in rep.parameters())
