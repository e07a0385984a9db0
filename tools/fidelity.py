"""Write the tables of docs/fidelity.md anew from tests/fidelity: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.fidelity import difference, floor  # noqa: E402

STATES = 20


def differences() -> str:
    """The largest difference of each row, by running the tests. The page sets no limits while it is written."""
    difference.documented = lambda text=None: {}
    tests = ROOT / "tests" / "fidelity"
    # test_table.py reads the table that is being written.
    if code := pytest.main(["-q", "-p", "no:cacheprovider", f"--ignore={tests / 'test_table.py'}", str(tests)]):
        sys.exit(int(code))
    return difference.table(difference.FOUND)


def floors() -> str:
    """What the blue-pixel rule takes of the floor."""
    lines = ["| share of the floor | stock | released-dbc | its inside |", "|---|---|---|---|"]
    for render in ("standard", "fast"):
        for task in floor.FLOORS:
            stock, released = (floor.shares(task, scene, render, STATES) for scene in ("stock", "released-dbc"))
            numbers = " | ".join(f"{100 * share:.1f}%" for share in (stock.whole, released.whole, released.inside))
            lines.append(f"| {task}, `render={render}` | {numbers} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    page = difference.PAGE.read_text()
    for table, written in (("differences", differences()), ("floors", floors())):
        page = difference.replaced(page, table, written)
    difference.PAGE.write_text(page)
