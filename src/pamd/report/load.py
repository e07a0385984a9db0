"""What a run wrote about itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pamd.errors import RunError

__all__ = ["Curve", "load_curve", "read_rows"]


@dataclass(frozen=True)
class Curve:
    """The evaluations of one run, N of them."""

    task: str
    method: str
    fidelity: str
    seed: int
    decisions: list[int]
    """[N]"""
    frames: list[int]
    """[N]"""
    updates: list[int]
    """[N]"""
    returns: list[list[float]]
    """[N][episodes]"""
    path: Path


def load_curve(path: Path) -> Curve:
    """The learning curve of the run in `path`."""
    try:
        config = json.loads((path / "config.json").read_text())
        method = config["method"]
        distractor = config["env"].get("distractor")
        rows = read_rows(path / "eval.jsonl")
        return Curve(
            # A task before another background is another task: the two must never share a curve.
            task=config["env"]["task"] + (f" + {distractor['name']}" if distractor else ""),
            method=method["name"],
            fidelity=method["fidelity"],
            seed=config["seed"],
            decisions=[row["decisions"] for row in rows],
            frames=[row["frames"] for row in rows],
            updates=[row["updates"] for row in rows],
            returns=[row["returns"] for row in rows],
            path=path,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is no readable run: {type(error).__name__}: {error}") from None


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON-lines file; a last line that is still being written is left out."""
    if not path.is_file():
        return []
    lines = path.read_text().split("\n")
    return [json.loads(line) for line in lines[:-1] if line]
