"""A section of the report page, as plain data: title, paragraphs, tables, figures."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pamd.errors import RunError
from pamd.table import Table

__all__ = ["Picture", "Section", "load", "number", "read_section"]


@dataclass(frozen=True)
class Picture:
    file: str
    """The name without its suffix; an .svg and a .png are beside section.json."""
    caption: str


@dataclass(frozen=True)
class Section:
    title: str
    paragraphs: list[str]
    tables: list[Table]
    figures: list[Picture]

    def write(self, directory: Path) -> Path:
        path = directory / "section.json"
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1) + "\n")
        return path

    def text(self) -> str:
        """Paragraphs and tables as plain lines."""
        lines = [self.title, "", *self.paragraphs]
        for table in self.tables:
            lines += ["", table.title, table.text()]
        return "\n".join(lines)


def read_section(directory: Path) -> Section:
    """The section that `draw` wrote in `directory`."""
    try:
        data = json.loads((directory / "section.json").read_text())
        tables, figures = [_table(t) for t in data["tables"]], [Picture(**f) for f in data["figures"]]
        return Section(data["title"], data["paragraphs"], tables, figures)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{directory} has no readable section: {type(error).__name__}: {error}") from None


def _table(data: dict[str, Any]) -> Table:
    # Earlier versions wrote neither a name nor notes.
    return Table(data.get("name", ""), data["title"], data["columns"], data["rows"], tuple(data.get("notes", ())))


def load(directory: Path) -> dict[str, Any]:
    """data.json, with the arrays of arrays.npz in their places."""
    try:
        data = json.loads((directory / "data.json").read_text())
        arrays: dict[str, Any] = {}
        if (directory / "arrays.npz").is_file():
            with np.load(directory / "arrays.npz", allow_pickle=False) as file:
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
    """A short number for a table. None is infinity, which JSON does not have."""
    return "∞" if value is None or value == float("inf") else f"{value:.{digits}g}"
