"""How far results lie from their formulas in float64: the table in docs/fidelity.md.

`python tools/fidelity.py` (part of `make docs`) runs these tests and writes the table. In every other run a difference
must not exceed the one in the table, up to a factor of ten for another machine's rounding.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

__all__ = ["FOUND", "PAGE", "ROWS", "documented", "largest_difference", "replaced", "report", "table"]

PAGE = Path(__file__).parents[2] / "docs" / "fidelity.md"

ROWS = {
    "sigma": "standard deviation of the latent models, the loss of `dbc` and its metric target",
    "initialization": "initial weights and biases of transition model and reward decoder",
    "log-probability": "log-probability and action of the squashed Gaussian; losses of critic, actor and temperature",
    "scene": "texels of floor and sky, in levels of 255",
    "video": "pixels of squashed frames, in levels of 255; order of the video's frames",
    "schedule": "turns in the first 3000 updates of actor, target critic and EMA encoder",
    "evaluation": "decisions of the evaluations; the auxiliary term",
    "residual": "initial weights of the encoder, rewards, rows, loss of the training batch",
    "paper": "transition loss on online next latents, loss of `simsr+mlp`, operations of PAMD's branch, budgets",
    "angle": "angle of `mico`",
}
"""The rows of the table, in its order, and what is compared with its formula."""

FOUND: dict[str, float] = {}
"""The largest difference of each row in this process."""

_ROUNDING = 1e-14


def largest_difference(row: str, found: Tensor, formula: ArrayLike) -> float:
    """The largest absolute difference between float64 numbers, reported under the table's `row`."""
    ours, expected = found.detach().numpy(), np.asarray(formula)
    assert ours.dtype == expected.dtype == np.float64, "rounding would hide a difference"
    assert ours.shape == expected.shape
    difference = float(np.abs(ours - expected).max())
    report(row, difference)
    return difference


def report(row: str, difference: float, allowed: dict[str, float] | None = None) -> None:
    """Keep the largest difference of a row. It must not exceed the one in the table, by default that of the page."""
    assert row in ROWS, f"{row} is no row of the table"
    if allowed is None:
        FOUND[row] = max(FOUND.get(row, 0.0), difference)
    limits = documented() if allowed is None else allowed
    if row in limits:
        assert difference <= 10 * limits[row] + _ROUNDING, f"docs/fidelity.md says {limits[row]:.1e} for {row}"


def table(found: dict[str, float]) -> str:
    """The table of all rows."""
    lines = [
        f"| {number} | {what} | {found[row]:.1e} |" if found[row] else f"| {number} | {what} | 0 |"
        for number, (row, what) in enumerate(ROWS.items(), start=1)
    ]
    return "\n".join(["| row | compared with its formula | largest difference |", "|---|---|---|", *lines]) + "\n"


def documented(text: str | None = None) -> dict[str, float]:
    """The differences in the table of a page."""
    page = PAGE.read_text() if text is None else text
    begin, end = _marks("differences")
    body = page.partition(begin)[2].partition(end)[0].splitlines()[2:]
    return {row: float(line.split("|")[3]) for row, line in zip(ROWS, body, strict=True)}


def replaced(page: str, name: str, content: str) -> str:
    """`page` with another table between the marks of the table `name`."""
    begin, end = _marks(name)
    before, rest = page.split(begin)
    return before + begin + content + end + rest.split(end)[1]


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: written by tools/fidelity.py -->\n", f"<!-- end of {name} -->\n"
