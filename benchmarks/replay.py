"""Sampling time and memory of a transition, compared with stacked observations."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.common import ACTIONS, Options
from pamd.envs import make_env
from pamd.measure import interleave, make_agent, make_batch, milliseconds, ratio
from pamd.replay import Replay, ReplayConfig, forecast
from pamd.replay.layout import STORAGES, StorageName
from pamd.table import Table

__all__ = ["measure", "page_by_page"]

_EMPTIED = "drop_cache"
"""The name of the step that drops the cache. It is not a contender."""
FRAME, STACK, BATCH, FILLED, EPISODE = (3, 84, 84), 3, 128, 4000, 250


def measure(options: Options) -> Table:
    frames = _rendered()
    with tempfile.TemporaryDirectory() as directory:
        replays = {storage: _filled(Path(directory) / storage, storage, frames) for storage in STORAGES}
        rng = np.random.default_rng(0)
        runs: dict[str, Callable[[], object]] = {"stacked (reference)": _stacked(rng)}
        runs |= {f"frames once, {name}": _sampling(replay, rng) for name, replay in replays.items()}
        if hasattr(os, "posix_fadvise"):
            cold = Path(directory) / "cold"
            _filled(cold, "mmap", frames)  # Not kept open, because mapped pages stay in the cache.
            runs |= _cold(cold, rng)
        agent, batch = make_agent("simsr+pamd", schedule="joint"), make_batch()
        seconds = interleave(runs | {"update": lambda: agent.update(batch)}, options.repetitions)
    rows = []
    for name in [name for name in runs if not name.startswith(_EMPTIED)]:
        row: dict[str, Any] = {"storage": name, "ms": milliseconds(seconds[name])}
        row["x reference"] = str(ratio(seconds["stacked (reference)"], seconds[name]))
        row["% of an update"] = str(ratio(seconds[name], seconds["update"], 100.0))
        row["KB per transition"] = _kilobytes(name)
        rows.append(row)
    notes = (
        f"{BATCH} transitions of {STACK} + {STACK} frames {FRAME}, out of {FILLED}; an update is simsr+pamd, joint, at "
        "paper scale.",
        "KB per transition: forecast for a million transitions.",
        "not cached: the file was dropped from the system's cache; page by page: read from a plain memory map.",
        f"The replays contain {EPISODE} frames of cheetah_run with random actions, repeated.",
    )
    return Table.from_records("replay", f"one batch of {BATCH}, {options.threads} threads", rows, notes)


def _sampling(replay: Replay, rng: np.random.Generator) -> Callable[[], object]:
    return lambda: replay.sample(BATCH, rng)


def _cold(directory: Path, rng: np.random.Generator) -> dict[str, Callable[[], object]]:
    """Return runs that sample our replay and a plain memory map. Each follows a step that drops the system's cache."""
    held: list[Any] = []

    def drop_cache() -> None:
        held.clear()
        replay = Replay.open(directory, read_only=True, verify=False)  # This maps the file without reading it.
        handle = os.open(directory / replay.layout.columns["frames"].file, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)
        held.extend([replay, page_by_page(replay, directory, BATCH)])

    return {
        f"{_EMPTIED} 1": drop_cache,
        "frames once, mmap, not cached": lambda: held[0].sample(BATCH, rng),
        f"{_EMPTIED} 2": drop_cache,
        "as many, page by page": lambda: held[1](rng),
    }


def page_by_page(replay: Replay, directory: Path, size: int) -> Callable[[np.random.Generator], object]:
    """Return a function that reads the frames of a batch from a memory map with numpy."""
    layout = replay.layout
    path = directory / layout.columns["frames"].file
    rows = np.asarray(np.memmap(path, np.uint8, "r", shape=(layout.slots, *layout.frame_shape)))
    out = np.empty((size, layout.frame_stack + 1, *layout.frame_shape), np.uint8)

    def run(rng: np.random.Generator) -> None:
        first = rng.integers(0, min(replay.written, layout.slots) - out.shape[1], size)
        np.take(rows, first[:, None] + np.arange(out.shape[1]), axis=0, out=out, mode="clip")

    return run


def _stacked(rng: np.random.Generator) -> Callable[[], object]:
    """Return a sampler of stacked observations and next observations, stored as in typical research code."""
    shape = (FILLED, STACK * FRAME[0], *FRAME[1:])
    obs, next_obs = (rng.integers(0, 256, shape, dtype=np.uint8) for _ in range(2))

    def run() -> None:
        chosen = rng.integers(0, FILLED, BATCH)
        torch.as_tensor(obs[chosen])
        torch.as_tensor(next_obs[chosen])

    return run


def _kilobytes(name: str) -> float:
    if name.startswith("stacked"):
        return round(2 * STACK * int(np.prod(FRAME)) / 1000, 1)
    whole = forecast(ReplayConfig(1_000_000), FRAME, ACTIONS, 0).bytes_per_transition
    return round(float(whole) / 1000, 1)


def _rendered() -> NDArray[np.uint8]:
    """Render frames [EPISODE, C, H, W]."""
    rng = np.random.default_rng(0)
    env = make_env("cheetah_run", size=FRAME[1])
    frames = [env.reset()[1]["frame"].copy()]
    while len(frames) < EPISODE:
        frames.append(env.step(rng.uniform(-1, 1, ACTIONS).astype(np.float32))[4]["frame"].copy())
    env.close()
    return np.stack(frames)


def _filled(directory: Path, storage: StorageName, frames: NDArray[np.uint8]) -> Replay:
    replay = Replay.create(
        ReplayConfig(FILLED + FILLED // EPISODE + 1, storage),
        frame_shape=FRAME,
        action_dim=ACTIONS,
        frame_stack=STACK,
        margin=FILLED,
        directory=directory,
    )
    draw = np.random.default_rng(0)
    for i in range(FILLED):
        frame = frames[i % EPISODE]
        if i % EPISODE == 0:
            replay.start(frame)
        replay.add(draw.uniform(-1, 1, ACTIONS).astype(np.float32), 0.0, False, frame)
    replay.sync()
    return replay
