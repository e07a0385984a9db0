"""The fast sort of intervals against the plain one, with ties, empty intervals and all sizes."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from pamd.distances import intervals


def draw(m: int, ties: bool) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(m)
    x, y = torch.randn(2, 200, m, 3, generator=generator, dtype=torch.float64)
    x, y = (x.mul(2).round(), y.mul(2).round()) if ties else (x, y)
    return x.requires_grad_(), y.requires_grad_()


def brute_force(x: list[float], y: list[float]) -> float:
    """Add up the pieces between neighboring ends of intervals that some interval covers."""
    ends = sorted({*x, *y})
    middles = [(a, b, (a + b) / 2) for a, b in itertools.pairwise(ends)]
    return sum(b - a for a, b, c in middles if any(s < c < max(s, e) for s, e in zip(x, y, strict=True)))


@pytest.mark.parametrize("m", [1, 2, 3, 5, 8, 13, 16])
def test_a_network_sorts(m: int) -> None:
    """If it sorts all sequences of 0 and 1, it sorts everything."""
    sequences = torch.tensor(list(itertools.product((0.0, 1.0), repeat=m)))
    rows, _ = intervals._sorted(sequences[..., None], False)
    assert torch.equal(torch.stack(rows, 1).squeeze(-1), sequences.sort(1).values)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("m", [1, 2, 5, 8, 16])
def test_lengths_are_those_of_the_definition(m: int, ties: bool, symmetric: bool) -> None:
    x, y = draw(m, ties)
    expected = []
    for a, b in zip(x[..., 0].tolist(), y[..., 0].tolist(), strict=True):
        expected.append((brute_force(a, b) + brute_force(b, a)) / 2 if symmetric else brute_force(a, b))
    for length in (intervals.union_length(x, y, symmetric), intervals._plain(x, y, symmetric)[0]):
        torch.testing.assert_close(length[:, 0], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("m", [1, 2, 5, 8, 16])
def test_gradients_are_those_of_the_plain_way(m: int, symmetric: bool) -> None:
    x, y = draw(m, ties=False)
    fast, plain = (
        torch.autograd.grad(length.sin().sum(), (x, y))
        for length in (intervals.union_length(x, y, symmetric), intervals._plain(x, y, symmetric)[0])
    )
    torch.testing.assert_close(fast, plain)


def test_the_gradient_where_both_ends_meet_is_0() -> None:
    x, _ = draw(8, ties=False)
    other = x.detach().clone().requires_grad_()
    for gradient in torch.autograd.grad(intervals.union_length(x, other, True).sum(), (x, other)):
        assert not gradient.any()
