"""A table, as HTML, CSV and LaTeX."""

from __future__ import annotations

import csv
import html
import io
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Table", "counted"]

_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"},
    **{"±": r"$\pm$", "≈": r"$\approx$", "—": "--", "[": "{[}", "]": "{]}"},
    **{"<": "$<$", ">": "$>$", "≥": r"$\geq$"},
}


_LONG = 30
"""A cell with more characters may be broken into lines."""


@dataclass(frozen=True)
class Table:
    """Text in rows and columns; `notes` say what a reader must know to read it right."""

    name: str
    """Of its files."""
    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    numbers: int = 1
    """The first column that LaTeX sets to the right."""

    def html(self) -> str:
        head = "".join(f"<th scope=col>{html.escape(column)}</th>" for column in self.columns)
        body = "".join(f"<tr>{''.join(_cell(text) for text in row)}</tr>" for row in self.rows)
        notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in self.notes)
        caption = f"<caption>{html.escape(self.title)}</caption>"
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        # Focusable, so that a table wider than the screen can be moved with the keyboard too.
        return f'<div class=wide tabindex=0 role=region aria-label="{html.escape(self.title)}">{table}</div>{notes}'

    def csv(self) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
        return text.getvalue()

    def latex(self) -> str:
        """A booktabs table."""
        kinds = "l" * self.numbers + "r" * (len(self.columns) - self.numbers)
        lines = [" & ".join(_latex(cell) for cell in row) + r" \\" for row in [self.columns, *self.rows]]
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

    def write(self, directory: Path) -> list[Path]:
        """`name`.csv and `name`.tex in `directory`."""
        directory.mkdir(parents=True, exist_ok=True)
        written = []
        for suffix, text in ((".csv", self.csv()), (".tex", self.latex())):
            path = directory / f"{self.name}{suffix}"
            path.write_text(text, encoding="utf-8")
            written.append(path)
        return written


def counted(number: int, noun: str) -> str:
    """1 run, 2 runs."""
    return f"{number} {noun}" + ("s" if number != 1 else "")


def _cell(text: str) -> str:
    kind = " class=long" if len(text) > _LONG else ""
    return f"<td{kind}>{html.escape(text)}</td>"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
