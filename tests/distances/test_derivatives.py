"""Every distance under autograd's and torch.func's transforms, under export and under compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, func
from torch.autograd import forward_ad

import pamd
from pamd.distances import Distance

# Torch's own, about its internals: tracing still uses what torch has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

D, P = 6, 4
NAMES = pamd.DISTANCES.names()
OPTIONS: dict[str, dict[str, Any]] = {"pamd-block": {"block": 3}}


def make(name: str) -> Distance[Any]:
    torch.manual_seed(3)
    made = pamd.distance(name, latent_dim=D, **OPTIONS.get(name, {}))
    for parameter in made.parameters():  # away from the kink of ReHU, where a global diagonal starts
        torch.nn.init.normal_(parameter, std=0.5)
    return made.double()


def pair(seed: int = 0, *shape: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z, z_prime = torch.randn(2, *(shape or (P,)), D, generator=generator, dtype=torch.float64)
    return z, z_prime


def measured(d: Distance[Any], names: list[str]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Value and penalty as a function of latents and weights, with the same draw each time."""

    def call(z: Tensor, z_prime: Tensor, *weights: Tensor) -> tuple[Tensor, Tensor]:
        options = {"measured": True, "generator": torch.Generator().manual_seed(0)}
        found = func.functional_call(d, dict(zip(names, weights, strict=True)), (z, z_prime), options)
        return found.value, found.penalty + 0 * z.sum()

    return call


@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives_of_value_and_penalty(name: str) -> None:
    d, (z, z_prime) = make(name), pair()
    weights = dict(d.named_parameters())
    inputs = (z.requires_grad_(), z_prime.requires_grad_(), *weights.values())
    assert torch.autograd.gradgradcheck(measured(d, list(weights)), inputs, fast_mode=True)


@pytest.mark.parametrize("name", NAMES)
def test_first_and_second_derivatives_of_all_pairs(name: str) -> None:
    d, (z, z_prime) = make(name), pair()
    inputs = (z.requires_grad_(), z_prime.requires_grad_())
    assert torch.autograd.gradcheck(d.all_pairs, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(d.all_pairs, inputs, fast_mode=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_gradient_with_a_graph_is_the_ordinary_gradient(name: str) -> None:
    d, (z, z_prime) = make(name), pair()
    z.requires_grad_()
    leaves = [z, *d.parameters()]
    plain = torch.autograd.grad(d(z, z_prime).sum(), leaves)
    torch.testing.assert_close(torch.autograd.grad(d(z, z_prime).sum(), leaves, create_graph=True), plain)


@pytest.mark.parametrize("name", NAMES)
def test_torch_func_agrees_with_autograd(name: str) -> None:
    d, (z, z_prime) = make(name), pair()
    one = lambda x: d(x, z_prime)  # noqa: E731
    expected = torch.autograd.functional.jacobian(one, z)
    torch.testing.assert_close(func.jacrev(one)(z), expected)
    torch.testing.assert_close(func.jacfwd(one)(z), expected)
    torch.testing.assert_close(func.grad(lambda x: one(x).sum())(z), expected.flatten(0, -3).sum(0))
    value, tangent = func.jvp(one, (z,), (z_prime,))
    torch.testing.assert_close(value, one(z))
    torch.testing.assert_close(tangent, (expected * z_prime).sum((-2, -1)))
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(one(forward_ad.make_dual(z, z_prime)))
    torch.testing.assert_close(dual.tangent, tangent)


@pytest.mark.parametrize("name", NAMES)
def test_vmap(name: str) -> None:
    d, (z, z_prime) = make(name), pair(0, 3, P)
    expected = torch.stack([d(x, y) for x, y in zip(z, z_prime, strict=True)])
    torch.testing.assert_close(func.vmap(d)(z, z_prime), expected)
    matrices = torch.stack([d.all_pairs(x) for x in z])
    torch.testing.assert_close(func.vmap(d.all_pairs)(z), matrices)
    draws = func.vmap(d.measure, randomness="different")(z, z_prime)
    torch.testing.assert_close(draws.value, expected)


@pytest.mark.parametrize("name", NAMES)
def test_export_with_any_number_of_pairs(name: str) -> None:
    d = make(name)
    pairs = torch.export.Dim("pairs", min=2, max=1000)
    program = torch.export.export(d, pair(), dynamic_shapes={"z": {0: pairs}, "z_prime": {0: pairs}})
    other = pair(1, 9)
    torch.testing.assert_close(program.module()(*other), d(*other))


@pytest.mark.parametrize("name", NAMES)
def test_compile_forward_and_backward(name: str) -> None:
    d, (z, z_prime) = make(name), pair()
    z.requires_grad_()
    torch.compiler.reset()
    # Without code generation: the graph must be captured whole, the rest is torch's.
    compiled = torch.compile(d, backend="aot_eager", fullgraph=True)
    value = compiled(z, z_prime)
    found = torch.autograd.grad(value.sum(), [z, *d.parameters()])
    torch.testing.assert_close(value, d(z, z_prime))
    torch.testing.assert_close(found, torch.autograd.grad(d(z, z_prime).sum(), [z, *d.parameters()]))


def test_the_ordinary_case_is_packed() -> None:
    """Else everything above would hold for a slow distance."""
    with torch.profiler.profile() as profile:
        d, (z, z_prime) = make("pamd"), pair()
        d.measure(z.requires_grad_(), z_prime)
    assert "_PackedForm" in {event.key for event in profile.key_averages()}
