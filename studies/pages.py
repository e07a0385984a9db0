"""Fill the tables in the pages of docs/ from the tables of the studies."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

__all__ = ["PAGES", "fill_pages", "filled"]

HERE = Path(__file__).parent
PAGES = tuple(page for page in sorted((HERE.parent / "docs").rglob("*.md")) if "<!-- table " in page.read_text("utf-8"))


def fill_pages() -> None:
    """Write every marked table of every page anew."""
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """The page with every marked table replaced. A mark is `<!-- table STUDY/NAME -->` ... `<!-- end -->`."""
    return re.sub(
        r"(<!-- table (\S+) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}{_markdown(found[2])}{found[3]}",
        text,
        flags=re.DOTALL,
    )


def _markdown(name: str) -> str:
    """Return studies/STUDY/tables/NAME.csv as a Markdown table."""
    study, _, table = name.partition("/")
    with (HERE / study / "tables" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
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
    """Round a number: whole from 10 on, two digits below 0.1, else two decimals. Other text stays as it is."""
    try:
        value = float(cell)
    except ValueError:
        # A CSV file quotes text that a spreadsheet would evaluate.
        return cell.removeprefix("'").removesuffix(" (paper fidelity)")
    if value == int(value):
        return str(int(value))
    if abs(value) < 0.1:
        return f"{value:.2g}"
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2f}"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")
