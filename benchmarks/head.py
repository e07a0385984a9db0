"""`python -m benchmarks.head`: forward and backward of every distance beside the textbook construction of PAMD.

Each repetition runs all contenders in turn, so that a busy machine slows them alike; a row's ratio is the median of
the per-repetition ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import pamd
from benchmarks.dense import dense_measure

DIMENSIONS = (50, 200, 512, 1024)
OPTIONS = {"pamd-block": {50: {"block": 10}, 200: {"block": 10}, 512: {"block": 16}, 1024: {"block": 16}}}


def contender(name: str, d: int, batch: int) -> Callable[[], None]:
    """One update's worth of head: forward, penalty, backward into latents and weights."""
    torch.manual_seed(0)
    dense = name == "dense"
    distance = pamd.distance("pamd" if dense else name, latent_dim=d, **OPTIONS.get(name, {}).get(d, {}))
    z, z_prime, target = torch.randn(batch, d), torch.randn(batch, d), torch.rand(batch)
    generator = torch.Generator().manual_seed(0)

    def run() -> None:
        left, right = z.clone().requires_grad_(), z_prime.clone().requires_grad_()
        distance.zero_grad()
        if dense:
            value, penalty = dense_measure(distance, left, right)
        else:
            value, penalty, _ = distance.measure(left, right, generator)
        goal = target if value.ndim == 1 else target[:, None]
        loss: Tensor = (value - goal).square().mean() + penalty
        loss.backward()

    return run


def measure(d: int, batch: int, repetitions: int) -> list[dict[str, object]]:
    runs = {name: contender(name, d, batch) for name in ["dense", *pamd.DISTANCES.names()]}
    # What pamd costs at d = 200 is the yardstick that the linear-cost variants are held to at 1024.
    runs["pamd at d=200"] = contender("pamd", 200, batch)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for repetition in range(repetitions + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if repetition:  # the first one warms up
                seconds[name].append(time.perf_counter() - start)
    rows = []
    for name, taken in seconds.items():
        row: dict[str, object] = {"d": d, "distance": name, "ms": round(1e3 * statistics.median(taken), 3)}
        for yardstick in ("dense", "pamd at d=200"):
            ratios = [a / b for a, b in zip(seconds[yardstick], taken, strict=True)]
            row[f"{yardstick} / this"] = round(statistics.median(ratios), 2)
        quartiles = statistics.quantiles(taken, n=4)
        row["spread"] = round((quartiles[2] - quartiles[0]) / quartiles[1], 2)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--dimensions", type=int, nargs="+", default=DIMENSIONS)
    parser.add_argument("--json", type=Path, help="write the rows, with a machine stamp, here")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    stamp = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": args.threads,
        "torch": torch.__version__,
        "batch": args.batch,
    }
    print("head: forward + backward,", ", ".join(f"{k} {v}" for k, v in stamp.items()))
    rows = []
    for d in args.dimensions:
        print(f"\n{'d':>5}  {'distance':<18}{'ms':>10}{'dense/this':>12}{'pamd@200/this':>15}{'spread':>8}")
        # The textbook takes seconds, and 8 GB, from 512 on.
        for row in measure(d, args.batch, args.repetitions if d <= 200 else max(3, args.repetitions // 3)):
            ratios = f"{row['dense / this']:>12}{row['pamd at d=200 / this']:>15}"
            print(f"{d:>5}  {row['distance']:<18}{row['ms']:>10}{ratios}{row['spread']:>8}")
            rows.append(row)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps({"stamp": stamp, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
