"""How far a result lies from its formula, for the table in docs/fidelity.md (`pytest tests/fidelity -s` prints it)."""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

__all__ = ["largest_difference", "report"]


def largest_difference(row: str, found: Tensor, formula: ArrayLike) -> float:
    """The largest absolute difference between float64 numbers, printed under the name of the table's row."""
    ours, expected = found.detach().numpy(), np.asarray(formula)
    assert ours.dtype == expected.dtype == np.float64, "rounding would hide a difference"
    assert ours.shape == expected.shape
    difference = float(np.abs(ours - expected).max())
    report(row, difference)
    return difference


def report(row: str, difference: float) -> None:
    """Print a row of the table."""
    sys.stdout.write(f"fidelity | {row} | {difference:.1e}\n")
