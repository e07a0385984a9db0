"""Draw docs/distractors.png anew: every task of the paper under every preset."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np

import pamd
from pamd.envs.dmc import ACTION_REPEATS

PRESETS = (None, "paper-video", "released-video", "easy", "medium", "hard", "color")
"""All but noise, which no PNG makes small."""
STEPS = 12


def main() -> None:
    """One frame each, a few random decisions into episode number `row`."""
    figure, axes = plt.subplots(len(ACTION_REPEATS), len(PRESETS), figsize=(7.4, 8.6), dpi=84)
    for row, task in enumerate(ACTION_REPEATS):
        for column, preset in enumerate(PRESETS):
            env, rng = pamd.make_env(task, render="fast", distractor=preset), np.random.default_rng(row)
            for _ in range(row + 1):
                info = env.reset()[1]
            for _ in range(STEPS):
                info = env.step(rng.uniform(-1, 1, env.action_space.shape))[4]
            env.close()
            axis = axes[row][column]
            axis.imshow(info["frame"].transpose(1, 2, 0), interpolation="nearest")
            axis.set_xticks([])
            axis.set_yticks([])
            if row == 0:
                axis.set_title(preset or "clean", fontsize=8)
            if column == 0:
                axis.set_ylabel(task, fontsize=7)
    figure.subplots_adjust(left=0.03, right=0.995, bottom=0.005, top=0.97, wspace=0.03, hspace=0.03)
    figure.savefig(Path(__file__).parents[1] / "docs" / "distractors.png")


if __name__ == "__main__":
    main()
