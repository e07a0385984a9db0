"""A representation under copies, autocast, torch.func, second derivatives, export and compile."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from tests.agent.batches import two_members
from tests.terms.windows import inputs_for
from torch import Tensor, func, nn

import pamd
from pamd.errors import ConfigError
from pamd.representation import Losses

# Torch's own, about its internals: tracing still uses what torch has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

D = 6
WINDOWED = ["taco", "mrq", "spr"]
NAMES = ["zp", "deepmdp", "dbc", "dbc-det", "dbc-normed", "mico", "simsr", "rap", "simsr+pamd", "mico+pamd", "curl"]
NAMES += WINDOWED
UNDER_FUNC = [name for name in NAMES if name != "dbc-normed"]
# MICo's angle has a kink where a state meets itself, so there is no second derivative.
TWICE = [name for name in NAMES if name not in ("mico", "rap")]


def make(name: str) -> pamd.Representation:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, D))
    return pamd.Representation(pamd.method(name, latent_dim=D, **two_members(name)), encoder=encoder, action_dim=3)


def transitions() -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(0)
    obs, next_obs = (torch.randn(8, 5, generator=draw) for _ in range(2))
    return obs, torch.rand(8, 3, generator=draw), torch.rand(8, generator=draw), next_obs


def inputs(rep: pamd.Representation, batch: Sequence[Tensor]) -> dict[str, Any]:
    """The windows, if the method reads some."""
    if not rep.method.window:
        return {}
    return {"inputs": inputs_for(rep.method, *batch[1:], torch.Generator().manual_seed(2))}


def total(rep: Any) -> Tensor:
    batch, draw = transitions(), torch.Generator().manual_seed(1)
    return rep(*batch, generator=draw, **inputs(getattr(rep, "_orig_mod", rep), batch)).total


def seeded_total(losses: Callable[..., Any], batch: Sequence[Tensor], **options: Any) -> Tensor:
    """The total loss with draws from torch's global generator, which torch.compile can trace."""
    torch.manual_seed(1)
    return losses(*batch, **options).total


def learned(rep: pamd.Representation) -> dict[str, nn.Parameter]:
    return {name: p for name, p in rep.named_parameters() if p.requires_grad}


def gradients(loss: Tensor, weights: dict[str, nn.Parameter], **options: Any) -> list[Tensor]:
    """Of every weight; 0 where the loss does not depend on it."""
    found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True, **options)
    return [torch.zeros_like(p) if g is None else g for g, p in zip(found, weights.values(), strict=True)]


def functional(rep: pamd.Representation) -> Callable[[dict[str, Any]], Tensor]:
    """The total loss as a function of the weights, with the same draws each time."""

    def loss(weights: dict[str, Any]) -> Tensor:
        options = {"generator": torch.Generator().manual_seed(1), **inputs(rep, transitions())}
        return func.functional_call(rep, weights, transitions(), options).total

    return loss


def test_a_call_encodes_or_gives_the_losses() -> None:
    rep = make("simsr+pamd")
    obs = transitions()[0]
    assert torch.equal(rep(obs), rep.encode(obs))
    assert isinstance(rep(*transitions()), Losses)


@pytest.mark.parametrize("name", NAMES)
def test_copies_have_the_same_losses(name: str) -> None:
    rep = make(name)
    expected = total(rep)
    for other in (copy.deepcopy(rep), pickle.loads(pickle.dumps(rep))):
        assert torch.equal(total(other), expected)


@pytest.mark.parametrize("name", NAMES)
def test_autocast(name: str) -> None:
    rep = make(name)
    exact = total(rep).detach()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        batch, draw = transitions(), torch.Generator().manual_seed(1)
        losses = rep(*batch, generator=draw, **inputs(rep, batch))
        assert rep.encode(batch[0]).dtype == torch.float32
    assert {loss.value.dtype for loss in losses.values()} == {torch.float32}
    rough = losses.total
    rough.backward()
    torch.testing.assert_close(rough.detach(), exact, rtol=0.1, atol=0.1)
    assert all(p.grad is None or p.grad.isfinite().all() for p in rep.parameters())


