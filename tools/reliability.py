"""Write the tables of docs/reliability.md anew from results/bench: `python tools/reliability.py`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS.parent / "results" / "bench"
PAGE = DOCS / "reliability.md"


def page() -> str:
    """The page with its tables as the results have them."""
    text = PAGE.read_text()
    for name, table in (("kills", plain), ("sweeps", plain), ("mutations", mutations), ("soak", plain)):
        file = RESULTS / f"{name}.json"
        written = "\n".join(table(json.loads(file.read_text()))) if file.exists() else "Not measured yet."
        marks = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        text = re.sub(marks, lambda found, written=written: f"{found[1]}{written}\n{found[2]}", text, flags=re.DOTALL)
    return text


def plain(measured: dict[str, Any]) -> list[str]:
    return [*_rows(measured["rows"]), "", *_notes(measured)]


def mutations(measured: dict[str, Any]) -> list[str]:
    """Damages as a matrix of files; the other mutations one by one, with what the command said."""
    rows = measured["rows"]
    files = [file for file in dict.fromkeys(row["file"] for row in rows) if sum(r["file"] == file for r in rows) > 11]
    damages = [row["mutation"] for row in rows[:12]]
    outcomes = {(row["file"], row["mutation"]): row["outcome"] for row in rows}
    matrix = [{"file": f"`{file}`", **{one: outcomes[file, one] for one in damages}} for file in files]
    others = [row for row in rows if row["mutation"] not in damages or row["file"] not in files]
    listed = [
        {
            "what": f"`{row['file']}`",
            "mutation": _cell(row["mutation"]),
            "outcome": row["outcome"],
            "said": _cell(row["said"]),
        }
        for row in others
    ]
    return [*_rows(matrix), "", *_rows(listed), "", *_notes(measured)]


def _rows(records: Sequence[dict[str, Any]]) -> list[str]:
    heads = list(records[0])
    lines = [heads, ["---"] * len(heads), *([_number(record[head]) for head in heads] for record in records)]
    return [f"| {' | '.join(line)} |" for line in lines]


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _cell(text: str, longest: int = 110) -> str:
    short = text if len(text) <= longest else text[: longest - 1] + "…"
    return short.replace("|", "\\|").replace("<", "&lt;")


def _notes(measured: dict[str, Any]) -> list[str]:
    machine = ", ".join(f"{key} {value}" for key, value in measured["machine"].items() if value is not None)
    return [*(f"- {note}" for note in measured["notes"]), f"- {machine}"]


if __name__ == "__main__":
    PAGE.write_text(page())
