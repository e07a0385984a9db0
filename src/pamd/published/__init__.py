"""The numbers that the paper reports, with their sources. Numbers that the paper does not report are omitted."""

from __future__ import annotations

import importlib.resources
import json
from dataclasses import dataclass

from pamd.errors import UnknownNameError
from pamd.schema import from_json

__all__ = ["Published", "load", "names"]


@dataclass(frozen=True)
class Published:
    """One number from the paper."""

    task: str
    """The task (`cheetah_run`), or the setting in which a cost was counted (`d=50`)."""
    method: str
    """The name in this package (`simsr+pamd` is the paper's Indep.-coupled+PAMD), or else the name in the paper."""
    mean: float
    error: float | None
    """The number after ±; None if there is none. It is one standard error in figures, and not specified in tables."""
    decisions: int | None
    """The budget in the paper's steps, which are decisions; None if it is not stated or is counted in frames."""
    source: str
    """The label of the table or figure in the paper: `tab:...`, or `read off fig:...`."""
    action_repeat: int | None = None
    """From tab:action-repeat. frames = decisions * action_repeat, and one decision is one update."""
    frames: int | None = None
    """The budget in simulator frames, for methods that the paper quotes from other papers."""
    seeds: int | None = None
    approximate: bool = False
    """Whether the number was read from a figure and is not printed in the paper."""
    video: bool = False
    """Whether videos replace the task's background."""
    quantity: str = "return"
    note: str = ""

    def __str__(self) -> str:
        about = "≈" if self.approximate else ""
        return f"{about}{self.mean:.4g}" + ("" if self.error is None else f" ± {self.error:.4g}")


@dataclass(frozen=True)
class _File:
    rows: list[Published]


def names() -> list[str]:
    """Return the names of the tables and figures that have numbers."""
    folder = importlib.resources.files("pamd.published")
    return sorted(file.name.removesuffix(".json") for file in folder.iterdir() if file.name.endswith(".json"))


def load(name: str) -> list[Published]:
    """Return the numbers of one table or figure, in the paper's order."""
    if name not in names():
        raise UnknownNameError("published table or figure", name, names())
    data = json.loads((importlib.resources.files("pamd.published") / f"{name}.json").read_text("utf-8"))
    shared = data.get("shared", {})
    rows = [{**shared, **row} for row in data["rows"]]
    return from_json(_File, json.dumps({"rows": rows}), f"published {name}").rows
