"""The logs of a run. A half-written last line is left out and noted; any other damage is an error."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pamd.errors import RunError

__all__ = ["Log", "read_evaluations", "read_log", "read_timing"]

Row = dict[str, Any]


class Log(NamedTuple):
    """The rows of a JSON-lines file."""

    rows: list[Row]
    notice: str
    """What a reader of the report should know about the file; "" where it is whole."""


def read_log(path: Path) -> Log:
    """Read a JSON-lines file; a run may still be writing its last line. No file has no rows."""
    if not path.is_file():
        return Log([], "")
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error}") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise RunError(f"{path}, line {number} is damaged: {error}") from None
    return Log(rows, f"{path.name}: the last line is half written and left out" if rest else "")


def read_evaluations(path: Path) -> Log:
    """eval.jsonl; RunError where a row is not an evaluation, or rows are out of order."""
    log, before = read_log(path), -1
    for number, row in enumerate(log.rows, start=1):
        where = f"{path}, line {number}"
        _check_numbers(row, ("decisions", "frames", "updates"), where)
        _check_returns(row, where)
        if row["decisions"] <= before:
            raise RunError(f"{where}: decisions {row['decisions']} come after {before}")
        before = row["decisions"]
    return log


def read_timing(path: Path) -> Log:
    """timing.jsonl; RunError where a row has no clock."""
    log = read_log(path)
    for number, row in enumerate(log.rows, start=1):
        _check_numbers(row, ("decisions", "seconds"), f"{path}, line {number}")
    return log


def _check_numbers(row: object, names: Sequence[str], where: str) -> None:
    if not isinstance(row, dict):
        raise RunError(f"{where} must be a record, got {row!r}")
    for name in names:
        if not _is_number(row.get(name)):
            raise RunError(f"{where}: {name} must be a number, got {row.get(name)!r}")


def _check_returns(row: Mapping[str, Any], where: str) -> None:
    for name, fewest in (("returns", 1), ("unseen_returns", 0)):
        values = row.get(name, [])
        if not isinstance(values, list) or len(values) < fewest or not all(map(_is_number, values)):
            raise RunError(f"{where}: {name} must be finite numbers, got {values!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
