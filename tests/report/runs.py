"""Run directories as training writes them, in the present layout, from the configs of the first demo."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from pamd.report.config import parse_config

DEMO = Path(__file__).parent / "first_demo"
(PAMD,) = DEMO.glob("cheetah_run_dbc-det+pamd_s0_*")
(PLAIN,) = DEMO.glob("cheetah_run_dbc-det_s0_*")


def write_run(
    runs: Path,
    method: str = "dbc-det",
    seed: int = 0,
    values: list[float] | None = None,
    *,
    every: int = 1000,
    name: str | None = None,
    timing: bool = True,
    **changes: Any,
) -> Path:
    """A run with one evaluation of two episodes per value, `every` decisions; `changes` are dotted keys with __."""
    values = [0.0, 10.0, 20.0] if values is None else values
    template = (PAMD if "pamd" in method else PLAIN) / "config.json"
    config = parse_config(json.loads(template.read_text()), str(template))
    config |= {"pamd": "0.0.0", "seed": seed, "decisions": 2000, "evaluate_every": every}
    config["method"]["name"] = method
    for key, value in changes.items():
        *parents, leaf = key.split("__")
        branch = config
        for parent in parents:
            branch = branch[parent]
        branch[leaf] = value
    path = runs / (name or f"{config['env']['task']}_{method}_s{seed}_{zlib.crc32(repr((every, changes)).encode())}")
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    repeat = config["env"]["action_repeat"]
    rows = [
        {"decisions": i * every, "frames": i * every * repeat, "updates": i * every, "returns": [v - 1.0, v + 1.0]}
        for i, v in enumerate(values)
    ]
    (path / "eval.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if timing:
        times = [{"decisions": row["decisions"], "seconds": row["decisions"] / 10} for row in rows[1:]]
        (path / "timing.jsonl").write_text("".join(json.dumps(row) + "\n" for row in times))
    return path