@pytest.mark.parametrize("name", UNDER_FUNC)
def test_torch_func_agrees_with_autograd(name: str) -> None:
    rep = make(name)
    weights = learned(rep)
    expected = gradients(total(rep), weights)
    found = func.grad(functional(rep))(weights)
    torch.testing.assert_close(list(found.values()), expected)
    _, tangent = func.jvp(functional(rep), (weights,), (found,))
    squares = sum(slope.square().sum() for slope in expected)
    torch.testing.assert_close(tangent, squares, rtol=1e-3, atol=1e-3, check_dtype=False)


def test_a_ball_under_torch_func_is_refused_by_name() -> None:
    rep = make("dbc-normed")
    with pytest.raises(ConfigError, match='latent space "ball" records the rewards in place'):
        func.grad(lambda values: func.functional_call(rep, values, transitions()).total)(learned(rep))


@pytest.mark.parametrize("name", TWICE)
def test_second_derivatives_commute(name: str) -> None:
    """u^T (H v) = v^T (H u), where H is the Hessian of the loss with its targets held fixed."""
    rep = make(name).double()
    weights, draw = learned(rep), torch.Generator().manual_seed(3)
    batch = tuple(part.double() for part in transitions())
    u, v = ([torch.randn(p.shape, generator=draw).double() for p in weights.values()] for _ in range(2))
    loss = rep(*batch, generator=torch.Generator().manual_seed(1), **inputs(rep, batch)).total
    slopes = gradients(loss, weights, create_graph=True)

    def product(left: list[Tensor], right: list[Tensor]) -> Tensor:
        return sum(((a * b).sum() for a, b in zip(left, right, strict=True)), torch.zeros((), dtype=torch.float64))

    Hu, Hv = (gradients(product(slopes, w), weights, retain_graph=True) for w in (u, v))
    assert product(u, Hv).abs() > 1e-6
    torch.testing.assert_close(product(u, Hv), product(v, Hu))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simsr+pamd", "dbc-normed"])
def test_export_with_any_batch(name: str) -> None:
    rep, batch = make(name), torch.export.Dim("batch", min=2, max=1000)
    program = torch.export.export(rep, transitions()[:1], dynamic_shapes=({0: batch},))
    obs = torch.randn(3, 5)
    torch.testing.assert_close(program.module()(obs), rep(obs))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "dbc-det+pamd"])
def test_the_losses_are_one_graph_for_any_batch(name: str) -> None:
    """The backend "eager" runs the graph as it is. Others drop draws that nobody reads, and so draw other pairs."""
    rep = make(name)
    weights = learned(rep)
    torch.compiler.reset()
    compiled = torch.compile(rep.losses, fullgraph=True, backend="eager")
    for size in (8, 6):
        batch = [part[:size] for part in transitions()]
        given = inputs(rep, batch)
        found, expected = seeded_total(compiled, batch, **given), seeded_total(rep.losses, batch, **given)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(gradients(found, weights), gradients(expected, weights))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dbc-det+pamd", "simsr+pamd", "mico"])
def test_compile_forward_and_backward(name: str) -> None:
    rep = make(name)
    weights = learned(rep)
    torch.compiler.reset()
    compiled = torch.compile(rep, fullgraph=True, backend="aot_eager")
    found, expected = seeded_total(compiled, transitions()), seeded_total(rep, transitions())
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients(found, weights), gradients(expected, weights))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("name", ["simsr+pamd", "mico"])
def test_a_generator_breaks_the_graph_but_not_the_losses(name: str) -> None:
    rep = make(name)
    weights = learned(rep)
    torch.compiler.reset()
    loss = total(torch.compile(rep, backend="aot_eager"))
    torch.testing.assert_close(loss, total(rep))
    torch.testing.assert_close(gradients(loss, weights), gradients(total(rep), weights))
    torch.compiler.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="Generator"):
        total(torch.compile(rep, fullgraph=True, backend="aot_eager"))
