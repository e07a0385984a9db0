"""A store of partial results that survives interruptions: a JSON-lines file, or memory only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pamd import durable
from pamd.errors import ConfigError

__all__ = ["Ledger"]

Row = dict[str, Any]


class Ledger:
    """Rows by key. The first line of the file holds the settings, so that rows of different settings are never mixed.

    The file is created with the first row.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        self._path = path
        self._rows: dict[str, Row] = {}
        # Compare settings after a JSON round trip, so that tuples and lists are equal.
        self._header: Row = json.loads(json.dumps({"settings": settings}))
        if path is None or not path.is_file():
            return
        header, *rows = _whole_rows(path) or [self._header]
        if rows:
            self._check(header)
            self._rows = {row["key"]: row["row"] for row in rows}
            # Drop an incomplete last line of a killed process.
            durable.replace(path, "".join(json.dumps(row) + "\n" for row in [header, *rows]).encode())
        else:
            path.unlink()

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def __getitem__(self, key: str) -> Row:
        return self._rows[key]

    def add(self, key: str, row: Row) -> None:
        """Store a row, also on disk if there is a path."""
        self._rows[key] = row
        if self._path is None:
            return
        new = [{"key": key, "row": row}] if self._path.is_file() else [self._header, {"key": key, "row": row}]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write("".join(json.dumps(line) + "\n" for line in new))

    def rows(self) -> list[Row]:
        """Return all rows in the order in which they were added."""
        return list(self._rows.values())

    def _check(self, found: Row) -> None:
        if self._header == found:
            return
        old, new = _leaves(found), _leaves(self._header)
        differ = [f"{key} {old.get(key)!r} against {new[key]!r}" for key in new if old.get(key) != new[key]]
        raise ConfigError(
            f"{self._path} contains results of other settings ({'; '.join(differ) or 'another version'});"
            " choose another --out, or remove it"
        )


def _whole_rows(path: Path) -> list[Row]:
    """Return all complete lines."""
    rows = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            rows.append(dict(json.loads(line)))
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"{path}, line {number} is damaged ({error}); fix that line, or remove the file"
            ) from None
    return rows


def _leaves(value: Any, name: str = "") -> dict[str, Any]:
    """Return the leaves of nested dictionaries by their last keys."""
    if not isinstance(value, dict):
        return {name: value}
    return {leaf: found for key, inner in value.items() for leaf, found in _leaves(inner, key).items()}
