"""Values worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

import pamd

X = torch.tensor([[3.0, 4.0], [1.0, 0.0], [1.0, 0.0]])
Y = torch.tensor([[0.0, 0.0], [0.0, 2.0], [-2.0, 0.0]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("l1", [7.0, 3.0, 3.0]),
        ("l1-mean", [3.5, 1.5, 1.5]),
        ("l2", [5.0, math.sqrt(5), 3.0]),
        ("l2-unit", [5 / math.sqrt(2), math.sqrt(2.5), 3 / math.sqrt(2)]),
        ("coordinate", [[2.5, 3.5], [0.5, 1.5], [2.5, 0.0]]),
        ("cosine", [1.0, 1.0, 2.0]),
        ("mico", [12.5 + 0.1 * math.pi / 2, 2.5 + 0.1 * math.pi / 2, 2.5 + 0.1 * math.pi]),
        # At their start the global forms are isotropic: |Delta| / sqrt(d).
        ("diagonal", [5 / math.sqrt(2), math.sqrt(2.5), 3 / math.sqrt(2)]),
        ("mahalanobis", [5 / math.sqrt(2), math.sqrt(2.5), 3 / math.sqrt(2)]),
    ],
)
def test_values(name: str, expected: list[float]) -> None:
    torch.testing.assert_close(pamd.distance(name, latent_dim=2)(X, Y), torch.tensor(expected), rtol=1e-5, atol=1e-5)


def test_cosine_as_released_is_the_plain_inner_product() -> None:
    d = pamd.distance("cosine", latent_dim=2, preset="released")
    torch.testing.assert_close(d(X, Y), torch.tensor([1.0, 1.0, 3.0]))


@pytest.mark.parametrize("turn", [0.0, 1e-7, 1e-3, 1.0, math.pi - 1e-3, math.pi - 1e-7, math.pi])
def test_micos_angle_is_right_and_its_slope_bounded_at_every_angle(turn: float) -> None:
    """arccos and sqrt(1 - cos^2) lose the small angles and blow up; this form does neither."""
    d = pamd.distance("mico", latent_dim=2, beta=1.0)
    z = torch.tensor([[1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    z_prime = torch.tensor([[math.cos(turn), math.sin(turn)]], dtype=torch.float64)
    value = d(z, z_prime)
    assert value.item() - 1.0 == pytest.approx(turn, abs=1e-9)
    (slope,) = torch.autograd.grad(value.sum(), z)
    assert slope.isfinite().all()
    assert slope.norm() <= 2.0
