"""What the paper reports, as data with its source. Where it gives no number there is none here."""

from __future__ import annotations

import importlib.resources
import json
from dataclasses import dataclass

from pamd.config import from_json
from pamd.errors import UnknownNameError

__all__ = ["Published", "load", "names"]


@dataclass(frozen=True)
class Published:
    """One number of the paper."""

    task: str
    """`cheetah_run`; for a cost, the setting it was counted in (`d=50`)."""
    method: str
    """By the name it has here (`simsr+pamd` is the paper's Indep.-coupled+PAMD), or the paper's own."""
    mean: float
    error: float | None
    """What the paper puts after ±; None if it gives none. In figures it is one standard error; tables do not say."""
    decisions: int | None
    """The budget in the paper's steps, which are decisions; None if it is not stated or counted in frames."""
    source: str
    """A label of the paper: tab:..., or read off fig:..."""
    action_repeat: int | None = None
    """tab:action-repeat; frames = decisions * action_repeat, and one decision is one update."""
    frames: int | None = None
    """The budget of methods that the paper quotes from others, who count simulator frames."""
    seeds: int | None = None
    approximate: bool = False
    """Read off a figure, so not a printed number."""
    video: bool = False
    """With videos in place of the task's background."""
    quantity: str = "return"
    note: str = ""

    def __str__(self) -> str:
        about = "≈" if self.approximate else ""
        return f"{about}{self.mean:.4g}" + ("" if self.error is None else f" ± {self.error:.4g}")


@dataclass(frozen=True)
class _File:
    rows: list[Published]


def names() -> list[str]:
    """The tables and figures that there are numbers of."""
    folder = importlib.resources.files("pamd.published")
    return sorted(file.name.removesuffix(".json") for file in folder.iterdir() if file.name.endswith(".json"))


def load(name: str) -> list[Published]:
    """The numbers of one table or figure, in the paper's order."""
    if name not in names():
        raise UnknownNameError("published table or figure", name, names())
    data = json.loads((importlib.resources.files("pamd.published") / f"{name}.json").read_text("utf-8"))
    shared = data.get("shared", {})
    rows = [{**shared, **row} for row in data["rows"]]
    return from_json(_File, json.dumps({"rows": rows}), f"published {name}").rows
