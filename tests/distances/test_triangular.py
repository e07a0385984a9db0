"""The last layer and the triangular form in one: values by the textbook, derivatives by differences."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import pamd
from pamd.distances import triangular
from pamd.distances.pairwise import rehu, rehu_slope
from pamd.distances.triangular import packed_size, triangular_form


def layer(d: int, factors: int, hidden: int = 3) -> tuple[Tensor, Tensor]:
    weight = torch.randn(factors * packed_size(d), hidden).double()
    return weight.requires_grad_(), torch.randn(len(weight)).double().requires_grad_()


@pytest.mark.parametrize(("d", "factors"), [(1, 1), (2, 1), (4, 1), (3, 2)])
@pytest.mark.parametrize("columns", [1, 2, 25])
def test_gradcheck_of_every_output_alone_and_together(
    d: int, factors: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_blocks_of(columns, monkeypatch)
    torch.manual_seed(0)
    hidden = torch.randn(5, 3).double().requires_grad_()
    delta = torch.randn(5, factors, d).double().requires_grad_()
    rows = torch.tensor([3, 0])
    for pick in (slice(0, 1), slice(1, 2), slice(2, 3), slice(0, 3)):
        assert torch.autograd.gradcheck(
            lambda h, w, b, v, k=pick: triangular_form(h, w, b, v, 0.1, rows)[k], (hidden, *layer(d, factors), delta)
        )


@pytest.mark.parametrize("d", [1, 7, 50, 76])
@pytest.mark.parametrize("factors", [1, 3])
def test_it_is_the_textbook_s(d: int, factors: int) -> None:
    torch.manual_seed(0)
    hidden, (weight, bias) = torch.randn(4, 3).double(), layer(d, factors)
    delta, rows = torch.randn(4, factors, d).double(), torch.tensor([2, 0])
    packed = torch.nn.functional.linear(hidden, weight, bias).view(4, factors, -1)
    L = torch.zeros(4, factors, d, d).double()
    row, column = torch.tril_indices(d, d)
    L[..., row, column] = packed
    diagonal = L.diagonal(dim1=-2, dim2=-1)
    L = L - diagonal.diag_embed() + (rehu(diagonal) + 0.1).diag_embed()
    quadratic, norm, wanted = triangular_form(hidden, weight, bias, delta, 0.1, rows)
    torch.testing.assert_close(quadratic, (L.mT @ delta[..., None]).square().sum((1, 2, 3)))
    torch.testing.assert_close(norm, L.square().sum((1, 2, 3)))
    torch.testing.assert_close(wanted, L[rows])


def test_no_pairs() -> None:
    weight, bias = layer(4, 1)
    quadratic, norm, wanted = triangular_form(
        torch.empty(0, 3).double(), weight, bias, torch.empty(0, 1, 4).double(), 0.1, torch.empty(0, dtype=torch.long)
    )
    assert (quadratic.shape, norm.shape, wanted.shape) == ((0,), (0,), (0, 1, 4, 4))
    (quadratic.sum() + norm.sum()).backward()
    assert weight.grad is not None
    assert not weight.grad.any()


def test_a_frozen_layer_gets_no_gradient_and_changes_no_other() -> None:
    torch.manual_seed(0)
    (weight, bias), rows = layer(30, 1), torch.tensor([1])
    hidden, delta = torch.randn(4, 3).double().requires_grad_(), torch.randn(4, 1, 30).double().requires_grad_()

    def gradients(weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        value = sum(part.sum() for part in triangular_form(hidden, weight, bias, delta, 0.1, rows))
        return torch.autograd.grad(value, (hidden, delta))

    torch.testing.assert_close(gradients(weight.detach(), bias.detach()), gradients(weight, bias))


def in_blocks_of(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triangular, "_COLUMNS", columns)
    monkeypatch.setattr(triangular, "_cached_blocks", functools.cache(triangular._cached_blocks.__wrapped__))


def test_a_distance_first_used_without_autograd_learns_afterwards() -> None:
    """What is kept between calls must be of use to all."""
    triangular._cached_blocks.cache_clear()
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
    torch.testing.assert_close(x.grad, rehu_slope(x.detach()))
