"""Draw the pictures of README and concepts anew: `python tools/pictures.py`. Distances and metrics are computed."""

from __future__ import annotations

import itertools
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import pamd
from pamd import exact

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
FIXED, ADAPTIVE, INK = "#d55e00", "#0072b2", "0.2"
PAIR = ((-0.35, 0.6), (0.1, 0.72))
"""Two states at nearly the same distance from the origin: different latents, nearly the same reward."""


def main() -> None:
    torch.manual_seed(0)
    distance = ring_distance()
    save(idea(distance), "idea")
    save(pairing(), "pairing")
    save(field(distance), "field")
    save(contraction(), "contraction")


def ring_distance(steps: int = 1500) -> pamd.Distance:
    """PAMD in two dimensions, fitted to states that behave alike where they are equally far from the origin."""
    distance = pamd.distance("pamd", latent_dim=2, hidden=64, aux_weight=0.0)
    optimizer = torch.optim.Adam(distance.parameters(), lr=2e-3)
    for _ in range(steps):
        z = torch.rand(256, 2) * 2.4 - 1.2
        # Half of the pairs are near each other: the contours that are drawn show small distances.
        z_prime = torch.where(torch.rand(256, 1) < 0.5, z + 0.3 * torch.randn(256, 2), torch.rand(256, 2) * 2.4 - 1.2)
        radial, whole = (z.norm(dim=-1) - z_prime.norm(dim=-1)).square(), (z - z_prime).square().sum(-1)
        loss = (distance(z, z_prime) - (0.7 * radial + 0.15 * whole).sqrt()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return distance


def idea(distance: pamd.Distance) -> Figure:
    """A pair of latents, the network, the matrix, and the ellipse beside the circle of a fixed norm."""
    figure, axes = plt.subplots(1, 4, figsize=(12.5, 3.4), dpi=110, gridspec_kw={"wspace": 0.32})
    z, z_prime = torch.tensor(PAIR)
    matrix = distance.matrix(z[None], z_prime[None])[0].detach().numpy()
    _plane(axes[0], "1. a pair of latents")
    axes[0].plot(*zip(*PAIR, strict=True), "-", color=INK, lw=1.2)
    axes[0].set_xlabel("shade: reward of the state", fontsize=11)
    _network(axes[1])
    _matrix(axes[2], matrix)
    _plane(axes[3], "4. an ellipse, not a circle")
    x, y, delta = _grid(PAIR[0])
    quadratic = np.einsum("xyi,ij,xyj->xy", delta, matrix, delta)
    _contours(axes[3], x, y, np.sqrt(quadratic), delta, 0.2)
    value, fixed = distance(z[None], z_prime[None]).item(), (z - z_prime).norm().item() / 2**0.5
    axes[3].legend(*_keys(), loc="lower left", fontsize=9)
    axes[3].set_xlabel(f"pamd {value:.2f}, fixed norm {fixed:.2f}", fontsize=11)
    for axis in (axes[0], axes[3]):
        for at, name, shift in zip(PAIR, ("z", "z'"), (-13, 3), strict=True):
            axis.plot(*at, "o", color=INK, ms=6)
            axis.annotate(name, at, (shift, 8), textcoords="offset points", fontsize=13, color=INK)
    for left, right in itertools.pairwise(axes):
        middle = (left.get_position().x1 + right.get_position().x0) / 2
        figure.text(middle, 0.5, "→", fontsize=22, ha="center", va="center", color=INK)
    return figure


def field(distance: pamd.Distance) -> Figure:
    """All states at one distance from each of several states, under PAMD and under a fixed norm."""
    figure, axis = plt.subplots(figsize=(4.6, 4.8), dpi=110)
    _plane(axis, "all states at the same distance from ●")
    for angle in np.arange(8) * np.pi / 4 + 0.2:
        at = (0.75 * np.cos(angle), 0.75 * np.sin(angle))
        x, y, delta = _grid(at)
        grid = torch.tensor(np.stack([x.ravel(), y.ravel()], -1), dtype=torch.float32)
        with torch.no_grad():
            values = distance.all_pairs(torch.tensor([at], dtype=torch.float32), grid)[0].numpy().reshape(x.shape)
        _contours(axis, x, y, values, delta, 0.1)
        axis.plot(*at, "o", color=INK, ms=5)
    axis.legend(*_keys(), loc="center", fontsize=9)
    return figure


def pairing(states: int = 8) -> Figure:
    """Which of the B x B pairs of a batch the two pairings use."""
    figure, axes = plt.subplots(1, 2, figsize=(6.4, 3.5), dpi=110)
    order = np.random.default_rng(3).permutation(states)
    one_each = np.zeros((states, states))
    one_each[np.arange(states), order] = 1
    for axis, used, name in ((axes[0], one_each, "permutation"), (axes[1], np.ones((states, states)), "all")):
        axis.imshow(used, cmap="Blues", vmin=0, vmax=1.4)
        axis.set_xticks(np.arange(states + 1) - 0.5, minor=True)
        axis.set_yticks(np.arange(states + 1) - 0.5, minor=True)
        axis.grid(which="minor", color="white", lw=1.5)
        axis.tick_params(which="both", length=0, labelbottom=False, labelleft=False)
        axis.set(title=f'pairing="{name}": {int(used.sum())} pairs', xlabel="state s'", ylabel="state s")
        axis.title.set_fontsize(10)
    return figure


def contraction(gamma: float = 0.9, times: int = 40) -> Figure:
    """The largest error of T applied k times, on a finite MDP, beside the bound gamma^k."""
    mdp = exact.garnet(12, actions=2, branching=3, gamma=gamma, rng=np.random.default_rng(0))
    policy = exact.uniform_policy(mdp)
    truth = exact.mico(mdp, policy)
    apply, errors, d = exact.mico_operator(mdp, policy), [], np.zeros_like(truth)
    for _ in range(times + 1):
        errors.append(np.abs(d - truth).max())
        d = apply(d)
    figure, axis = plt.subplots(figsize=(5.6, 3.3), dpi=110)
    axis.semilogy(errors, "o-", color=ADAPTIVE, ms=3, label="largest error of the estimate")
    axis.semilogy(
        errors[0] * gamma ** np.arange(times + 1), "--", color=FIXED, label=f"bound: {gamma}$^k$ times the first"
    )
    axis.set(xlabel="applications k of the operator", ylabel="error", title="garnet of 12 states, operator of MICo")
    axis.title.set_fontsize(10)
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def _plane(axis: Axes, title: str) -> None:
    side = np.linspace(-1.2, 1.2, 200)
    axis.imshow(
        np.hypot(*np.meshgrid(side, side)),
        extent=(-1.2, 1.2, -1.2, 1.2),
        origin="lower",
        cmap="Greys",
        vmin=-0.4,
        vmax=3.2,
    )
    axis.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), xticks=[], yticks=[])
    axis.set_title(title, fontsize=11)


