"""The packed operation against the plain formula: values, first and second derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import pamd
from pamd.distances import packed
from pamd.distances.packed import packed_form, packed_size
from pamd.distances.pairwise import rehu
from pamd.distances.pamd import triangular_form


def layer(d: int, factors: int, hidden: int = 3) -> tuple[Tensor, Tensor]:
    weight = torch.randn(factors * packed_size(d), hidden).double()
    return weight.requires_grad_(), torch.randn(len(weight)).double().requires_grad_()


@pytest.mark.parametrize(("d", "factors"), [(1, 1), (2, 1), (4, 1), (3, 2)])
@pytest.mark.parametrize("units", [1, 4, 100])
def test_gradcheck_of_every_output_alone_and_together(
    d: int, factors: int, units: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_blocks_of(units, monkeypatch)
    torch.manual_seed(0)
    hidden = torch.randn(2, 5, 3).double().requires_grad_()
    delta = torch.randn(5, factors, d).double().requires_grad_()
    rows = torch.tensor([3, 0])
    for pick in (slice(0, 1), slice(1, 2), slice(2, 3), slice(0, 3)):
        assert torch.autograd.gradcheck(
            lambda h, w, b, v, k=pick: packed_form(triangular_form, h, w, b, v, 0.1, rows)[k],
            (hidden, *layer(d, factors), delta),
        )


@pytest.mark.parametrize("d", [1, 7, 50, 76])
@pytest.mark.parametrize("factors", [1, 3])
def test_values_and_gradients_are_the_plain_formulas(d: int, factors: int) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(2, 4, 3), *layer(d, factors), torch.randn(4, factors, d)]
    inputs = [x.detach().double().requires_grad_() for x in inputs]
    fast = packed_form(triangular_form, *inputs, 0.1, torch.tensor([2, 0]))
    plain = triangular_form(*inputs, 0.1, torch.tensor([2, 0]))
    assert "PackedForm" in type(fast[0].grad_fn).__name__  # the plain path would compare with itself
    torch.testing.assert_close(fast, plain)
    upstream = [torch.randn_like(x) for x in plain]
    torch.testing.assert_close(
        torch.autograd.grad(fast, inputs, upstream), torch.autograd.grad(plain, inputs, upstream)
    )


@pytest.mark.parametrize("frozen", [(), (0,), (1, 2), (3,)])
def test_second_derivatives_of_every_output(frozen: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(2, 3, 3), *layer(3, 2, 3), torch.randn(3, 2, 3)]
    inputs = [x.detach().double().requires_grad_(i not in frozen) for i, x in enumerate(inputs)]
    for pick in (slice(0, 1), slice(1, 2), slice(2, 3), slice(0, 3)):
        assert torch.autograd.gradgradcheck(
            lambda *x, k=pick: packed_form(triangular_form, *x, 0.1, torch.tensor([2, 0]))[k], inputs, fast_mode=True
        )


def test_second_derivative_where_one_input_depends_on_another() -> None:
    torch.manual_seed(0)
    weight, bias = layer(3, 1)
    rows = torch.tensor([1])

    def value(x: Tensor, form: Callable[..., tuple[Tensor, ...]]) -> Tensor:
        quadratic, norm, _ = form(x, weight, bias, x[0].square()[:, None], 0.1, rows)
        return (quadratic / norm).sum()

    x = torch.randn(2, 4, 3).double().requires_grad_()
    found = []
    for form in (functools.partial(packed_form, triangular_form), triangular_form):
        (slope,) = torch.autograd.grad(value(x, form), x, create_graph=True)
        found.append(torch.autograd.grad(slope.square().sum(), x)[0])
    torch.testing.assert_close(*found)


def test_no_pairs() -> None:
    weight, bias = layer(4, 1)
    quadratic, norm, wanted = packed_form(
        triangular_form,
        torch.empty(2, 0, 3).double(),
        weight,
        bias,
        torch.empty(0, 1, 4).double(),
        0.1,
        torch.empty(0, dtype=torch.long),
    )
    assert (quadratic.shape, norm.shape, wanted.shape) == ((0,), (0,), (2, 0, 1, 4, 4))
    (quadratic.sum() + norm.sum()).backward()
    assert weight.grad is not None
    assert not weight.grad.any()


def test_a_frozen_layer_gets_no_gradient_and_changes_no_other() -> None:
    torch.manual_seed(0)
    (weight, bias), rows = layer(30, 1), torch.tensor([1])
    hidden, delta = torch.randn(2, 4, 3).double().requires_grad_(), torch.randn(4, 1, 30).double().requires_grad_()

    def gradients(weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        value = sum(part.sum() for part in packed_form(triangular_form, hidden, weight, bias, delta, 0.1, rows))
        return torch.autograd.grad(value, (hidden, delta))

    torch.testing.assert_close(gradients(weight.detach(), bias.detach()), gradients(weight, bias))


def in_blocks_of(units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_BLOCK_FLOATS", 16 * units)  # 5 pairs in both orders count as 16


def test_a_distance_first_used_without_autograd_learns_afterwards() -> None:
    """What is kept between calls must be of use to all."""
    packed._cached_blocks.cache_clear()
    head = pamd.distance("pamd", latent_dim=6)
    z, z_prime = torch.randn(3, 6), torch.randn(3, 6)
    with FakeTensorMode():
        pamd.distance("pamd", latent_dim=6)(torch.empty(3, 6), torch.empty(3, 6))
    with torch.inference_mode():
        before = head(z, z_prime).clone()
    value = head(z, z_prime)
    value.sum().backward()
    torch.testing.assert_close(value.detach(), before)
    assert all(parameter.grad is not None for parameter in head.parameters())


def test_rehu_is_the_papers() -> None:
    x = torch.tensor([-2.0, -0.0, 0.25, 0.5, 1.0, 3.0], requires_grad=True)
    y = rehu(x)
    torch.testing.assert_close(y, torch.tensor([0, 0, 0.03125, 0.125, 0.5, 2.5]))
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([0, 0, 0.25, 0.5, 1, 1]))


def test_a_hook_on_a_hidden_layer_runs_and_its_change_counts() -> None:
    d, (z, z_prime) = pamd.distance("pamd", latent_dim=6, hidden=8), torch.randn(2, 5, 6)
    before = d(z, z_prime)
    handle = d.net[0].register_forward_hook(lambda *_: torch.zeros(2, 5, 8))
    assert not torch.allclose(d(z, z_prime), before)
    handle.remove()
    assert torch.equal(d(z, z_prime), before)


@pytest.mark.parametrize("layer", [2, 4])
def test_a_parametrized_layer_is_read_as_it_is(layer: int) -> None:
    d, (z, z_prime) = pamd.distance("pamd", latent_dim=6, hidden=8).double(), torch.randn(2, 5, 6).double()
    torch.nn.utils.parametrizations.weight_norm(d.net[layer])
    with torch.no_grad():
        d.net[layer].parametrizations.weight.original0.mul_(2)  # the weight's length
    d(z, z_prime).sum().backward()
    torch.testing.assert_close(d(z, z_prime), d.textbook(z, z_prime)[0])
    assert d.net[layer].parametrizations.weight.original0.grad is not None
