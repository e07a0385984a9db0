"""Tables that show the same rows in the HTML page, CSV, LaTeX, the terminal and JSON files."""

from __future__ import annotations

import csv
import html
import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NONE = "—"
"""The text of a missing value."""

_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"},
    **{"±": r"$\pm$", "≈": r"$\approx$", "—": "--", "[": "{[}", "]": "{]}"},
    **{"<": "$<$", ">": "$>$", "≥": r"$\geq$", "*": "{*}"},
}

_FORMULA = ("=", "+", "-", "@", "\t", "\n")


_NAME = 30
"""The length above which a name may be wrapped."""


class Quantity(ABC):
    """A cell that holds several numbers, for example a mean and its standard error."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the human-readable form."""

    @abstractmethod
    def parts(self) -> Mapping[str, float | None]:
        """Return the numbers by name, for CSV. Each becomes a column. The part "" keeps the name of the column."""


Value = str | int | float | Quantity | None


@dataclass(frozen=True)
class Table:
    """Rows of values by column. `notes` contain information that a reader must know."""

    name: str
    """The name of the table's files, without the suffix."""
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    notes: Sequence[str] = ()

    @classmethod
    def from_records(
        cls, name: str, title: str, records: Sequence[Mapping[str, Any]], notes: Sequence[str] = ()
    ) -> Table:
        """Create a table from records that all have the same keys."""
        columns = list(records[0]) if records else []
        return cls(name, title, columns, [[record[column] for column in columns] for record in records], notes)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as JSON objects. A quantity is converted to its readable form."""
        rows = [[str(value) if isinstance(value, Quantity) else value for value in row] for row in self.rows]
        return [dict(zip(self.columns, row, strict=True)) for row in rows]

    def html(self) -> str:
        kinds = [" class=number" if numeric else "" for numeric in self._numeric()]
        heads = zip(self.columns, kinds, strict=True)
        head = "".join(f"<th scope=col{kind}>{html.escape(column)}</th>" for column, kind in heads)
        body = "".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in self.rows)
        notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in self.notes)
        caption = f"<caption>{html.escape(self.title)}</caption>"
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        # The element is focusable, so that the keyboard can scroll a table that is wider than the screen.
        return f'<div class=wide tabindex=0 role=region aria-label="{html.escape(self.title)}">{table}</div>{notes}'

    def csv(self) -> str:
        """Return CSV text. A quantity has a column for each of its parts. Text that looks like a formula is quoted."""
        heads: list[str] = []
        columns: list[list[str]] = []
        for name, cells in zip(self.columns, self._cells(), strict=True):
            found = [cell.parts() if isinstance(cell, Quantity) else {"": cell} for cell in cells if cell is not None]
            for part in dict.fromkeys(part for parts in found for part in parts) or [""]:
                heads.append(_no_formula(f"{name} {part}".strip()))
                columns.append([csv_cell(_part(cell, part)) for cell in cells])
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([heads, *zip(*columns, strict=True)])
        return text.getvalue()

    def latex(self) -> str:
        """Return a LaTeX table with booktabs."""
        kinds = "".join("r" if numeric else "l" for numeric in self._numeric())
        lines = [" & ".join(map(_latex, row)) + r" \\" for row in self._readable_rows()]
        caption = _latex(" ".join([self.title.rstrip(".") + ".", *self.notes]))
        return "\n".join(
            [
                r"% needs \usepackage{booktabs}",
                r"\begin{table}",
                r"\centering",
                rf"\begin{{tabular}}{{{kinds}}}",
                r"\toprule",
                lines[0],
                r"\midrule",
                *lines[1:],
                r"\bottomrule",
                r"\end{tabular}",
                rf"\caption{{{caption}}}",
                rf"\label{{tab:{self.name}}}",
                r"\end{table}",
                "",
            ]
        )

    def text(self) -> str:
        """Return aligned lines for a terminal, starting with the column names. Title and notes are omitted."""
        rows, numeric = self._readable_rows(), self._numeric()
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        lines = []
        for row in rows:
            cells = zip(row, widths, numeric, strict=True)
            lines.append("  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells))
        return "\n".join(line.rstrip() for line in lines)

    def write(self, directory: Path) -> list[Path]:
        """Write `name`.csv and `name`.tex to `directory` and return their paths."""
        directory.mkdir(parents=True, exist_ok=True)
        written = []
        for suffix, text in ((".csv", self.csv()), (".tex", self.latex())):
            path = directory / f"{self.name}{suffix}"
            path.write_text(text, encoding="utf-8")
            written.append(path)
        return written

    def _cells(self) -> list[list[Value]]:
        """Return the cells of each column."""
        return [[row[index] for row in self.rows] for index in range(len(self.columns))]

    def _numeric(self) -> list[bool]:
        """Return, for each column, whether it contains no text. Such columns are right-aligned."""
        return [not any(isinstance(cell, str) for cell in cells) for cells in self._cells()]

    def _readable_rows(self) -> list[list[str]]:
        return [list(self.columns), *([_readable(value) for value in row] for row in self.rows)]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 run, 2 runs."""
    return f"{number} {noun}" + ("s" if number != 1 else "")


def _readable(value: Value) -> str:
    if value is None:
        return NONE
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) and abs(value) >= 1e6 else str(value)


def _part(cell: Value, part: str) -> str | float | None:
    if isinstance(cell, Quantity):
        return cell.parts().get(part)
    return cell if part == "" else None


def csv_cell(value: str | float | None) -> str:
    """Format a cell for CSV. Six digits exceed the precision of a few seeds, and are the same on every machine."""
    if isinstance(value, str):
        return _no_formula(value)
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _no_formula(text: str) -> str:
    """Put a quote before text that begins like a formula, so that spreadsheets do not evaluate it."""
    text = text.replace("\r", "\n")  # csv does not quote "\r", and many readers start a new row there.
    return f"'{text}" if text.startswith(_FORMULA) else text


def _html_cell(value: Value) -> str:
    """Return a table cell. A browser may wrap text, but not numbers or short names."""
    kind = "text" if isinstance(value, str) else "number"
    text = _readable(value)
    if kind == "text" and len(text) <= _NAME and " " not in text:
        kind = "name"
    return f"<td class={kind}>{html.escape(text)}</td>"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
