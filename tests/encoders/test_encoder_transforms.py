"""Every encoder under copies, torch.func, second derivatives, export and compile."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, func

import pamd
from pamd.encoders import Encoder

# Torch's own, about its internals: tracing still uses what torch has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

OPTIONS: dict[str, dict[str, Any]] = {"conv": {"filters": 4, "strides": (2, 1)}, "mlp": {"hidden": 8}}
SHAPES: dict[str, tuple[int, ...]] = {"conv": (3, 12, 12)}
NAMES = pamd.ENCODERS.names()


def make(name: str) -> Encoder[Any]:
    torch.manual_seed(0)
    shape = SHAPES.get(name, (7,))
    return pamd.encoder(name, observation_shape=shape, latent_dim=3, **OPTIONS.get(name, {})).double()


def observations(name: str, count: int = 4) -> Tensor:
    shape = SHAPES.get(name, (7,))
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("name", NAMES)
def test_copies_are_equal(name: str) -> None:
    encoder, obs = make(name), observations(name)
    for other in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert torch.equal(other(obs), encoder(obs))


@pytest.mark.parametrize("name", NAMES)
def test_torch_func_agrees_with_autograd(name: str) -> None:
    encoder, obs = make(name), observations(name)
    weights = dict(encoder.named_parameters())
    loss = lambda weights, obs: func.functional_call(encoder, weights, (obs,)).square().sum()  # noqa: E731
    expected = torch.autograd.grad(encoder(obs).square().sum(), list(weights.values()))
    found = func.grad(loss)(weights, obs)
    torch.testing.assert_close(list(found.values()), list(expected))
    _, tangent = func.jvp(lambda weights: loss(weights, obs), (weights,), (found,))
    torch.testing.assert_close(tangent, sum(slope.square().sum() for slope in expected))
    apart = func.vmap(func.grad(loss), in_dims=(None, 0))(weights, obs[:, None])  # one gradient per observation
    torch.testing.assert_close([slopes.sum(0) for slopes in apart.values()], list(expected))


@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives(name: str) -> None:
    """Against the path that autograd takes by itself where the observations need a gradient, too."""
    encoder, obs = make(name), observations(name)
    found = []
    for needed in (False, True):
        z = encoder(obs.clone().requires_grad_(needed))
        slopes = torch.autograd.grad(z.pow(3).sum(), list(encoder.parameters()), create_graph=True)
        found.append(torch.autograd.grad(sum(s.square().sum() for s in slopes), list(encoder.parameters())))
    torch.testing.assert_close(*found)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_export_and_compile(name: str) -> None:
    encoder, obs = make(name), observations(name)
    batch = torch.export.Dim("batch", min=2, max=1000)
    program = torch.export.export(encoder, (obs,), dynamic_shapes=({0: batch},))
    other = observations(name, 9)
    torch.testing.assert_close(program.module()(other), encoder(other))
    torch.compiler.reset()
    compiled = torch.compile(encoder, backend="aot_eager", fullgraph=True)
    weights = list(encoder.parameters())
    found = torch.autograd.grad(compiled(obs).square().sum(), weights)
    torch.testing.assert_close(found, torch.autograd.grad(encoder(obs).square().sum(), weights))
    with torch.no_grad():
        torch.testing.assert_close(compiled(obs), encoder(obs))
