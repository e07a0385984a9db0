"""The hand-written derivative of the packed triangular form."""

from __future__ import annotations

import torch

from pamd.distances.pairwise import rehu, rehu_slope
from pamd.distances.triangular import packed_size, triangular_form


def test_gradcheck_of_every_output_alone_and_together() -> None:
    torch.manual_seed(0)
    for d in (1, 2, 4):
        packed = (2 * torch.randn(5, packed_size(d))).double().requires_grad_()
        delta = torch.randn(5, d).double().requires_grad_()
        rows = torch.tensor([3, 0, 3])  # a factor asked for twice collects both gradients
        for pick in (slice(0, 1), slice(1, 2), slice(2, 3), slice(0, 3)):
            assert torch.autograd.gradcheck(
                lambda p, v, k=pick, r=rows: triangular_form(p, v, 0.1, r)[k], (packed, delta)
            )


def test_rows_of_the_factor() -> None:
    packed = torch.arange(1.0, 13).view(2, 6)
    quadratic, norm, L = triangular_form(packed, torch.ones(2, 3), 0.0, torch.tensor([1]))
    expected = torch.tensor([[6.5, 0, 0], [8, 8.5, 0], [10, 11, 11.5]])
    torch.testing.assert_close(L[0], expected)
    torch.testing.assert_close(quadratic[1], expected.sum(0).square().sum())
    torch.testing.assert_close(norm[1], expected.square().sum())


def test_rehu_is_the_papers() -> None:
    x = torch.tensor([-2.0, -0.0, 0.25, 0.5, 1.0, 3.0], requires_grad=True)
    y = rehu(x)
    torch.testing.assert_close(y, torch.tensor([0, 0, 0.03125, 0.125, 0.5, 2.5]))
    y.sum().backward()
    torch.testing.assert_close(x.grad, rehu_slope(x.detach()))
