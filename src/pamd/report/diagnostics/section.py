"""A section of the report page as plain data: title, paragraphs, tables and figures."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pamd import atomic_io
from pamd.errors import RunError
from pamd.runs.files import parse_json, printable
from pamd.table import Table


@dataclass(frozen=True)
class Picture:
    file: str
    """The file name without suffix. An .svg and a .png are in the directory of section.json."""
    caption: str


@dataclass(frozen=True)
class Section:
    title: str
    paragraphs: list[str]
    tables: list[Table]
    figures: list[Picture]

    def write(self, directory: Path) -> Path:
        path = directory / "section.json"
        atomic_io.replace(path, (json.dumps(dataclasses.asdict(self), indent=1) + "\n").encode())
        return path

    def text(self) -> str:
        """Return the title, paragraphs and tables as plain text."""
        lines = [self.title, "", *self.paragraphs]
        for table in self.tables:
            lines += ["", table.title, table.text()]
        return "\n".join(lines)


def parse_section(text: bytes, where: str) -> Section:
    """Parse a section.json in the directory `where`. Raises RunError if it is not valid."""
    try:
        data = printable(parse_json(text))
        tables, figures = [_table(table) for table in data["tables"]], [_picture(one) for one in data["figures"]]
        return Section(_text(data["title"]), _texts(data["paragraphs"]), tables, figures)
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{where} has no readable section: {type(error).__name__}: {error}") from None


def _table(data: dict[str, Any]) -> Table:
    columns, rows = _texts(data["columns"]), data["rows"]
    for row in rows:
        if not isinstance(row, list) or len(row) != len(columns) or not all(_is_cell(cell) for cell in row):
            raise ValueError(f"a row must have {len(columns)} texts or numbers, got {row!r}")
    # Earlier versions wrote neither a name nor notes.
    name, notes = _text(data.get("name", "")), _texts(data.get("notes", []))
    return Table(name, _text(data["title"]), columns, rows, tuple(notes))


def _picture(data: dict[str, Any]) -> Picture:
    file = _text(data["file"])
    if "/" in file or file.startswith("."):
        raise ValueError(f"a figure must be named without a directory, got {file!r}")
    return Picture(file, _text(data["caption"]))


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of texts, got {value!r}")
    return [_text(item) for item in value]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a text, got {value!r}")
    return value


def _is_cell(value: Any) -> bool:
    return value is None or isinstance(value, str | float) or (isinstance(value, int) and abs(value) <= 2**63)


def load(directory: Path) -> dict[str, Any]:
    """Read data.json and insert the arrays from arrays.npz."""
    try:
        data = parse_json(atomic_io.read(directory / "data.json"))
        arrays: dict[str, Any] = {}
        if (directory / "arrays.npz").exists():
            with (
                atomic_io.open_file(directory / "arrays.npz", "rb") as data_file,
                np.load(data_file, allow_pickle=False) as file,
            ):
                arrays = {name: file[name] for name in file.files}
        filled = _filled(data, arrays)
        return dict(filled)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{directory} has no readable diagnostic: {type(error).__name__}: {error}") from None


def _filled(value: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        if set(value) == {"array"}:
            return arrays[value["array"]]
        return {key: _filled(item, arrays) for key, item in value.items()}
    return [_filled(item, arrays) for item in value] if isinstance(value, list) else value


def number(value: float | None, digits: int = 3) -> str:
    """Format a number for a table. None means infinity, which JSON does not support."""
    return "∞" if value is None or value == float("inf") else f"{value:.{digits}g}"
