"""What every registered distance must keep: its declared properties, shapes, gradients, types and state."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import pamd
from pamd.distances.base import DISTANCES, Distance, NoOptions, Properties
from pamd.distances.pamd import QuadraticForm

D = 6
OPTIONS: dict[str, dict[str, Any]] = {"pamd-block": {"block": 3}}
"""Two blocks: the default at so small a latent is one."""


@DISTANCES.register("outside-chebyshev")
class Chebyshev(Distance[NoOptions]):
    """A stranger's distance, registered from outside the package: it must pass all that follows with no other edit."""

    Config = NoOptions
    properties = Properties(triangle=True)

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return (z - z_prime).abs().amax(-1)


@dataclasses.dataclass(frozen=True)
class WeightedConfig:
    power: float = 2.0
    """The exponent of a coordinate's difference."""


@DISTANCES.register("outside-weighted")
class Weighted(Distance[WeightedConfig]):
    """The class of docs/howto/distance.md: options, and a parameter of a name that no distance of ours has."""

    Config = WeightedConfig

    def __init__(self, latent_dim: int, config: WeightedConfig) -> None:
        super().__init__(latent_dim, config)
        self.log_weight = torch.nn.Parameter(torch.zeros(latent_dim))

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return ((z - z_prime).abs() ** self.config.power * self.log_weight.exp()).sum(-1)


NAMES = DISTANCES.names()
QUADRATIC = [name for name in NAMES if issubclass(DISTANCES.get(name), QuadraticForm)]
PRESETS = [(name, preset) for name in NAMES for preset in (None, *DISTANCES.get(name).presets)]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]

latents = st.integers(0, 2**32 - 1)
scales = st.sampled_from([1e-8, 1e-4, 1e-2, 1.0, 30.0, 1e3, 1e6])


def make(name: str, preset: str | None = None, dtype: torch.dtype = torch.float32, **options: Any) -> Distance[Any]:
    torch.manual_seed(3)
    made = pamd.distance(name, latent_dim=D, preset=preset, **{**OPTIONS.get(name, {}), **options})
    for parameter in made.parameters():  # away from the initial point, where a global diagonal is isotropic
        torch.nn.init.normal_(parameter, std=0.5)
    return made.to(dtype)


