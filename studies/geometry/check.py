"""Repeat the primary tests of plan.md with scipy: `python studies/geometry/check.py [FILE.parquet]`.

This script shares no code with analysis.py or the package. It reads the texts in the data file itself.
"""

from __future__ import annotations

import collections
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
from scipy import stats

TASKS = ["cartpole_swingup", "finger_spin", "walker_stand", "cheetah_run"]
TESTS: dict[str, list[tuple[int, str]]] = {
    "1": [(+1, "pamd"), (-1, "l2-unit")],
    "2": [(+1, "pamd"), (-1, "released")],
    "3": [(+1, "pamd, d = 8"), (-1, "l2-unit, d = 8"), (-1, "pamd"), (+1, "l2-unit")],
    "4": [(+1, "pamd, projected noise"), (-1, "l2-unit, projected noise")],
}
TESTED = {arm for signed in TESTS.values() for _, arm in signed}
TIMES = 100_000


def results(path: Path) -> dict[str, dict[str, float]]:
    """Return the pairs, difference, interval, p-value and corrected p-value of every test that has data."""
    final: dict[tuple[str, str, int], float] = {}
    floor: dict[str, list[float]] = collections.defaultdict(list)
    for row in pyarrow.parquet.read_table(path).to_pylist():
        config = json.loads(row["config.json"])
        task = config["env"]["task"].removeprefix("state:")
        if config["scale"] != "state" or task not in TASKS:
            continue
        if config["method"]["name"] not in TESTED:
            continue
        evaluations = [json.loads(line) for line in row["eval.jsonl"].splitlines()]
        final[config["method"]["name"], task, config["seed"]] = sum(
            sum(one["returns"]) / len(one["returns"]) for one in evaluations[-2:]
        ) / len(evaluations[-2:])
        for line in row["train.jsonl"].splitlines():
            entry = json.loads(line)
            if entry["kind"] == "episode" and not entry["updates"]:
                floor[task].append(entry["return"])
    score = _scores(final, {task: sum(values) / len(values) for task, values in floor.items()})
    made = {name: _test(signed, score) for name, signed in TESTS.items()}
    done = {name: result for name, result in made.items() if result is not None}
    p_values = sorted((result["p"], name) for name, result in done.items())
    so_far = 0.0
    for rank, (p, name) in enumerate(p_values):
        so_far = max(so_far, min(1.0, p * (len(p_values) - rank)))
        done[name]["corrected"] = so_far
    return done


def _scores(final: dict[tuple[str, str, int], float], floor: dict[str, float]) -> dict[tuple[str, str, int], float]:
    """Normalize: 0 is random play, 1 the best arm of the tests on the same task, latent size and noise."""
    groups: dict[tuple[str, str], dict[str, list[float]]] = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    for (arm, task, _), value in final.items():
        groups[_group(arm), task][arm].append(value)
    top = {key: max(sum(v) / len(v) for v in arms.values()) for key, arms in groups.items()}
    return {
        (arm, task, seed): (value - floor[task]) / (top[_group(arm), task] - floor[task])
        for (arm, task, seed), value in final.items()
    }


def _group(arm: str) -> str:
    match = re.search(r"(d = \d+|projected noise)$", arm)
    return match[1] if match else "d = 50"


def _test(signed: list[tuple[int, str]], score: dict[tuple[str, str, int], float]) -> dict[str, float] | None:
    samples = []
    for task in TASKS:
        seeds = sorted(set.intersection(*({s for a, t, s in score if (a, t) == (arm, task)} for _, arm in signed)))
        samples.append(np.array([sum(sign * score[arm, task, seed] for sign, arm in signed) for seed in seeds]))
    if min(len(sample) for sample in samples) < 2:
        return None
    share = np.concatenate([np.full(len(sample), 1 / len(samples) / len(sample)) for sample in samples])
    both = np.concatenate(samples)

    def weighted(x: Any, y: Any, axis: int = -1) -> Any:
        return ((x - y) * share).sum(axis)

    # Swapping the members of a pair flips the sign of its difference.
    flips = stats.permutation_test(
        (both, np.zeros_like(both)), weighted, permutation_type="samples", alternative="greater",
        n_resamples=TIMES, vectorized=True, rng=np.random.default_rng(1),
    )  # fmt: skip
    # Several samples are resampled independently of each other: the bootstrap is stratified by task.
    interval = stats.bootstrap(
        samples, lambda *drawn, axis=-1: sum(one.mean(axis) for one in drawn) / len(drawn), method="percentile",
        n_resamples=TIMES, vectorized=True, batch=10_000, rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    return {
        "pairs": len(both),
        "difference": float(flips.statistic),
        "low": float(interval.low),
        "high": float(interval.high),
        "p": float(flips.pvalue),
    }


if __name__ == "__main__":
    default = Path(__file__).with_name("runs.parquet")
    sys.stdout.write(json.dumps(results(Path(sys.argv[1]) if len(sys.argv) > 1 else default), indent=2) + "\n")
