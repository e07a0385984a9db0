"""What every registered term must keep: its gradients, its copies, its options, its place in a representation."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from tests.terms.windows import inputs_for
from torch import Tensor, nn

import pamd
from pamd.errors import ConfigError, UnknownNameError
from pamd.methods import Method
from pamd.schema import from_json, to_json
from pamd.terms import TERMS, TermPart
from pamd.types import OperatorInputs, Window

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


def inputs(rep: pamd.Representation) -> OperatorInputs:
    return inputs_for(rep.method, *transitions()[1:], torch.Generator().manual_seed(2))


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("name", TERMS.names())
def test_the_loss_is_one_finite_number_that_trains_the_encoder_and_the_terms_own_networks(name: str) -> None:
    rep = make(name)
    latents = rep.batch_latents(*transitions(), generator=seeded(), inputs=inputs(rep))
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
        latents = rep.batch_latents(*transitions(), generator=seeded(), inputs=inputs(rep))
        loss = rep.losses_of(latents, [name])[name].value
    assert latents.z.dtype == loss.dtype == torch.float32


@pytest.mark.parametrize("name", TERMS.names())
def test_it_reads_only_the_copies_that_it_names(name: str) -> None:
    rep = make(name)
    cls, options = TERMS.get(name), rep.method.term(name)
    assert set(rep.target_encoders) <= {copy for part in rep.method.terms for copy in part.cls.copies(part.options)}
    assert cls.step(options) in ("critic", "representation")
    assert cls.window(options) >= 0
    assert cls.window(options) > 0 or not cls.sequence(options)


WINDOWED = [name for name in TERMS.names() if TERMS.get(name).window(TERMS.get(name).Config())]


def test_there_are_terms_with_windows() -> None:
    assert {"taco", "mrq", "spr"} <= set(WINDOWED)


@pytest.mark.parametrize("name", WINDOWED)
def test_windows_that_are_missing_or_others_are_refused_by_name(name: str) -> None:
    rep = make(name)
    window = inputs(rep).window
    assert window is not None
    steps = rep.method.window
    for wrong, says in (
        (None, "got none; pass inputs=OperatorInputs"),
        (dataclasses.replace(window, action=None), "got windows without action"),
        (dataclasses.replace(window, obs=window.last_obs, sequence=None), "got windows without sequence"),
        (
            Window(window.reward[:, 1:], window.length - 1, window.last_obs, window.not_done, window.action[:, 1:]),  # type: ignore[index]
            f"got windows {'without sequence' if rep.method.sequence else f'of {steps - 1} steps'}",
        ),
    ):
        if "without sequence" in says and not rep.method.sequence:
            continue
        with pytest.raises(ConfigError, match=rf"term '{name}' reads windows of {steps} steps with action.*{says}"):
            rep.losses(*transitions(), inputs=OperatorInputs(window=wrong))


@pytest.mark.parametrize("name", WINDOWED)
def test_what_a_window_holds_after_its_end_does_not_matter(name: str) -> None:
    rep = make(name)
    window = inputs(rep).window
    assert window is not None
    assert window.action is not None
    action = torch.where(window.mask[..., None], window.action, 7.0)
    reward = torch.where(window.mask, window.reward, 7.0)
    other = dataclasses.replace(window, action=action, reward=reward)
    if window.sequence is not None:
        other = dataclasses.replace(other, sequence=torch.where(window.mask[..., None], window.sequence, 7.0))
    totals, gradients = [], []
    for one in (window, other):
        total = rep.losses(*transitions(), generator=seeded(), inputs=OperatorInputs(window=one)).total
        rep.zero_grad()
        total.backward()
        totals.append(total.detach())
        gradients.append([p.grad.clone() for p in rep.parameters() if p.grad is not None])
    assert not torch.equal(other.action, window.action)  # type: ignore[arg-type]
    torch.testing.assert_close(totals[0], totals[1])
    torch.testing.assert_close(gradients[0], gradients[1])


@pytest.mark.parametrize("name", WINDOWED)
def test_discrete_actions_of_windows_are_one_hot(name: str) -> None:
    rep, (obs, _, reward, next_obs) = make(name), transitions()
    window = inputs(rep).window
    assert window is not None
    index = torch.randint(A, window.reward.shape, generator=seeded())
    one_hot = nn.functional.one_hot(index, A).float()
    totals = [
        rep.losses(
            obs,
            action[:, 0],
            reward,
            next_obs,
            generator=seeded(),
            inputs=OperatorInputs(window=dataclasses.replace(window, action=action)),
        ).total
        for action in (index, one_hot)
    ]
    assert torch.equal(*totals)


def test_all_windows_of_a_method_have_the_same_length() -> None:
    with pytest.raises(ConfigError, match="the same number of steps, but taco reads 3 steps, mrq reads 5 steps"):
        Method("both", terms=(TermPart("taco"), TermPart("mrq")))
    both = Method("both", terms=(TermPart("taco", {"steps": 5}), TermPart("mrq"), TermPart("spr")))
    assert (both.window, both.sequence) == (5, True)


@pytest.mark.parametrize("name", TERMS.names())
def test_the_weight_scales_the_loss_and_0_is_allowed(name: str) -> None:
    losses = []
    for weight in (1.0, 0.5, 0.0):
        rep = make(name, weight=weight)
        latents = rep.batch_latents(*transitions(), generator=seeded(), inputs=inputs(rep))
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
        twin.losses(*transitions(), generator=seeded(), inputs=inputs(rep)).total for twin in (rep, copy.deepcopy(rep))
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
