"""Read the logs of a run. An incomplete last line is dropped with a notice. Any other damage is an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pamd.errors import RunError
from pamd.report import files
from pamd.report.text import parse_json, printable
from pamd.table import counted

__all__ = ["Log", "read_evaluations", "read_log", "read_repairs", "read_timing"]

Row = dict[str, Any]

_LARGEST_COUNT = 2**53
"""The largest count that a floating-point number represents exactly."""
_LARGEST = 1e30
"""The largest valid return. Sums and squares of smaller values are finite."""


class Log(NamedTuple):
    """The rows of a JSON Lines file."""

    rows: list[Row]
    notice: str
    """A notice for the reader of the report; "" if the file is complete."""


def read_log(path: Path) -> Log:
    """Read a JSON Lines file whose last line may be incomplete. A missing file has no rows."""
    try:
        *lines, rest = files.read(path.parent, path.name).split(b"\n")
    except FileNotFoundError:
        return Log([], "")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error}") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(parse_json(line))
        except ValueError as error:
            raise RunError(f"{path}, line {number} is damaged: {error}") from None
    return Log(rows, f"{path.name}: the last line is incomplete and was dropped" if rest else "")


def read_evaluations(path: Path) -> Log:
    """Read eval.jsonl. Raises RunError if a row is not an evaluation or rows are out of order."""
    log, before = read_log(path), -1
    for number, row in enumerate(log.rows, start=1):
        where = f"{path}, line {number}"
        _check_counts(row, ("decisions", "frames", "updates"), where)
        _check_returns(row, where)
        if row["decisions"] <= before:
            raise RunError(f"{where}: decisions {row['decisions']} come after {before}")
        before = row["decisions"]
    return log


def read_timing(path: Path) -> Log:
    """Read timing.jsonl. Raises RunError if a row has no valid time."""
    log = read_log(path)
    for number, row in enumerate(log.rows, start=1):
        where = f"{path}, line {number}"
        _check_counts(row, ("decisions",), where)
        if not _is_number(row.get("seconds")):
            raise RunError(f"{where}: seconds must be a number, got {row.get('seconds')!r}")
    return log


def read_repairs(path: Path) -> list[str]:
    """Return the repairs in repairs.jsonl as notices. If this file is damaged, that is also only a notice."""
    try:
        log = read_log(path)
    except RunError as error:
        return [f"a repair dropped rows of its logs, but the record is incomplete: {error}"]
    notices = [log.notice] if log.notice else []
    for row in log.rows:
        known = isinstance(row, dict) and isinstance(row.get("dropped_rows"), list) and isinstance(row.get("file"), str)
        what = f"{counted(len(row['dropped_rows']), 'damaged row')} of {printable(row['file'])}" if known else "rows"
        notices.append(f"a repair dropped {what} (see {path.name})")
    return notices


def _check_counts(row: object, names: Sequence[str], where: str) -> None:
    if not isinstance(row, dict):
        raise RunError(f"{where} must be a record, got {row!r}")
    for name in names:
        value = row.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST_COUNT:
            raise RunError(f"{where}: {name} must be a whole number of at least 0, got {value!r}")


def _check_returns(row: Mapping[str, Any], where: str) -> None:
    for name, fewest in (("returns", 1), ("unseen_returns", 0)):
        values = row.get(name, [])
        if not isinstance(values, list) or len(values) < fewest or not all(map(_is_number, values)):
            raise RunError(f"{where}: {name} must be finite numbers, got {values!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
