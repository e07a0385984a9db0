"""Results that come one by one and survive an interruption: a file of JSON lines, or memory alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pamd.errors import ConfigError

__all__ = ["Ledger"]

Row = dict[str, Any]


class Ledger:
    """Rows under keys. The first line holds the settings: rows of other settings are never mixed in."""

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        self._path = path
        self._rows: dict[str, Row] = {}
        # As JSON gives them back: a tuple and a list are the same settings.
        header = json.loads(json.dumps({"settings": settings}))
        if path is None:
            return
        if path.is_file() and (lines := _whole_lines(path)):
            self._check(header, json.loads(lines[0]))
            self._rows = {row["key"]: row["row"] for row in map(json.loads, lines[1:])}
            # A line that was being written when the process died is dropped, not continued.
            path.write_text("".join(f"{line}\n" for line in lines))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(header) + "\n")

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def __getitem__(self, key: str) -> Row:
        return self._rows[key]

    def add(self, key: str, row: Row) -> None:
        """Keep a row, on disk as well."""
        self._rows[key] = row
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps({"key": key, "row": row}) + "\n")

    def rows(self) -> list[Row]:
        """All rows, in the order in which they came."""
        return list(self._rows.values())

    def _check(self, wanted: Row, found: Row) -> None:
        if wanted == found:
            return
        old, new = found.get("settings", {}), wanted["settings"]
        differ = [f"{key} {old.get(key)!r} against {new.get(key)!r}" for key in new if old.get(key) != new.get(key)]
        raise ConfigError(
            f"{self._path} holds results of other settings ({'; '.join(differ) or 'another version'});"
            " choose another --out, or remove it"
        )


def _whole_lines(path: Path) -> list[str]:
    return [line for line in path.read_text().split("\n")[:-1] if line]
