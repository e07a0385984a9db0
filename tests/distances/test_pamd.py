"""PAMD against the textbook: value, gradient, auxiliary term, parameter count, the authors' state format."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import pamd
from pamd.distances import distance_config
from pamd.distances.pamd import Pamd, cholesky_factor
from pamd.errors import ConfigError

EXACT: dict[str, Any] = {"aux_pairs": None, "aux_probes": None}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"preset": "released-dbc"},
    {"preset": "released-independent"},
    {"preset": "released-residual"},
    {"trace_normalized": False},
    {"trace_detached": True},
    {"ridge": 0.5, "diagonal_epsilon": 0.1, "trace_epsilon": 0.3, "root_epsilon": 0.2},
    {"aux_weight": 10.0, "aux_norm": "mean"},
    {"hidden": 17},
    {"trace": "d"},
    {"trace": 3.0, "trace_detached": True, "scale": "learned"},
]


def gradients(d: Any, value: Tensor, penalty: Tensor, *inputs: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(value.square().mean() + penalty, [*inputs, *d.parameters()]))


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize("latent_dim", [1, 2, 50])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-5), (torch.float64, 1e-10)])
def test_values_are_the_textbooks(
    options: dict[str, Any], latent_dim: int, dtype: torch.dtype, tolerance: float
) -> None:
    torch.manual_seed(0)
    d = pamd.distance("pamd", latent_dim=latent_dim, **EXACT, **options).to(dtype)
    z = torch.randn(16, latent_dim, dtype=dtype, requires_grad=True)
    z_prime = torch.randn(16, latent_dim, dtype=dtype, requires_grad=True)
    assert isinstance(d, Pamd)
    measured = d.measure(z, z_prime)
    value, penalty = d.textbook(z, z_prime)
    # With d = 1 and no ridge, a factor near 0 is its own trace: of the quotient, float32 keeps few digits.
    torch.testing.assert_close(measured.value, value, rtol=tolerance, atol=1e-6 if dtype == torch.float32 else 0)
    torch.testing.assert_close(measured.penalty, penalty, rtol=tolerance, atol=tolerance)
    ours = gradients(d, measured.value, measured.penalty, z, z_prime)
    theirs = gradients(d, value, penalty, z, z_prime)
    if latent_dim == 1:
        return  # the normalized matrix is the constant 1: the weights' gradient is nothing but rounding
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine - other).norm() <= tolerance * other.norm()


def test_parameter_counts_of_the_paper() -> None:
    count = lambda name: sum(p.numel() for p in pamd.distance(name, latent_dim=50).parameters())  # noqa: E731
    assert count("pamd") == 193_915
    assert count("mlp") == 194_041


def test_loads_the_authors_metric_net_state() -> None:
    """Linear layers net.0, net.2, net.4; the last one's rows are L's lower triangle, row by row."""
    d = pamd.distance("pamd", latent_dim=3, diagonal_epsilon=0.0)
    shapes = {"0": (128, 6), "2": (128, 128), "4": (6, 128)}
    state = {f"net.{k}.weight": torch.zeros(s) for k, s in shapes.items()}
    state |= {f"net.{k}.bias": torch.zeros(s[0]) for k, s in shapes.items()}
    state["net.4.bias"] = torch.tensor([1.5, 2.0, 2.5, 4.0, 5.0, 3.5])
    d.load_state_dict(state, strict=True)
    L = torch.tensor([[1.0, 0, 0], [2, 2, 0], [4, 5, 3]])  # ReHU(x) = x - 1/2 on the diagonal, beyond 1
    assert isinstance(d, Pamd)
    torch.testing.assert_close(d.factor(torch.zeros(1, 3), torch.zeros(1, 3))[0], L)
    G = 2 * L @ L.T + 1e-6 * torch.eye(3)
    torch.testing.assert_close(d.matrix(torch.zeros(1, 3), torch.zeros(1, 3))[0], G / G.trace())


OTHERS = ("pamd-lowrank", "pamd-block", "adaptive-diagonal", "diagonal")


@pytest.mark.parametrize("name", ["pamd", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_probes_estimate_the_exact_term_without_bias(name: str) -> None:
    """docs/auxiliary-term.md: the mean over draws is the exact batch mean, and so is that of its gradient."""
    torch.manual_seed(0)
    kind: dict[str, Any] = {"block": 4} if name == "pamd-block" else {}
    exact = pamd.distance(name, latent_dim=8, aux_weight=1.0, **kind, **EXACT).double()
    for parameter in exact.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    sampled = pamd.distance(name, latent_dim=8, aux_weight=1.0, aux_pairs=4, aux_probes=2, **kind).double()
    sampled.load_state_dict(exact.state_dict())
    z, z_prime = torch.randn(12, 8).double(), torch.randn(12, 8).double()
    generator = torch.Generator().manual_seed(1)
    draws = torch.stack([sampled.measure(z, z_prime, generator).penalty for _ in range(1500)])
    expected = exact.measure(z, z_prime).penalty
    standard_error = draws.std() / len(draws) ** 0.5
    assert (draws.mean() - expected).abs() <= 4 * standard_error + 1e-12
    assert expected < 0
    slope = torch.autograd.grad(expected, list(exact.parameters()))
    average = torch.autograd.grad(draws.mean(), list(sampled.parameters()))
    for one, other in zip(slope, average, strict=True):
        assert (one - other).norm() <= 0.15 * one.norm() + 1e-9


def test_rademacher_probes_are_exact_on_a_diagonal() -> None:
    options: dict[str, Any] = {"aux_pairs": None, "aux_weight": 1.0}
    torch.manual_seed(0)
    one = pamd.distance("adaptive-diagonal", latent_dim=8, aux_probes=1, **options).double()
    exact = pamd.distance("adaptive-diagonal", latent_dim=8, aux_probes=None, **options).double()
    exact.load_state_dict(one.state_dict())
    z, z_prime = torch.randn(5, 8).double(), torch.randn(5, 8).double()
    torch.testing.assert_close(one.measure(z, z_prime).penalty, exact.measure(z, z_prime).penalty)


def test_the_generator_decides_the_draw() -> None:
    d = pamd.distance("pamd", latent_dim=8)
    z, z_prime = torch.randn(64, 8), torch.randn(64, 8)
    draw = lambda seed: d.measure(z, z_prime, torch.Generator().manual_seed(seed)).penalty  # noqa: E731
    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))


def test_calling_does_not_draw() -> None:
    """d(z, z') needs no penalty, so it must leave the random state alone."""
    d = pamd.distance("pamd", latent_dim=8)
    before = torch.get_rng_state()
    d(torch.zeros(3, 8), torch.ones(3, 8))
    assert torch.equal(before, torch.get_rng_state())


def test_the_factor_is_lower_triangular_with_rehu_on_its_diagonal() -> None:
    outputs = torch.tensor([-3.0, 7.0, 0.5, -8.0, 9.0, 4.0])
    expected = torch.tensor([[0.1, 0, 0], [7, 0.225, 0], [-8, 9, 3.6]])
    torch.testing.assert_close(cholesky_factor(outputs, 0.1), expected)
    torch.testing.assert_close(cholesky_factor(outputs.expand(2, 5, 6), 0.1), expected.expand(2, 5, 3, 3))


@pytest.mark.parametrize(("latent_dim", "block"), [(50, 10), (16, 8), (200, 10), (7, 7), (13, 13), (1, 1), (24, 8)])
def test_the_block_adapts_to_the_latents(latent_dim: int, block: int) -> None:
    d = pamd.distance("pamd-block", latent_dim=latent_dim)
    assert d.config.block == block
    assert d.config == distance_config("pamd-block", latent_dim=latent_dim)
    again = pamd.distance("pamd-block", latent_dim=latent_dim, block=block)
    again.load_state_dict(d.state_dict())
    z, z_prime = torch.randn(3, latent_dim), torch.randn(3, latent_dim)
    assert torch.equal(d(z, z_prime), again(z, z_prime))


@pytest.mark.parametrize(("name", "options"), [("pamd-block", {"block": 3}), ("pamd-lowrank", {"rank": 9})])
def test_a_config_is_checked_against_the_latents_without_a_module(name: str, options: dict[str, int]) -> None:
    cls = pamd.DISTANCES.get(name)
    config = cls.Config(**options)
    with pytest.raises(ConfigError, match="latent_dim 8"):
        cls.resolve(config, 8)
    assert cls.resolve(config, 12) == config


@pytest.mark.parametrize("name", ["pamd-lowrank", "pamd-block"])
def test_usable_at_1024(name: str) -> None:
    kind: dict[str, Any] = {"block": 16} if name == "pamd-block" else {}
    d = pamd.distance(name, latent_dim=1024, **kind)
    z, z_prime = torch.randn(32, 1024, requires_grad=True), torch.randn(32, 1024)
    measured = d.measure(z, z_prime)
    (measured.value.mean() + measured.penalty).backward()
    assert z.grad is not None
    assert z.grad.isfinite().all()
    outputs = d.net[4].out_features
    assert outputs <= 1024 * 10, "linear in d, not quadratic"