def _grid(at: tuple[float, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of the plane, and their displacements [x, y, 2] from `at`."""
    side = np.linspace(-1.2, 1.2, 241)
    x, y = np.meshgrid(side, side)
    return x, y, np.stack([x - at[0], y - at[1]], -1)


def _contours(axis: Axes, x: np.ndarray, y: np.ndarray, values: np.ndarray, delta: np.ndarray, level: float) -> None:
    """Where PAMD and the norm of the isotropic matrix of the same trace, I/2, have the value `level`."""
    axis.contour(x, y, values, levels=[level], colors=[ADAPTIVE], linewidths=2)
    axis.contour(x, y, np.linalg.norm(delta, axis=-1) / 2**0.5, levels=[level], colors=[FIXED], linewidths=1.5)


def _keys() -> tuple[list[plt.Line2D], list[str]]:
    return [plt.Line2D([], [], color=color) for color in (FIXED, ADAPTIVE)], ["fixed norm", "pamd"]


def _network(axis: Axes) -> None:
    layers = [np.linspace(-1, 1, n) for n in (4, 6, 6, 3)]
    for left, (a, b) in enumerate(itertools.pairwise(layers)):
        for one in a:
            for other in b:
                axis.plot([left, left + 1], [one, other], color="0.75", lw=0.6, zorder=1)
    for x, layer in enumerate(layers):
        axis.plot([x] * len(layer), layer, "o", color=ADAPTIVE, ms=8, zorder=2)
    axis.text(-0.35, 0, "z, z'", ha="right", va="center", fontsize=12, color=INK)
    axis.text(3.35, 0, "L", ha="left", va="center", fontsize=12, color=INK)
    axis.set(xlim=(-1.2, 3.9), ylim=(-1.35, 1.35), box_aspect=1)
    axis.set_title("2. a network reads both", fontsize=11)
    axis.text(1.35, -1.47, "L: the factor of the matrix", ha="center", va="top", fontsize=11, color="black")
    axis.axis("off")


def _matrix(axis: Axes, matrix: np.ndarray) -> None:
    axis.imshow(matrix, cmap="RdBu", vmin=-1, vmax=1)
    for (row, column), value in np.ndenumerate(matrix):
        axis.text(
            column,
            row,
            f"{value:.2f}",
            ha="center",
            va="center",
            fontsize=14,
            color="white" if abs(value) > 0.6 else INK,
        )
    axis.set(xticks=[], yticks=[])
    axis.set_title("3. and predicts the matrix G̃", fontsize=11)
    axis.set_xlabel("from LLᵀ: positive definite, trace 1", fontsize=11)


def save(figure: Figure, name: str) -> None:
    PICTURES.mkdir(exist_ok=True)
    figure.savefig(PICTURES / f"{name}.png", bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
