"""Results with known closed forms."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import pamd
from pamd import exact
from pamd.diagnostics import (
    Residual,
    ResidualSettings,
    absorption_ratio,
    denoising_factor,
    geometry_of,
    match,
    save,
)
from pamd.diagnostics.absorption import Curve, absorption
from pamd.diagnostics.base import Ledger, rank_correlation
from pamd.diagnostics.exact import _metric_of, _relative_residual, distortion
from pamd.diagnostics.geometry import _condition_number, _off_diagonal_share, _spectrum, anisotropy, pair_variation
from pamd.diagnostics.latents import _classical_mds, _nearest_rows, _overlap, _pca, _standardized_l2
from pamd.diagnostics.matching import parameters
from pamd.distances.pamd import QuadraticForm
from pamd.distances.quadratic import Form, QuadraticConfig
from pamd.errors import ConfigError, ShapeError
from pamd.report.diagnostics import draw
from pamd.representation.meters import entropy_rank


def test_an_isotropic_matrix_has_full_effective_rank_and_nothing_else() -> None:
    d = 7
    G = torch.eye(d, dtype=torch.float64).expand(3, d, d) / d
    eigenvalues = _spectrum(G)
    assert entropy_rank(eigenvalues) == pytest.approx([d] * 3)
    assert _condition_number(eigenvalues) == pytest.approx([1.0] * 3)
    assert _off_diagonal_share(G).abs().max() < 1e-12
    assert anisotropy(G).abs().max() < 1e-12
    assert pair_variation(G).abs().max() < 1e-12


def test_a_matrix_of_rank_one_has_effective_rank_one_and_is_singular() -> None:
    v = torch.full((4, 1), 0.5, dtype=torch.float64)
    G = (v @ v.T)[None]
    eigenvalues = _spectrum(G)
    assert entropy_rank(eigenvalues).item() == pytest.approx(1.0)
    assert _condition_number(eigenvalues).item() == math.inf
    assert _off_diagonal_share(G).item() == pytest.approx(12 / 16)
    assert anisotropy(G).item() == pytest.approx(math.sqrt(1 - 1 / 4))


class Wide(QuadraticForm[QuadraticConfig]):
    """A form from elsewhere: its `weight` [3, d] is no diagonal of L."""

    Config = QuadraticConfig

    def __init__(self, latent_dim: int, config: QuadraticConfig) -> None:
        super().__init__(latent_dim, config)
        self.weight = torch.nn.Parameter(torch.randn(3, latent_dim))

    def _metric(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return (self.weight.T @ self.weight).expand(len(z), -1, -1)

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        W = self.weight
        trace = W.square().sum().expand(len(z))
        return Form((delta @ W.T).square().sum(-1), trace, lambda v: W.T @ (W @ v))


def test_a_form_from_elsewhere_has_a_geometry_without_a_rehu() -> None:
    found = geometry_of(Wide(6, QuadraticConfig()), torch.randn(40, 6), pairs=16)
    assert found.dead_share is None
    assert found.eigenvalues.shape == (16, 6)


def test_the_geometry_of_a_fresh_global_diagonal_is_that_of_the_scaled_norm() -> None:
    z = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    found = geometry_of(pamd.distance("diagonal", latent_dim=6), z, pairs=64)  # type: ignore[arg-type]
    assert found.effective_rank == pytest.approx(np.full(64, 6.0))
    assert found.variation.max() < 1e-12
    assert found.value == pytest.approx(found.upper / math.sqrt(6), rel=1e-3)
    assert (found.lower <= found.value).all()
    assert found.triangle_violations == 0
    assert (found.dead_share, found.dead_everywhere) == (0.0, 0)
    assert found.guards == {"root epsilon": 0.0, "trace epsilon": 0.0, "ridge": 0.0}


@pytest.mark.parametrize("name", ["pamd", "pamd-lowrank", "pamd-block", "adaptive-diagonal"])
def test_dead_diagonals_are_counted_whatever_the_factor(name: str) -> None:
    distance: Any = pamd.distance(name, latent_dim=20)
    z = torch.randn(30, 20, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        distance.net[4].weight.zero_()
        distance.net[4].bias.fill_(-1.0)
    assert geometry_of(distance, z, pairs=16).dead_everywhere == 20
    with torch.no_grad():
        distance.net[4].bias.fill_(1.0)
    assert geometry_of(distance, z, pairs=16).dead_share == 0


def test_guards_are_seen_where_they_carry_the_value() -> None:
    distance: Any = pamd.distance("pamd", latent_dim=4, root_epsilon=1e-2, ridge=10.0)
    z = 0.01 * torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    guards = geometry_of(distance, z, pairs=32).guards
    assert guards["root epsilon"] == 1.0
    assert guards["ridge"] == 1.0


@pytest.mark.parametrize(
    ("three", "ratio"),
    [
        ((1.0, 1.0, 1.0), 0.0),  # a constant distance: nothing moves
        ((1.0, 0.01, 0.0001), 0.5),  # half of the orders of magnitude
        ((1.0, 0.01, 0.01), 1.0),  # the encoder adds nothing
        ((1.0, 0.01, 0.1), 1.0),  # or harms
        ((1.0, 2.0, 0.1), 0.0),  # the head alone gets worse
        ((1.0, 0.0, 0.0), 1.0),
    ],
)
def test_the_absorption_ratio(three: tuple[float, float, float], ratio: float) -> None:
    assert absorption_ratio(*three) == pytest.approx(ratio)


def test_absorption_takes_the_seeds_that_have_both_curves() -> None:
    def curve(encoder: Any, seed: int, end: float) -> Curve:
        # The target grows to the tenfold: relative to it, a residual of `end` is a tenth of that.
        return Curve("pamd", encoder, seed, [0, 1], [1.0, end], [1.0, 10.0])

    curves = [curve("frozen", 0, 0.1), curve("trainable", 0, 0.01), curve("frozen", 1, 0.1)]
    found = absorption("pamd", curves)
    assert found is not None
    assert (found.seeds, found.ratio, found.level) == (1, pytest.approx(0.5), pytest.approx(0.1))
    assert found.relative_ratio == pytest.approx(2 / 3)
    assert absorption("mlp", curves) is None


def test_many_distances_are_drawn_as_the_ends_of_their_curves(tmp_path: Path) -> None:
    names = ("pamd", "mlp", "l2-unit", "iqe", "mrn")
    curves = tuple(
        Curve(name, encoder, seed, [0, 1], [1.0, 0.1 / (seed + 1)], [1.0, 10.0], [1.0, 0.1])
        for name in names
        for encoder in ("frozen", "trainable")
        for seed in range(2)
    )
    ratios = tuple(found for name in names if (found := absorption(name, curves)) is not None)
    source = {"source": "run", "transitions": 2, "size": 8}
    heads = tuple(match(name, 50) for name in names)
    save(Residual(ResidualSettings(), source, 0.5, heads, curves, ratios), tmp_path)
    section = draw(tmp_path)
    assert "frozen (filled)" in section.figures[0].caption
    assert (tmp_path / "residual.png").stat().st_size > 10_000
    assert ["iqe", "193,801", "475"] in section.tables[1].rows


def test_heads_match_as_the_paper_counts_them() -> None:
    assert match("pamd", 50).parameters == 193_915
    mlp = match("mlp", 50)
    assert (mlp.options["hidden"], mlp.parameters, mlp.reference) == (392, 194_041, 193_915)
    assert parameters(mlp.build(50)) == 194_041
    assert "hidden 392" in str(mlp)
    assert match("l2", 50).parameters == 0
    assert match("mlp", 50, like=None).options == {}
    assert match("pamd", 50, preset="released-residual").options["trace_detached"] is True


def test_the_denoising_factor() -> None:
    l2 = pamd.distance("l2", latent_dim=2)
    z = torch.tensor([[0.0, 0.0], [4.0, 0.0]])
    assert denoising_factor(l2, z, z) == pytest.approx(1.0)
    # The background moves a state by 3; the other state is then 5 away: (5 - 3) / (5 + 3).
    assert denoising_factor(l2, z, z + torch.tensor([0.0, 3.0])) == pytest.approx(0.25)
    assert denoising_factor(l2, z * 0, z * 0) == 0.0
    with pytest.raises(ShapeError, match=r"\[2, 2\] and \[1, 2\]"):
        denoising_factor(l2, z, z[:1])


def test_an_exact_embedding_has_distortion_one_and_no_residual() -> None:
    mdp = exact.garnet(6, rng=np.random.default_rng(1))
    D = _metric_of(mdp, "bisimulation")[np.triu_indices(6, 1)]
    assert distortion(3 * D, D) == pytest.approx(1.0)
    assert _relative_residual(3 * D, D) == pytest.approx(0.0)
    assert rank_correlation(3 * D, D) == pytest.approx(1.0)
    assert distortion(np.array([1.0, 4.0]), np.array([1.0, 2.0])) == pytest.approx(2.0)
    assert distortion(np.array([-1.0, 4.0]), np.array([1.0, 2.0])) == math.inf
    assert distortion(np.array([5.0, 1.0]), np.array([0.0, 2.0])) == pytest.approx(1.0)
    assert _relative_residual(np.ones(len(D)), D) == pytest.approx(1.0)  # a constant distance explains nothing
    assert _relative_residual(np.array([1.0, 0.0]), np.array([1.0, 2.0])) == pytest.approx(4 / 0.5)


@pytest.mark.parametrize("metric", ["bisimulation", "mico"])
def test_a_scaled_mdp_scales_its_metric_and_leaves_what_is_embedded(metric: str) -> None:
    mdp = exact.garnet(5, rng=np.random.default_rng(2))
    scaled = exact.FiniteMDP(mdp.transition, 10 * mdp.reward, mdp.gamma)
    policy = exact.uniform_policy(mdp)
    one, ten = (exact.bisimulation(m) if metric == "bisimulation" else exact.mico(m, policy) for m in (mdp, scaled))
    assert ten == pytest.approx(10 * one, rel=1e-6)
    assert _metric_of(scaled, metric) == pytest.approx(_metric_of(mdp, metric), rel=1e-3)


def test_rank_correlation_shares_ties_and_is_zero_without_variation() -> None:
    x = np.array([1.0, 2.0, 2.0, 5.0])
    assert rank_correlation(x, x**3) == pytest.approx(1.0)
    assert rank_correlation(x, -x) == pytest.approx(-1.0)
    assert rank_correlation(x, np.ones(4)) == 0.0


def test_maps_of_points_in_a_plane_are_exact() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(12, 2))
    D = np.linalg.norm(points[:, None] - points, axis=-1)
    for flat, share in (_classical_mds(D), _pca(np.pad(points, ((0, 0), (0, 3))))):
        assert np.linalg.norm(flat[:, None] - flat, axis=-1) == pytest.approx(D)
        assert share.sum() == pytest.approx(1.0)


def test_neighbors_and_their_overlap() -> None:
    D = _standardized_l2(np.array([[0.0, 7.0], [1.0, 7.0], [3.0, 7.0], [7.0, 7.0]]))
    near = _nearest_rows(D, 2, np.eye(4, dtype=bool))
    assert near[0].tolist() == [1, 2]
    assert near[3].tolist() == [2, 1]
    assert _overlap(near, near) == 1.0
    assert _overlap(np.array([[1, 2]]), np.array([[2, 3]])) == 0.5
    with pytest.raises(ConfigError, match="collect more states"):
        _nearest_rows(D, 4, np.eye(4, dtype=bool))


def test_a_ledger_goes_on_where_it_was_and_mixes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.jsonl"
    Ledger(path, {"steps": 3, "strides": (2, 1)}).add("a", {"x": 1.5})
    with path.open("a") as file:
        file.write('{"key": "b", "ro')  # the process was killed here
    again = Ledger(path, {"steps": 3, "strides": [2, 1]})
    assert "a" in again
    assert "b" not in again
    again.add("b", {"x": 2.0})
    assert list(Ledger(path, {"steps": 3, "strides": (2, 1)})._rows.values()) == [{"x": 1.5}, {"x": 2.0}]
    with pytest.raises(ConfigError, match="steps 3 against 4"):
        Ledger(path, {"steps": 4, "strides": (2, 1)})
    with pytest.raises(ConfigError, match=r"settings \(steps 3 against 4\);"):
        Ledger(path, {"steps": 4, "strides": (2, 1)})
    path.write_text(path.read_text().replace('"key": "a"', '"key": '))
    with pytest.raises(ConfigError, match=r"rows\.jsonl, line 2 is damaged"):
        Ledger(path, {"steps": 3, "strides": (2, 1)})


def test_a_ledger_without_rows_stands_in_nobody_s_way(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    Ledger(path, {"steps": 3})
    assert not path.exists()
    path.write_text('{"settings": {"steps": 4}}\n')
    Ledger(path, {"steps": 3}).add("a", {"x": 1})
    assert list(Ledger(path, {"steps": 3})._rows.values()) == [{"x": 1}]
