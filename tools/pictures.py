"""Draw the pictures of README and docs anew: `python tools/pictures.py [NAME ...]`, by default all of them.

Distances and metrics are computed. The picture `metaworld` requires pamd[metaworld].
"""

from __future__ import annotations

import argparse
import functools
import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

import pamd
from pamd import exact
from pamd.envs.backend import import_simulator
from pamd.envs.wrappers import Episodes
from pamd.errors import PamdError

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
FIXED, ADAPTIVE, INK = "#d55e00", "#0072b2", "0.2"
PAIR = ((-0.35, 0.6), (0.1, 0.72))
"""Two states at nearly the same distance from the origin: different latents, nearly the same reward."""

PRESETS = (
    *("none", "color-easy", "color-hard", "video-easy", "video-hard"),
    *("distracting-easy", "distracting-medium", "distracting-hard"),
    *("distracting-easy-static", "distracting-medium-static", "distracting-hard-static"),
)
MANIPULATION = ("reach-v3", "button-press-topdown-v3", "hammer-v3", "assembly-v3")
DECISIONS = (0, 20, 50)
"""Decisions of an episode whose frames the pictures of tasks show."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Draw the pictures of README and docs anew.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(DRAWINGS)} (default: all)")
    names = parser.parse_args(arguments).names or list(DRAWINGS)
    if unknown := [name for name in names if name not in DRAWINGS]:
        parser.error(f"unknown picture {unknown[0]!r}; expected one of {', '.join(DRAWINGS)}")
    try:
        for name in names:
            save(DRAWINGS[name](), name)
    except PamdError as error:
        parser.error(f"cannot draw {name}: {error}")


@functools.cache
def ring_distance(steps: int = 1500) -> pamd.Distance:
    """PAMD in two dimensions, fitted to states that behave alike where they are equally far from the origin."""
    torch.manual_seed(0)
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


def idea() -> Figure:
    """A pair of latents, the network, the matrix, and the ellipse beside the circle of a fixed norm."""
    distance = ring_distance()
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


def field() -> Figure:
    """All states at one distance from each of several states, under PAMD and under a fixed norm."""
    distance = ring_distance()
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


def benchmarks(task: str = "walker_walk", presets: Sequence[str] = PRESETS) -> Figure:
    """Two episodes of one task under each preset, with the same random actions in every row."""
    return _sheet({preset: distracted(task, preset) for preset in presets})


def metaworld(tasks: Sequence[str] = MANIPULATION) -> Figure:
    """Two episodes of each Meta-World task under the policy that the package has for it."""
    return _sheet({task: scripted(task) for task in tasks})


def distracted(task: str, preset: str) -> np.ndarray:
    """Frames [episode, decision, H, W, 3] of `task` under random actions."""
    rng = np.random.default_rng(0)
    env = pamd.make_env(task, distractor=preset, seed=3)
    return _frames(env, lambda _: rng.uniform(-1, 1, env.action_space.shape))


def scripted(task: str) -> np.ndarray:
    """Frames [episode, decision, H, W, 3] of a Meta-World task under the policy that the package has for it."""
    env = pamd.make_env(f"state:metaworld:{task}")
    policy = import_simulator("metaworld.policies").ENV_POLICY_MAP[task]()
    return _frames(env, lambda state: policy.get_action(state.astype(np.float64)))


def _frames(env: Episodes, act: Callable[[np.ndarray], np.ndarray], episodes: int = 2) -> np.ndarray:
    """Frames [episode, decision, H, W, 3] of `env` at DECISIONS."""
    frames = []
    with env:
        for _ in range(episodes):
            obs = env.reset()[0]
            for decision in range(max(DECISIONS) + 1):
                if decision in DECISIONS:
                    frames.append(env.render())
                obs = env.step(np.clip(act(obs), -1, 1).astype(np.float32))[0]
    return np.stack(frames).reshape(episodes, len(DECISIONS), *frames[0].shape)


def _sheet(rows: Mapping[str, np.ndarray], gap: int = 6) -> Figure:
    """One row of frames [episode, decision, H, W, 3] per name, each frame in its own pixels."""
    episodes, decisions, side = next(iter(rows.values())).shape[:3]
    lines = []
    for frames in rows.values():
        blocks = [np.concatenate(list(episode), 1) for episode in frames]
        white = np.full((side, gap, 3), 255, np.uint8)
        lines.append(np.concatenate([part for block in blocks for part in (block, white)][:-1], 1))
    picture = np.concatenate(lines)
    height, width = picture.shape[:2]
    figure = plt.figure(figsize=(width / 100, height / 100), dpi=100)
    axis = figure.add_axes((0, 0, 1, 1))
    axis.imshow(picture, interpolation="nearest")
    axis.set_yticks(side * (np.arange(len(rows)) + 0.5), list(rows), fontsize=10)
    at = [
        episode * (decisions * side + gap) + side * (k + 0.5) for episode in range(episodes) for k in range(decisions)
    ]
    axis.set_xticks(at, [f"decision {decision}" for decision in DECISIONS] * episodes, fontsize=9)
    axis.tick_params(length=0, labeltop=True, labelbottom=False)
    axis.spines[:].set_visible(False)
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
    """Write docs/pictures/NAME.png with a palette, which makes it a third as large."""
    PICTURES.mkdir(exist_ok=True)
    file = io.BytesIO()
    figure.savefig(file, bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)
    with Image.open(file) as picture:
        small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(PICTURES / f"{name}.png", optimize=True)


DRAWINGS: dict[str, Callable[[], Figure]] = {
    "idea": idea,
    "pairing": pairing,
    "field": field,
    "contraction": contraction,
    "benchmarks": benchmarks,
    "metaworld": metaworld,
}

if __name__ == "__main__":
    main()
