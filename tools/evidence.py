"""Write the tables of docs/evidence.md from the study: `python tools/evidence.py`.

`python -m studies.verdicts tables` makes the tables.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from studies.verdicts.analysis import HERE, cost  # noqa: E402

PAGE = ROOT / "docs" / "evidence.md"


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """The page with every marked table replaced. A mark is `<!-- table NAME -->` ... `<!-- end -->`."""
    return re.sub(
        r"(<!-- table (\S+) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}{markdown(found[2])}{found[3]}",
        text,
        flags=re.DOTALL,
    )


def markdown(name: str) -> str:
    """A CSV file of the study's tables, or the cost of the runs, as a Markdown table."""
    if name == "cost":
        table = cost()
        heads, rows = table.columns, [[str(cell) for cell in row] for row in table.rows]
    else:
        with (HERE / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            heads, *rows = list(csv.reader(file))
    return "".join(f"| {' | '.join(map(_escaped, row))} |\n" for row in _readable(heads, rows))


def _readable(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The table with its rule. A value with its interval, or a mean with its error, is one column."""
    table: list[list[str]] = [[], [], *([] for _ in rows)]
    for column, head in enumerate(heads):
        if head.endswith((" low", " high", " standard error", " n")):
            continue
        interval = f"{head} low" in heads
        mean = head.removesuffix(" mean")
        table[0].append(mean.replace(" + gaussian noise (8k)", "").replace("state:", "").replace(" (4k)", ""))
        table[1].append("---")
        for cells, row in zip(table[2:], rows, strict=True):
            value = _number(row[column])
            if interval and value:
                value += f" [{_number(row[column + 1])}, {_number(row[column + 2])}]"
            elif mean != head and row[column + 1]:
                value += f" ± {_number(row[column + 1])}"
            cells.append(value)
    return table


def _number(cell: str) -> str:
    """Round a number: whole from 10 on, else two decimals. Text that is not a number is not rounded."""
    try:
        value = float(cell)
    except ValueError:
        return cell.removesuffix(" (paper fidelity)")
    if value == int(value):
        return str(int(value))
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2f}"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


if __name__ == "__main__":
    main()