def draw(seed: int, count: int = 5, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.as_tensor(np.random.default_rng(seed).normal(size=(count, D)) * scale).to(dtype)


def test_the_papers_distances_are_all_there() -> None:
    assert {"pamd", "mlp", "diagonal", "adaptive-diagonal", "l1", "l2", "coordinate", "cosine", "mico"} <= set(NAMES)
    assert {
        "pamd-lowrank",
        "pamd-block",
        "pamd-scaled",
        "l1-mean",
        "l2-unit",
        "mahalanobis",
        "outside-chebyshev",
        "outside-weighted",
    } <= set(NAMES)


@pytest.mark.parametrize(("name", "preset"), PRESETS)
@settings(max_examples=20, deadline=None)
@given(seed=latents, scale=scales)
def test_declared_properties(name: str, preset: str | None, seed: int, scale: float) -> None:
    d = make(name, preset, torch.float64)
    x, y, w = draw(seed, scale=scale), draw(seed + 1, scale=scale), draw(seed + 2, scale=scale)
    value = d(x, y)
    assert value.isfinite().all()
    room = 1e-9 * (1 + value.abs())
    if d.properties.symmetric:
        assert ((value - d(y, x)).abs() <= room).all()
    if d.properties.nonnegative:
        assert (value >= -1e-12).all()
    if d.properties.self_zero:
        assert ((d(x, x) - d.self_distance).abs() <= 1e-9).all()
    if d.properties.triangle:
        assert (d(x, w) <= value + d(y, w) + room).all()


@pytest.mark.parametrize("name", ["mlp", "mico", "coordinate", "cosine", "pamd"])
def test_a_property_that_is_not_declared_is_really_broken(name: str) -> None:
    """Else the declaration would be weaker than the truth, and the test above idle."""
    d = make(name, dtype=torch.float64)
    x, y = draw(0, 200), draw(1, 200)
    middle = (x + y) / 2
    if not d.properties.symmetric:
        assert (d(x, y) - d(y, x)).abs().max() > 1e-3
    if not d.properties.nonnegative:
        assert d(x, y).min() < 0
    if not d.properties.self_zero:
        assert d(x, x).abs().max() > 1e-3
    if not d.properties.triangle:
        broken = d(x, y) - d(x, middle) - d(middle, y)
        bent = d(x, y) - d(x, 1.001 * x) - d(1.001 * x, y)
        assert max(broken.max(), bent.max()) > 1e-6 or name == "mico"


@pytest.mark.parametrize(("name", "preset"), [(n, p) for n, p in PRESETS if n in QUADRATIC])
@settings(max_examples=15, deadline=None)
@given(seed=latents, scale=scales, far=scales, dtype=st.sampled_from([torch.float32, torch.float64]))
def test_lemma_spectral_sandwich(
    name: str, preset: str | None, seed: int, scale: float, far: float, dtype: torch.dtype
) -> None:
    """lem:spectral_sandwich, both bounds, from the definition: extreme latents, near and far pairs."""
    d = make(name, preset, dtype)
    z = draw(seed, scale=scale, dtype=dtype)
    z_prime = z + draw(seed + 1, scale=scale * far if far < 1 else far, dtype=dtype)
    c = d.config
    length = (z - z_prime).square().sum(-1)
    trace_bar = _trace_bar(d, z, z_prime)
    alpha = (c.ridge or 0.0) / (trace_bar + c.trace_epsilon)
    value = d(z, z_prime)
    room = 1 + (1e-4 if dtype is torch.float32 else 1e-10)
    lower = d.scale * _root(c, c.trace_of(D) * alpha * length)
    upper = d.scale * _root(c, c.trace_of(D) * length)
    assert value.isfinite().all()
    assert (value * room >= lower).all()
    assert (value <= upper * room).all()
    said_lower, said_upper = d.bounds(z, z_prime)
    torch.testing.assert_close(said_lower, lower, rtol=1e-3, atol=0)
    torch.testing.assert_close(said_upper, upper, rtol=1e-4, atol=0)


def _root(config: Any, quadratic: Tensor) -> Tensor:
    shifted = quadratic + config.root_epsilon if config.root == "add" else quadratic.clamp_min(config.root_epsilon)
    return shifted.sqrt()


def _trace_bar(d: Distance[Any], z: Tensor, z_prime: Tensor) -> Tensor:
    """tr G_bar, by way of the unnormalized matrix of a twin with the same weights."""
    name = next(n for n in NAMES if DISTANCES.get(n) is type(d))
    plain = pamd.distance(
        name,
        latent_dim=D,
        trace_normalized=False,
        ridge=d.config.ridge,
        diagonal_epsilon=d.config.diagonal_epsilon,
        **OPTIONS.get(name, {}),
    ).to(z.dtype)
    plain.load_state_dict(d.state_dict())
    return plain.matrix(z, z_prime).diagonal(dim1=-2, dim2=-1).sum(-1)


@pytest.mark.parametrize("name", QUADRATIC)
@pytest.mark.parametrize("aux_probes", [None, 3])
def test_matrix_is_symmetric_positive_definite_and_of_unit_trace(name: str, aux_probes: int | None) -> None:
    d = make(name, dtype=torch.float64, aux_probes=aux_probes)
    z, z_prime = draw(0, 7), draw(1, 7)
    G = d.matrix(z, z_prime)
    assert G.shape == (7, D, D)
    torch.testing.assert_close(G, G.mT)
    torch.testing.assert_close(G, d.matrix(z_prime, z))
    assert (torch.linalg.eigvalsh(G) > 0).all()
    torch.testing.assert_close(G.diagonal(dim1=-2, dim2=-1).sum(-1), torch.ones(7).double(), atol=1e-5, rtol=0)
    delta = z - z_prime
    expected = d.scale * (torch.einsum("pi,pij,pj->p", delta, G, delta) + d.config.root_epsilon).sqrt()
    torch.testing.assert_close(d(z, z_prime), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_gradients_are_finite_where_pairs_coincide_oppose_or_vanish(name: str, preset: str | None) -> None:
    d = make(name, preset)
    base = draw(0, 4, dtype=torch.float32)
    z = torch.cat([base, base, base, torch.zeros(2, D)]).requires_grad_()
    z_prime = torch.cat([base, -base, 2 * base, torch.zeros(1, D), base[:1]]).requires_grad_()
    measured = d.measure(z, z_prime, torch.Generator().manual_seed(0))
    (measured.value.sum() + measured.penalty).backward()
    for leaf in (z, z_prime, *d.parameters()):
        assert leaf.grad is None or leaf.grad.isfinite().all()


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_gradcheck(name: str, preset: str | None) -> None:
    d = make(name, preset, torch.float64)
    z, z_prime = draw(5, 3).requires_grad_(), draw(6, 3).requires_grad_()
    names, weights = zip(*d.named_parameters(), strict=True) if list(d.parameters()) else ((), ())

    def everything(a: Tensor, b: Tensor, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        with torch.nn.utils.stateless._reparametrize_module(d, dict(zip(names, parameters, strict=True))):
            measured = d.measure(a, b, torch.Generator().manual_seed(0))
        return measured.value, measured.penalty + 0 * a.sum()

    if getattr(d.config, "trace_detached", False):
        pytest.skip("the gradient is cut on purpose; test_pamd holds it to the dense construction")
    assert torch.autograd.gradcheck(everything, (z, z_prime, *weights), fast_mode=True)


@pytest.mark.parametrize("name", NAMES)
def test_state_round_trip(name: str) -> None:
    d, other = make(name), pamd.distance(name, latent_dim=D, **OPTIONS.get(name, {}))
    z, z_prime = draw(0, dtype=torch.float32), draw(1, dtype=torch.float32)
    other.load_state_dict({key: value.clone() for key, value in d.state_dict().items()})
    assert torch.equal(d(z, z_prime), other(z, z_prime))
    assert set(d.state_dict()) == {key for key, _ in d.named_parameters()}, "no hidden buffers in the state"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("device", DEVICES)
def test_types_and_devices(name: str, dtype: torch.dtype, device: str) -> None:
    d = make(name, dtype=dtype).to(device)
    z, z_prime = draw(0, 9).to(device, dtype), draw(1, 9).to(device, dtype)
    reference = make(name, dtype=torch.float64)
    with torch.no_grad():
        for parameter, exact in zip(d.parameters(), reference.parameters(), strict=True):
            exact.copy_(parameter.double().cpu())
    z.requires_grad_()
    measured = d.measure(z, z_prime)
    assert measured.value.dtype == dtype
    assert measured.value.shape == ((9, D) if d.coordinate_wise else (9,))
    assert measured.penalty.shape == ()
    tolerance = 1e-4 if dtype is torch.float32 else 6e-2
    exact_value = reference(z.detach().double().cpu(), z_prime.double().cpu())
    torch.testing.assert_close(measured.value.double().cpu(), exact_value, rtol=tolerance, atol=tolerance)
    (measured.value.float().sum() + measured.penalty).backward()
    assert z.grad is not None
    assert z.grad.isfinite().all()
    assert d.all_pairs(z).dtype == dtype


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("device", DEVICES)
def test_autocast(name: str, device: str) -> None:
    """Latents in bfloat16 from an autocast encoder, weights in float32, backward inside and outside the context."""
    d, encoder = make(name).to(device), torch.nn.Linear(3, D).to(device)
    obs = torch.randn(8, 3, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        measured = d.measure(encoder(obs), encoder(obs.flip(0)))
        inside = d.measure(encoder(obs), encoder(obs.flip(0)))
        (inside.value.sum() + inside.penalty).backward()
    (measured.value.sum() + measured.penalty).backward()
    assert encoder.weight.grad is not None
    assert encoder.weight.grad.isfinite().all()
    exact = d(encoder(obs), encoder(obs.flip(0)))
    torch.testing.assert_close(measured.value.float(), exact, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_roots_traces_and_penalties_are_float32_inside_autocast(name: str, dtype: torch.dtype) -> None:
    d = make(name)
    penalized = d.measure(draw(0, 7).float(), draw(1, 7).float()).penalty != 0
    roots: list[torch.dtype] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if str(function).startswith(("aten.sqrt", "aten.rsqrt")):
                roots.append(args[0].dtype)
            return function(*args, **(kwargs or {}))

    with torch.autocast("cpu", torch.bfloat16), Watch():
        value, penalty, _ = d.measure(draw(0, 7).to(dtype), draw(1, 7).to(dtype))
    if dtype == torch.float32 and name != "mlp":  # a network's plain output; the loss converts it
        assert value.dtype == torch.float32
    assert set(roots) == {torch.float32} if isinstance(d, QuadraticForm) else set(roots) <= {torch.float32}
    if penalized:
        assert penalty.dtype == torch.float32


@pytest.mark.parametrize("name", NAMES)
def test_all_pairs_equals_pair_by_pair(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    d = make(name, dtype=torch.float64)
    z, other = draw(0, 7), draw(1, 4)
    for right in (z, other):
        expected = torch.stack([d(z[i].expand(len(right), -1), right) for i in range(len(z))])
        expected = expected.mean(-1) if d.coordinate_wise else expected
        got = d.all_pairs(z) if right is z else d.all_pairs(z, right)
        torch.testing.assert_close(got, expected)
        # Small enough chunks to cut rows, and rows themselves, into pieces: nothing changes.
        for floats in (1, 3 * 10**3):
            monkeypatch.setattr("pamd.distances.base._CHUNK_FLOATS", floats)
            torch.testing.assert_close(d.all_pairs(z, right), expected)
    assert d.all_pairs(z[:0]).shape == (0, 0)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_batch_is_no_accident(name: str) -> None:
    d = make(name)
    measured = d.measure(torch.zeros(0, D), torch.zeros(0, D))
    assert measured.value.shape[0] == 0
    assert measured.penalty == 0


@pytest.mark.parametrize("name", NAMES)
def test_mixed_types_inside_autocast_are_cast(name: str) -> None:
    d = make(name)
    z, z_prime = draw(0, 7), draw(1, 7)
    exact = d(z.float(), z_prime.float())
    types = [torch.float32, torch.bfloat16, torch.float64]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for left, right in itertools.product(types, types):
            for call in (d, lambda x, y: d.measure(x, y).value):
                value = call(z.to(left), z_prime.to(right))
                torch.testing.assert_close(value.float(), exact, rtol=0.1, atol=0.1)
            assert d.all_pairs(z.to(left), z_prime.to(right)).shape == (7, 7)


@pytest.mark.parametrize("name", NAMES)
def test_the_repr_shows_the_configuration(name: str) -> None:
    shown = repr(make(name))
    assert f"latent_dim={D}" in shown
    for field in dataclasses.fields(DISTANCES.get(name).Config):
        assert f"{field.name}=" in shown


@pytest.mark.parametrize(("name", "preset"), [(n, p) for n, p in PRESETS if n in QUADRATIC])
def test_a_quadratic_form_is_its_textbook(name: str, preset: str | None) -> None:
    """G as a matrix and G as a `Form` are the same, in value, penalty and gradients."""
    d = make(name, preset, torch.float64, aux_pairs=None, aux_probes=None)
    assert isinstance(d, QuadraticForm)
    z, z_prime = draw(0, 7).requires_grad_(), draw(1, 7).requires_grad_()
    measured, textbook = d.measure(z, z_prime), d.textbook(z, z_prime)
    torch.testing.assert_close((measured.value, measured.penalty), textbook)
    leaves = [z, z_prime, *d.parameters()]
    slopes = [
        torch.autograd.grad(value.square().sum() + 100 * penalty, leaves)
        for value, penalty in ((measured.value, measured.penalty), textbook)
    ]
    torch.testing.assert_close(*slopes)


HOOKS = {
    *("__init__", "resolve", "self_distance", "max_value", "properties", "presets", "coordinate_wise", "rehu_inputs"),
    *("_embed", "_value_and_penalty", "_all_pairs", "_floats_per_pair"),
}
"""What a subclass may replace. Everything else is defined once, in an abstract class or in a final one."""


@pytest.mark.parametrize("name", NAMES)
def test_a_distance_is_final_and_replaces_only_hooks(name: str) -> None:
    cls = DISTANCES.get(name)
    levels = [base for base in cls.__mro__ if issubclass(base, Distance)]
    assert len(levels) <= 3, "Distance, one abstract class, and the distance"
    assert not cls.__subclasses__()
    assert all(base.__abstractmethods__ for base in levels[1:]), "an abstract class between"
    for i, base in enumerate(levels[:-1]):
        for above in levels[i + 1 :]:
            replaced = {
                key
                for key in vars(base).keys() & vars(above).keys() - HOOKS
                if callable(getattr(above, key)) and not getattr(vars(above)[key], "__isabstractmethod__", False)
            }
            assert not {key for key in replaced if not key.startswith("__")}, (base, above)
