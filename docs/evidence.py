"""Write the tables of docs/evidence.md anew from the runs in results/verdicts: `python docs/evidence.py`.

`pamd reproduce verdicts --artefact-only --runs results/verdicts --out results/verdicts/tables` makes them first.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
TABLES = HERE.parent / "results" / "verdicts" / "tables"


def main() -> None:
    page = HERE / "evidence.md"
    page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """The page with every marked table replaced. A mark is `<!-- table NAME -->` ... `<!-- end -->`."""
    return re.sub(
        r"(<!-- table (\S+) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}{markdown(found[2])}{found[3]}",
        text,
        flags=re.DOTALL,
    )


def markdown(name: str) -> str:
    """A CSV file of results/verdicts/tables as a Markdown table."""
    with (TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        heads, *rows = list(csv.reader(file))
    return "".join(f"| {' | '.join(map(_escaped, row))} |\n" for row in (heads, _rule(heads), *rows))


def _rule(heads: Sequence[str]) -> list[str]:
    return ["---"] * len(heads)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


if __name__ == "__main__":
    main()
