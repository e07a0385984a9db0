"""The structured rivals of PAMD: values from their formulas, the triangle inequality, sizes and bounds."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest
import torch
from torch import Tensor

import pamd
from pamd.diagnostics import match
from pamd.distances import Distance
from pamd.errors import ConfigError

D = 5
FORMS: list[tuple[str, dict[str, Any]]] = [
    ("wide-norm", {"components": 3, "hidden": 4}),
    ("wide-norm", {"components": 3, "hidden": 4, "reduction": "sum"}),
    ("wide-norm", {"components": 3, "hidden": 4, "reduction": "max", "symmetric": False}),
    ("wide-norm", {"components": 3, "hidden": 4, "reduction": "maxmean", "concave": True}),
    ("deep-norm", {"hidden": 6}),
    ("deep-norm", {"hidden": 6, "reduction": "max", "concave": True}),
    ("deep-norm", {"hidden": 6, "symmetric": False}),
    ("iqe", {"components": 3}),
    ("iqe", {"components": 3, "coordinates": 5, "reduction": "mean"}),
    ("iqe", {"components": 3, "reduction": "sum", "concave": True, "symmetric": False}),
    ("iqe", {"components": 3, "reduction": "max", "symmetric": False}),
    ("pqe", {"components": 6}),
    ("pqe", {"components": 6, "symmetric": False}),
    ("mrn", {"hidden": 9}),
    ("mrn", {"hidden": 9, "symmetric": False}),
]


def make(name: str, options: dict[str, Any]) -> Distance[Any]:
    torch.manual_seed(0)
    return pamd.distance(name, latent_dim=D, **options).double()


def triples(count: int = 20_000) -> tuple[Tensor, Tensor, Tensor]:
    x, y, z = torch.randn(3, count, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    half = count // 2  # Points between the other two are the hard case.
    return x, torch.cat([y[:half], (x + z)[half:] / 2]), z


def violations(d: Distance[Any]) -> float:
    x, y, z = triples()
    with torch.no_grad():
        return float((d(x, z) > d(x, y) + d(y, z) + 1e-9).double().mean())


def learned(d: Distance[Any]) -> Distance[Any]:
    if not list(d.parameters()):
        return d
    optimizer = torch.optim.Adam(d.parameters(), 0.05)
    z, z_prime = torch.randn(2, 64, D, dtype=torch.float64)
    for _ in range(10):
        optimizer.zero_grad()
        (d(z, z_prime) - 3 * torch.rand(64, dtype=torch.float64)).square().mean().backward()
        optimizer.step()
    return d


OTHERS = [name for name in pamd.DISTANCES.names() if name not in dict(FORMS)]


@pytest.mark.parametrize(
    ("name", "options"),
    [*FORMS, *((name, {}) for name in OTHERS if pamd.distance(name, latent_dim=D).properties.triangle)],
)
def test_the_triangle_inequality_at_the_start_and_after_learning(name: str, options: dict[str, Any]) -> None:
    d = make(name, options)
    assert d.properties.triangle
    assert d.properties.symmetric == options.get("symmetric", True)
    assert violations(d) == 0
    assert violations(learned(d)) == 0


@pytest.mark.parametrize(("name", "options"), [form for form in FORMS if not form[1].get("symmetric", True)])
def test_an_asymmetric_form_is_asymmetric(name: str, options: dict[str, Any]) -> None:
    x, y, _ = triples(100)
    d = make(name, options)
    assert (d(x, y) - d(y, x)).abs().max() > 1e-3


def test_mrn_as_published_is_no_metric() -> None:
    d = make("mrn", {"hidden": 9, "power": 2})
    assert not d.properties.triangle
    assert violations(d) > 0.1
    with pytest.raises(ConfigError, match="power must be 1 or 2, got 3"):
        make("mrn", {"power": 3})


def reduced(d: Any, components: list[float]) -> float:
    """The reductions and the concave transform, component by component."""
    if d.config.concave:
        slope, offset = d.reduce.slope.tolist(), d.reduce.offset.tolist()
        for i, c in enumerate(components):
            lines = [2 / (1 + math.exp(-slope[u][i])) * c for u in range(5)]
            components[i] = min(lines[0], *(lines[u] + math.log1p(math.exp(offset[u - 1][i])) for u in range(1, 5)))
    mean, most = sum(components) / len(components), max(components)
    if d.config.reduction == "maxmean":
        share = 1 / (1 + math.exp(-d.reduce.logit.item()))
        return share * most + (1 - share) * mean
    return {"mean": mean, "sum": sum(components), "max": most}[d.config.reduction]


def wide_norm(d: Any, x: list[float], y: list[float]) -> float:
    c, W = d.config, d.weight.tolist()
    delta = [a - b for a, b in zip(x, y, strict=True)]
    if not c.symmetric:
        delta = [max(v, 0.0) for v in delta] + [max(-v, 0.0) for v in delta]
        W = [[abs(v) for v in row] for row in W]
    norms = []
    for i in range(c.components):
        rows = W[i * c.hidden : (i + 1) * c.hidden]
        norms.append(math.sqrt(sum(sum(w * v for w, v in zip(row, delta, strict=True)) ** 2 for row in rows)))
    return reduced(d, norms)


def iqe(d: Any, x: list[float], y: list[float]) -> float:
    m, k = d.config.coordinates, d.config.components
    rows = list(zip(d.weight.tolist(), d.bias.tolist(), strict=True))
    u, v = ([sum(map(operator.mul, w, p)) + b for w, b in rows] for p in (x, y))

    def one(u: list[float], v: list[float]) -> list[float]:
        lengths = []
        for i in range(k):
            length, reached = 0.0, -math.inf
            for start, end in sorted((u[j * k + i], max(u[j * k + i], v[j * k + i])) for j in range(m)):
                length += max(0.0, end - max(start, reached))
                reached = max(reached, end)
            lengths.append(length)
        return lengths

    if not d.config.symmetric:
        return reduced(d, one(u, v))
    return reduced(d, [(a + b) / 2 for a, b in zip(one(u, v), one(v, u), strict=True)])


def mrn(d: Any, x: list[float], y: list[float]) -> float:
    def network(net: Any, v: list[float]) -> list[float]:
        for layer in (net[0], net[2]):
            rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
            v = [sum(w * a for w, a in zip(row, v, strict=True)) + b for row, b in rows]
            v = [max(a, 0.0) for a in v] if layer is net[0] else v
        return v

    f = [a - b for a, b in zip(network(d.f, x), network(d.f, y), strict=True)]
    g = [a - b for a, b in zip(network(d.g, x), network(d.g, y), strict=True)]
    one, other = max(0.0, *g), max(0.0, *(-v for v in g))
    even = (sum(v * v for v in f) / 16) ** (d.config.power / 2)
    return even + ((one + other) / 2 if d.config.symmetric else one)


def deep_norm(d: Any, x: list[float], y: list[float]) -> float:
    def one(delta: list[float]) -> float:
        h: list[float] = []
        for layer in range(3):
            U = d.U.tolist()[6 * layer : 6 * layer + 6]
            P = d.P.tolist()[layer - 1] if layer else [[]] * 6
            h = [
                max(0.0, sum(abs(p) * a for p, a in zip(p_row, h, strict=True)) + sum(map(operator.mul, row, delta)))
                for p_row, row in zip(P, U, strict=True)
            ]
        return reduced(d, h)

    delta = [a - b for a, b in zip(x, y, strict=True)]
    return (one(delta) + one([-v for v in delta])) / 2 if d.config.symmetric else one(delta)


def pqe(d: Any, x: list[float], y: list[float]) -> float:
    def one(x: list[float], y: list[float]) -> float:
        u, v = ([sum(a * b for a, b in zip(row, p, strict=True)) for row in d.weight.tolist()] for p in (x, y))
        value = 0.0
        for i, w in enumerate(d.log_w.tolist()):
            mean = sum(max(u[j] - v[j], 0.0) for j in range(4 * i, 4 * i + 4)) / 4
            value += math.exp(w) * (1 - math.exp(-mean))
        return value

    return (one(x, y) + one(y, x)) / 2 if d.config.symmetric else one(x, y)


def scr(d: Any, x: list[float], y: list[float]) -> float:
    pairs = list(zip(x, y, strict=True))
    return math.sqrt(sum(a * a + b * b - a * b for a, b in pairs))


@pytest.mark.parametrize(("name", "options"), [*FORMS, ("mrn", {"hidden": 9, "power": 2}), ("scr", {})])
def test_values_are_those_of_the_formula(name: str, options: dict[str, Any]) -> None:
    formula = {"wide-norm": wide_norm, "deep-norm": deep_norm, "iqe": iqe, "pqe": pqe, "mrn": mrn, "scr": scr}[name]
    d: Any = make(name, options)
    x, y, _ = triples(10)
    for parameter in d.reduce.parameters() if hasattr(d, "reduce") else ():
        torch.nn.init.normal_(parameter)  # At the start, the concave transform of small values is the identity.
    expected = [formula(d, a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    torch.testing.assert_close(d(x, y), torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("wide-norm", 193_600), ("deep-norm", 193_752), ("mrn", 193_796), ("pqe", 193_965), ("iqe", 193_801), ("scr", 0)],
)
def test_the_number_of_parameters_is_pamds_at_d_50(name: str, parameters: int) -> None:
    count = sum(p.numel() for p in pamd.distance(name, latent_dim=50).parameters())
    assert count == parameters
    assert count == 0 or abs(count / 193_915 - 1) < 0.01


@pytest.mark.parametrize(("name", "scale"), [("wide-norm", 1.0), ("deep-norm", 1.0), ("iqe", 1.0), ("pqe", 0.01)])
def test_they_start_at_the_scale_of_a_form_of_trace_1(name: str, scale: float) -> None:
    """`pqe` saturates, so only its slope is compared."""
    torch.manual_seed(0)
    z, z_prime = scale * torch.randn(2, 200, 50)
    value, unit = (pamd.distance(d, latent_dim=50)(z, z_prime).detach().mean() for d in (name, "l2-unit"))
    assert float(value / unit) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("name", ["wide-norm", "deep-norm", "mrn", "pqe", "iqe"])
@pytest.mark.parametrize("latent_dim", [4, 50])
def test_diagnostics_match_their_parameters_to_pamds(name: str, latent_dim: int) -> None:
    head = match(name, latent_dim)
    assert head.reference is not None
    assert abs(head.parameters / head.reference - 1) < 0.02


def test_the_bounds_are_reached() -> None:
    x = torch.randn(1, D, dtype=torch.float64)
    assert float(make("scr", {})(x, -x)) == pytest.approx(pamd.distance("scr", latent_dim=D).max_value(float(x.norm())))
    d: Any = make("wide-norm", {"components": 1, "hidden": 4})
    longest = torch.linalg.svd(d.weight.detach())[2][:1]
    assert float(d(longest, -longest).detach()) == pytest.approx(d.max_value(1.0))
    bounded: Any = make("pqe", {"components": 6, "symmetric": False})
    far = float(bounded(1e6 * x, -1e6 * x).detach())
    assert 0.5 * bounded.max_value(1.0) < far <= bounded.max_value(1.0)
