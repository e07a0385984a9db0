"""Other traces and the learned scale: closed forms, the lemma's bounds, and defaults that change nothing."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import pamd
from pamd.distances.pamd import QuadraticForm
from pamd.errors import ConfigError, UnknownNameError

D = 5


def make(name: str = "pamd", log_scale: float | None = None, **options: Any) -> QuadraticForm[Any]:
    torch.manual_seed(0)
    d = pamd.distance(name, latent_dim=D, **options).double()
    assert isinstance(d, QuadraticForm)
    if log_scale is not None:
        assert d.log_scale is not None
        torch.nn.init.constant_(d.log_scale, log_scale)
    return d


def latents(seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    z, z_prime = (torch.randn(9, D, generator=draw).double() for _ in range(2))
    return z, z_prime


def test_an_isotropic_form_of_trace_d_is_l2() -> None:
    z, z_prime = latents()
    guard = {"root_epsilon": 1e-20, "trace_epsilon": 1e-20}
    torch.testing.assert_close(make("diagonal", trace="d", **guard)(z, z_prime), (z - z_prime).norm(dim=-1))
    torch.testing.assert_close(make("diagonal", **guard)(z, z_prime), (z - z_prime).norm(dim=-1) / math.sqrt(D))


@pytest.mark.parametrize("trace", [0.25, 1.0, 7.0, "d"])
@pytest.mark.parametrize("log_scale", [-1.0, 0.0, 2.0])
def test_the_lemma_with_trace_and_scale(trace: Any, log_scale: float) -> None:
    """s sqrt(t lambda |Delta|^2 / tr G_bar) <= value <= s sqrt(t) |Delta|, guards aside."""
    d = make("pamd", log_scale, scale="learned", trace=trace, ridge=0.05, root_epsilon=1e-20, trace_epsilon=1e-20)
    z, z_prime = latents()
    t, s, length = float(D if trace == "d" else trace), math.exp(log_scale), (z - z_prime).norm(dim=-1)
    G = d._metric(z, z_prime)
    trace_bar = G.diagonal(dim1=-2, dim2=-1).sum(-1) + D * 0.05
    lower, upper = d.bounds(z, z_prime)
    torch.testing.assert_close(lower, s * (t * 0.05 / trace_bar).sqrt() * length)
    torch.testing.assert_close(upper, s * math.sqrt(t) * length)
    value = d(z, z_prime)
    assert (lower <= value).all()
    assert (value <= upper).all()
    exact = s * (t * torch.einsum("pi,pij,pj->p", z - z_prime, G + 0.05 * torch.eye(D), z - z_prime) / trace_bar).sqrt()
    torch.testing.assert_close(value, exact)
    assert d.max_value(3.0) == pytest.approx(s * math.sqrt(t) * 6.0)


def test_the_scale_starts_at_one_and_is_learned() -> None:
    z, z_prime = latents()
    plain, scaled = make("pamd"), make("pamd-scaled")
    scaled.load_state_dict({**plain.state_dict(), "log_scale": torch.zeros(())})
    assert torch.equal(plain(z, z_prime), scaled(z, z_prime))
    assert sum(p.numel() for p in scaled.parameters()) == sum(p.numel() for p in plain.parameters()) + 1
    optimizer = torch.optim.Adam(scaled.parameters(), 0.05)
    for _ in range(200):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(scaled(z, z_prime), 50 + 0 * z[:, 0]).backward()
        optimizer.step()
    assert (scaled(z, z_prime) > plain.bounds(z, z_prime)[1]).all(), "out of the reach of trace 1"
    assert scaled.scale > 5


def test_the_penalty_does_not_depend_on_trace_and_scale() -> None:
    """lambda_aux keeps its meaning: the anisotropy is that of the form with trace 1."""
    exact = {"aux_pairs": None, "aux_probes": None}
    z, z_prime = latents()
    one, other = make(**exact), make("pamd", 1.5, scale="learned", trace="d", **exact)
    torch.testing.assert_close(one.measure(z, z_prime).penalty, other.measure(z, z_prime).penalty)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="trace='d' requires trace_normalized"):
        make(trace="d", trace_normalized=False)
    with pytest.raises(ConfigError, match="trace must be a finite number above 0 or 'd', got 0"):
        make(trace=0.0)
    with pytest.raises((ConfigError, UnknownNameError), match="scale"):
        make(scale="free")
