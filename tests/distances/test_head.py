"""The head in one operation against the same head in ordinary operations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import pamd
from pamd.distances import triangular
from pamd.distances.pamd import PredictedForm, QuadraticForm

NAMES = [name for name in pamd.DISTANCES.names() if issubclass(pamd.DISTANCES.get(name), PredictedForm)]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"preset": "released-dbc"},
    {"preset": "released-independent"},
    {"preset": "released-residual"},
    {"trace": "d", "aux_probes": None, "aux_pairs": None},
    {"trace_normalised": False, "ridge": 0.1},
    {"root": "clamp", "root_epsilon": 0.3, "ridge": 0.1},
]


def make(name: str = "pamd", **options: Any) -> PredictedForm[Any]:
    torch.manual_seed(1)
    made = pamd.distance(name, latent_dim=6, hidden=8, **options).double()
    for parameter in made.parameters():  # away from the kink of ReHU, and large enough to tell terms apart
        torch.nn.init.normal_(parameter, std=0.5)
    assert isinstance(made, PredictedForm)
    return made


def given(pairs: int = 5) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    z, z_prime = torch.randn(2, pairs, 6, generator=draw, dtype=torch.float64).unbind(0)
    v = torch.randn(2, 6, 3, generator=draw, dtype=torch.float64)
    return z.clone().requires_grad_(), z_prime.clone().requires_grad_(), torch.tensor([3, 0]), v


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("units", [1, 7, 100])
def test_values_and_gradients_of_both_paths(
    name: str, options: dict[str, Any], units: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triangular, "_BLOCK_FLOATS", 16 * units)  # 5 pairs in both orders count as 16
    d, (z, z_prime, rows, v) = make(name, **options), given()
    inputs = [z, z_prime, *d.net.parameters()]
    fused, plain = d._head(z, z_prime, rows, v), QuadraticForm._head(d, z, z_prime, rows, v)
    assert "FusedHead" in type(fused[0].grad_fn).__name__  # the plain path would compare with itself
    torch.testing.assert_close(fused, plain)
    upstream = (torch.randn(5).double(), torch.tensor(7.0).double())
    for pick in ([0], [1], [0, 1]):
        ours, theirs = (_gradients([(path[i], upstream[i]) for i in pick], inputs) for path in (fused, plain))
        torch.testing.assert_close(ours, theirs)


def _gradients(given: list[tuple[Tensor | None, Tensor]], inputs: list[Tensor]) -> list[Tensor]:
    """Of `inputs`, from outputs and their gradients; 0 for an input that an output does not read."""
    outputs, upstream = zip(*given, strict=True)
    found = torch.autograd.grad(outputs, inputs, upstream, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(x) if grad is None else grad for x, grad in zip(inputs, found, strict=True)]


@pytest.mark.parametrize("frozen", [(0, 1), (1,), (2, 3), (4, 5), (6, 7), (2, 3, 4, 5, 6, 7)])
def test_what_is_frozen_gets_no_gradient_and_changes_no_other(frozen: tuple[int, ...]) -> None:
    d, (z, z_prime, rows, v) = make(), given()
    inputs = [z, z_prime, *d.net.parameters()]
    expected = _gradients([(d._head(z, z_prime, rows, v)[0], torch.ones(5).double())], inputs)
    for i in frozen:
        inputs[i].requires_grad_(False)
    learned = [i for i in range(len(inputs)) if i not in frozen]
    d._head(z, z_prime, rows, v)[0].sum().backward()
    assert all(inputs[i].grad is None for i in frozen)
    torch.testing.assert_close([inputs[i].grad for i in learned], [expected[i] for i in learned])


def test_no_pairs() -> None:
    d, (z, z_prime, _, _) = make(), given(0)
    value = d(z, z_prime)
    value.sum().backward()
    assert value.shape == (0,)
    assert z.grad is not None
    assert not any(p.grad.any() for p in d.parameters() if p.grad is not None)


def test_without_a_gradient_nothing_is_kept_and_the_value_is_the_same() -> None:
    d, (z, z_prime, _, _) = make(), given()
    with torch.no_grad():
        value = d(z, z_prime)
    assert value.grad_fn is None
    assert torch.equal(value, d(z, z_prime).detach())


def test_a_hook_on_a_layer_runs_and_its_change_counts() -> None:
    d, (z, z_prime, _, _) = make(), given()
    before = d(z, z_prime)
    handle = d.net[0].register_forward_hook(lambda *_: torch.zeros(5, 2, 8).double())
    assert not torch.allclose(d(z, z_prime), before)
    handle.remove()
    assert torch.equal(d(z, z_prime), before)


def test_a_parametrized_layer_is_read_as_it_is() -> None:
    d, (z, z_prime, _, _) = make(), given()
    torch.nn.utils.parametrizations.weight_norm(d.net[2])
    with torch.no_grad():
        d.net[2].parametrizations.weight.original0.mul_(2)  # the weight's length
    d(z, z_prime).sum().backward()
    torch.testing.assert_close(d(z, z_prime), d.textbook(z, z_prime)[0])
    assert d.net[2].parametrizations.weight.original0.grad is not None
