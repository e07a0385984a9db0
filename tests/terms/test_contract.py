"""What every registered term must keep: its gradients, its copies, its options, its place in a representation."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from torch import Tensor, nn

import pamd
from pamd.errors import ConfigError, UnknownNameError
from pamd.methods import Method
from pamd.schema import from_json, to_json
from pamd.terms import TERMS, TermPart

D, A, SIZE = 6, 2, 10
NEEDS = {"reward": ("transition",), "metric": ("transition",)}
"""The terms that another one needs with its default options. `metric` reads no model, but may."""


def make(name: str, **options: object) -> pamd.Representation:
    torch.manual_seed(0)
    parts = tuple(TermPart(needed) for needed in NEEDS.get(name, ()))
    method = Method(name, latent_dim=D, terms=(*parts, TermPart(name, options)))
    return pamd.Representation(method, encoder=nn.Linear(3, D), action_dim=A)


def transitions() -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(1)
    obs, next_obs = torch.randn(2, SIZE, 3, generator=draw)
    return obs, torch.rand(SIZE, A, generator=draw), torch.rand(SIZE, generator=draw), next_obs


@pytest.mark.parametrize("name", TERMS.names())
def test_the_loss_is_one_finite_number_that_trains_the_encoder_and_the_terms_own_networks(name: str) -> None:
    rep = make(name)
    latents = rep.batch_latents(*transitions(), generator=torch.Generator().manual_seed(0))
    loss, metrics = rep.losses_of(latents, [name])[name]
    assert loss.shape == ()
    assert loss.isfinite()
    assert metrics
    assert all(not value.requires_grad and value.numel() == 1 for value in metrics.values())
    loss.backward()
    own = [p for p in rep.terms[name].parameters() if p.requires_grad]
    assert all(p.grad is not None for p in own)
    assert any(float(p.grad.abs().sum()) > 0 for p in rep.encoder.parameters() if p.grad is not None)
    assert all(p.grad is None for p in rep.target_encoders.parameters())


@pytest.mark.parametrize("name", TERMS.names())
def test_the_loss_is_float32_inside_autocast(name: str) -> None:
    rep = make(name)
    with torch.autocast("cpu", torch.bfloat16):
        latents = rep.batch_latents(*transitions(), generator=torch.Generator().manual_seed(0))
        loss = rep.losses_of(latents, [name])[name].value
    assert latents.z.dtype == loss.dtype == torch.float32


@pytest.mark.parametrize("name", TERMS.names())
def test_it_reads_only_the_copies_that_it_names(name: str) -> None:
    rep = make(name)
    cls, options = TERMS.get(name), rep.method.term(name)
    assert set(rep.target_encoders) <= {copy for part in rep.method.terms for copy in part.cls.copies(part.options)}
    assert cls.step(options) in ("critic", "representation")
    assert cls.window(options) >= 0


@pytest.mark.parametrize("name", TERMS.names())
def test_the_weight_scales_the_loss_and_0_is_allowed(name: str) -> None:
    losses = []
    for weight in (1.0, 0.5, 0.0):
        rep = make(name, weight=weight)
        latents = rep.batch_latents(*transitions(), generator=torch.Generator().manual_seed(0))
        losses.append(float(rep.losses_of(latents, [name])[name].value.detach()))
    assert losses[1] == pytest.approx(losses[0] / 2, rel=1e-5)
    assert losses[2] == 0
    with pytest.raises(ConfigError, match="weight"):
        make(name, weight=-1.0)


@pytest.mark.parametrize("name", TERMS.names())
def test_options_survive_json_and_a_copy_computes_the_same(name: str) -> None:
    rep = make(name)
    assert from_json(Method, to_json(rep.method), "the method") == rep.method
    totals = [
        twin.losses(*transitions(), generator=torch.Generator().manual_seed(0)).total
        for twin in (rep, copy.deepcopy(rep))
    ]
    assert torch.equal(*totals)


@pytest.mark.parametrize("name", TERMS.names())
def test_every_option_has_a_default_and_an_unknown_one_is_named(name: str) -> None:
    assert all(
        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        for field in dataclasses.fields(TERMS.get(name).Config)
    )
    with pytest.raises(UnknownNameError, match="'weight'"):
        TermPart(name, {"weigth": 1.0})


def test_a_target_network_of_a_term_moves_toward_the_trained_one() -> None:
    rep = make("metric", target_distance="ema")
    metric = rep.metric
    assert metric is not None
    assert metric.target_distance is not None
    before = [p.clone() for p in metric.target_distance.parameters()]
    with torch.no_grad():
        for p in metric.distance.parameters():
            p.add_(1.0)
    rep.update_targets(), rep.update_targets()
    moved = list(metric.target_distance.parameters())
    for old, new in zip(before, moved, strict=True):
        torch.testing.assert_close(new, old + 0.005)
    twin = copy.deepcopy(rep)
    twin.update_targets(), twin.update_targets()
    for old, new in zip(moved, twin.metric.target_distance.parameters(), strict=True):  # type: ignore[union-attr]
        assert not torch.equal(old, new), "the copy moves its own target network"


def test_a_term_occurs_once() -> None:
    with pytest.raises(ConfigError, match="a term occurs twice in transition, transition"):
        Method("two", terms=(TermPart("transition"), TermPart("transition")))
