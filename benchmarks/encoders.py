"""Screen encoders: train them for a few seconds of CPU time to predict the state of a task from images.

Reinforcement learning takes minutes per setting and requires many seeds. This screening takes seconds and answers the
same question: which image size and which convolutions find the state with the least computation?
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.common import Options
from pamd.encoders import encoder
from pamd.envs import make_env
from pamd.envs.wrappers import averaged
from pamd.optimization import adam
from pamd.table import Table

__all__ = ["SETTINGS", "TASKS", "Screened", "measure"]

ON_REQUEST = "takes seven minutes"
TASKS = {"cartpole_swingup": 8, "reacher_easy": 4, "walker_walk": 4}
"""The action repeat of each task."""
LARGE, STACK, LATENT = 96, 3, 50
SAMPLES, HELD_OUT = 6000, 1000
SECONDS = 6.0
"""CPU time of the gradient steps per setting."""


@dataclasses.dataclass(frozen=True)
class Screened:
    """An image and an encoder."""

    size: int = 32
    antialias: bool = True
    filters: int = 32
    strides: tuple[int, ...] = (2, 2)
    reads: str = "differences"
    batch: int = 64
    learning_rate: float = 1e-3


SETTINGS: dict[str, Screened] = {
    "start": Screened(),
    "cpu-0.2": Screened(48, False, 32, (3, 2, 1, 1), "frames"),
    "16 filters": Screened(filters=16),
    "no antialiasing": Screened(antialias=False),
    "frames": Screened(reads="frames"),
    "strides 2, 1": Screened(strides=(2, 1)),
    "48 pixels": Screened(size=48),
    "48 pixels, strides 2, 2, 1": Screened(size=48, strides=(2, 2, 1)),
    "batch 32": Screened(batch=32),
    "batch 128": Screened(batch=128),
    "learning rate 3e-3": Screened(learning_rate=3e-3),
    "cpu": Screened(filters=16, learning_rate=3e-3),
}
"""The search began at `start`. Most settings change one thing; `cpu-0.2` is version 0.2.0, `cpu` the current scale."""


class Seen(NamedTuple):
    """Stacks of large images, uint8 [N, 3, 3, 96, 96], and states with mean 0 and variance 1, float32 [N, n]."""

    frames: NDArray[np.uint8]
    states: Tensor


def measure(options: Options) -> Table:
    """Run the benchmark. Each seed is a repetition with different weights and batches."""
    rows = []
    for task in options.tasks or TASKS:
        seen = collect(task, TASKS.get(task, 4))
        for name, setting in SETTINGS.items():
            results = [screen(seen, setting, seed) for seed in options.seeds or (0, 1)]
            error, steps = np.mean([e for e, _ in results]), np.mean([n for _, n in results])
            row = {"task": task, "setting": name, "error": round(float(error), 3), "steps": round(float(steps))}
            rows.append({**row, "ms per step": round(1e3 * SECONDS / float(steps), 2)})
    notes = (
        f"error: squared error of the state over its variance, on held-out images, after {SECONDS:g} s of CPU time.",
        "ms per step: forward, backward and Adam of the encoder and a small head, one batch.",
    )
    return Table.from_records("encoders", "how fast encoders learn the state of a task", rows, notes)


def collect(task: str, repeat: int, samples: int = SAMPLES) -> Seen:
    """Collect stacks of images from episodes of random actions. Each action is held for a few decisions."""
    env, rng = make_env(task, size=LARGE, render="fast", action_repeat=repeat), np.random.default_rng(0)
    frames: list[NDArray[np.uint8]] = []
    states: list[NDArray[np.float64]] = []
    while len(states) < samples:
        _, info = env.reset()
        stack, over, action = [info["frame"]], False, env.action_space.sample()
        while not over and len(stack) < 60:
            action = rng.uniform(-1, 1, action.shape).astype("float32") if rng.random() < 0.2 else action
            _, _, terminated, truncated, info = env.step(action)
            stack.append(info["frame"])
            over = terminated or truncated
            if len(stack) >= STACK:
                frames.append(np.stack(stack[-STACK:]))
                states.append(env.unwrapped.task.state())  # type: ignore[attr-defined]
    env.close()
    known = np.stack(states[:samples])
    # Drop coordinates that random actions hardly change. They are not informative.
    known = known[:, known.std(0) > 1e-3]
    known = (known - known.mean(0)) / known.std(0)
    return Seen(np.stack(frames[:samples]), torch.as_tensor(known, dtype=torch.float32))


def screen(seen: Seen, setting: Screened, seed: int, seconds: float = SECONDS) -> tuple[float, int]:
    """Return the error on held-out images and the number of steps after `seconds` of CPU time."""
    obs, states = _images(seen.frames, setting), seen.states
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        shape: Any = tuple(obs.shape[1:])
        options = {"filters": setting.filters, "strides": setting.strides, "input": setting.reads}
        head = nn.Sequential(nn.LayerNorm(LATENT), nn.Linear(LATENT, 256), nn.ReLU(), nn.Linear(256, states.shape[1]))
        net = nn.Sequential(encoder("conv", observation_shape=shape, latent_dim=LATENT, **options), head)
    optimizer, draw = adam(net.parameters(), setting.learning_rate), torch.Generator().manual_seed(seed)
    known, used, steps = len(obs) - HELD_OUT, 0.0, 0
    while used < seconds:
        rows = torch.randint(0, known, (setting.batch,), generator=draw)
        start = time.process_time()
        optimizer.zero_grad()
        (net(obs[rows]) - states[rows]).square().mean().backward()
        optimizer.step()
        used, steps = used + time.process_time() - start, steps + 1
    with torch.no_grad():
        return float((net(obs[known:]) - states[known:]).square().mean()), steps


def _images(frames: NDArray[np.uint8], setting: Screened) -> Tensor:
    """Downsample [N, k, 3, 96, 96] to [N, 3k, size, size] by averaging or by striding."""
    factor = LARGE // setting.size
    flat = frames.reshape(-1, LARGE, LARGE)
    small = averaged(flat, factor) if setting.antialias else flat[:, ::factor, ::factor]
    return torch.as_tensor(np.ascontiguousarray(small).reshape(len(frames), -1, setting.size, setting.size))
