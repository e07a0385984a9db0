"""`python -m benchmarks.distractors`: what a distracted frame costs beside a clean one.

Each repetition draws the same simulator state once clean and once per preset, in turn, so that a busy machine slows
them alike; a row's ratio is the median of the per-repetition ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import pamd
from pamd.envs.distractors.cache import forecast
from pamd.envs.dmc import ACTION_REPEATS

PRESETS = ("paper-video", "released-video", "easy", "medium", "hard", "noise", "color")


def measure(task: str, size: int, render: str, repetitions: int) -> list[dict[str, object]]:
    names = (None, *PRESETS)
    options = {"size": size, "render": render, "frame_stack": 1}
    envs = {name: pamd.make_env(task, distractor=name, **options) for name in names}
    seconds: dict[str | None, list[float]] = {name: [] for name in names}
    rng = np.random.default_rng(0)
    for env in envs.values():
        env.reset()
    for repetition in range(repetitions + 3):
        action = rng.uniform(-1, 1, envs[None].action_space.shape).astype(np.float32)
        for env in envs.values():
            env.step(action)
        for name, env in envs.items():
            simulator = env.unwrapped.task
            start = time.perf_counter()
            simulator.draw(size)
            if repetition >= 3:  # the first ones warm up
                seconds[name].append(time.perf_counter() - start)
    for env in envs.values():
        env.close()
    rows = []
    for name in names:
        ratios = [mine / clean for mine, clean in zip(seconds[name], seconds[None], strict=True)]
        quartiles = statistics.quantiles(ratios, n=4)
        row: dict[str, object] = {"task": task, "size": size, "render": render, "distractor": name or "clean"}
        row |= {"ms": round(1e3 * statistics.median(seconds[name]), 3), "ratio": round(quartiles[1], 3)}
        rows.append(row | {"ratio_quartiles": [round(quartiles[0], 3), round(quartiles[2], 3)]})
    return rows


def cache(size: int) -> dict[str, object]:
    """What the installed clips take decoded, beside the forecast."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ["PAMD_CACHE"] = directory
        start = time.perf_counter()
        env = pamd.make_env("toy", size=size, distractor="paper-video")
        taken = time.perf_counter() - start
        behind = env.unwrapped.task.config
        clips = len(behind.train) + len(behind.unseen)
        used = sum(path.stat().st_size for path in Path(directory, "clips").iterdir())
    most = forecast(clips, size, behind.frames)
    row = {"size": size, "clips": clips, "forecast_mb": round(most / 1e6, 1), "used_mb": round(used / 1e6, 1)}
    return row | {"decode_seconds": round(taken, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=[*ACTION_REPEATS, "reacher_easy"])
    parser.add_argument("--size", type=int, default=84)
    parser.add_argument("--render", default="fast")
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--json", type=Path, help="write the rows, with a machine stamp, here")
    args = parser.parse_args()
    kept = cache(args.size)
    print(f"clips at {args.size}x{args.size}: " + ", ".join(f"{key} {value}" for key, value in kept.items()))
    print(f"\ndrawing, render {args.render}, {args.size}x{args.size}: milliseconds, and the ratio to the clean frame")
    with tempfile.TemporaryDirectory() as directory:
        os.environ["PAMD_CACHE"] = directory
        rows = []
        for task in args.tasks:
            found = measure(task, args.size, args.render, args.repetitions)
            rows += found
            shown = "".join(f"  {row['distractor']} {row['ratio']}" for row in found[1:])
            print(f"{task:<18}{found[0]['ms']:>7} ms{shown}", flush=True)
    if args.json:
        stamp = {"machine": platform.machine(), "cores": os.cpu_count(), "repetitions": args.repetitions}
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps({"stamp": stamp, "cache": kept, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
