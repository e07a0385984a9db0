"""The logs of a run: JSON lines that a resumed run continues byte for byte.

train.jsonl and eval.jsonl contain only values that the config determines. All wall-clock times are in timing.jsonl. A
checkpoint stores the length and digest of each file, so that a resume can verify the rows and continue after them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from pamd import atomic_io
from pamd.errors import ResourceError, RunError
from pamd.runs import files
from pamd.schema import LARGEST_RETURN

LOGS = ("train", "eval", "timing")

Row = dict[str, Any]
Mirror = Callable[[str, Mapping[str, Any]], None]
"""Receives the name of a log and each row that is written to it."""

_TAIL = 16384
"""The bytes at the end of a log that are read to find its last row."""
_MAX_LENGTH = 2**24
"""The most bytes of a row, 16 MB: nearly a million returns. A row usually has about 1 kB."""
_LARGEST_COUNT = 2**53
"""The largest count that a floating-point number represents exactly."""
_COLLAPSED_RANK = 2.0
"""The effective rank below which the latents of a batch nearly lie on a line."""
_NUMBER = int | float
_OUT_OF_REACH = 0.1
"""The share of pairs with unreachable targets above which the user is warned."""


class Log(NamedTuple):
    """The rows of a JSON Lines file."""

    rows: list[Row]
    notice: str
    """A notice for the reader of the report; "" if the file is complete."""
    unconfirmed: int = 0
    """The bytes after the newest checkpoint, which were dropped."""


def read_log(path: Path, entry: Mapping[str, Any] | None = None) -> Log:
    """Read a JSON Lines file whose last line may be incomplete. A missing file has no rows.

    An incomplete last line is dropped with a notice, because the run may be active. Any other damage is an error.
    `entry` holds the log's length and digest at the newest checkpoint. Rows that do not match it are an error, and
    later rows are dropped with a notice: nothing confirms them, and a resume writes them again.
    """
    content, after = _content(path, entry)
    *lines, rest = content.split(b"\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(files.parse_json(line))
        except ValueError as error:
            raise RunError(f"{path}, line {number} is damaged: {error}") from None
    if after:
        return Log(
            rows, f"{path.name}: rows after the newest checkpoint were dropped; nothing confirms them", len(after)
        )
    return Log(rows, f"{path.name}: the last line is incomplete and was dropped" if rest else "")


def unconfirmed_bytes(path: Path, entry: Mapping[str, Any]) -> int:
    """Return the number of bytes after a checkpoint, without parsing any row. Raises RunError as `read_log` does."""
    return len(_content(path, entry)[1])


def _content(path: Path, entry: Mapping[str, Any] | None) -> tuple[bytes, bytes]:
    """Return the content of a log up to the checkpoint of `entry`, and the rest."""
    refuse_long_rows(path)
    try:
        content = files.read(path.parent, path.name)
    except FileNotFoundError:
        if entry is not None and entry["bytes"]:
            raise RunError(f"{path} is missing: it was deleted") from None
        return b"", b""
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error}") from None
    return (content, b"") if entry is None else _split(path, content, entry)


def read_evaluations(path: Path, entry: Mapping[str, Any] | None = None) -> Log:
    """Read eval.jsonl. Raises RunError if a row is not an evaluation or rows are out of order."""
    log, before = read_log(path, entry), -1
    for number, row in enumerate(log.rows, start=1):
        where = f"{path}, line {number}"
        _check_counts(row, ("decisions", "frames", "updates"), where)
        _check_returns(row, where)
        if row["decisions"] <= before:
            raise RunError(f"{where}: decisions {row['decisions']} come after {before}")
        before = row["decisions"]
    return log


def read_timing(path: Path, entry: Mapping[str, Any] | None = None) -> Log:
    """Read timing.jsonl. Raises RunError if a row has no valid time."""
    log = read_log(path, entry)
    for number, row in enumerate(log.rows, start=1):
        where = f"{path}, line {number}"
        _check_counts(row, ("decisions",), where)
        if not _is_number(row.get("seconds")):
            raise RunError(f"{where}: seconds must be a number, got {row.get('seconds')!r}")
    return log


def meter_warnings(meters: Mapping[str, Any]) -> list[str]:
    """Return warnings about the meters of a log row that the user should act on. The first word is their kind."""
    sentences = []
    rank, missed = _meter(meters, "effective_rank"), _meter(meters, "reach_missed")
    if rank is not None and rank < _COLLAPSED_RANK:
        sentences.append(
            f"collapse: the latents of a batch have effective rank {rank:.2f}; "
            "the encoder no longer distinguishes states"
        )
    largest = _meter(meters, "reach_largest") if missed is not None and missed > _OUT_OF_REACH else None
    if missed is not None and largest is not None:
        sentences.append(
            f"reach: {100 * missed:.0f}% of the targets exceed {largest:.3g}, the "
            f"largest value of this distance on this encoder's latents, so the regression saturates; "
            f"{_reach_advice(largest, _meter(meters, 'reach_fixed_point'))}"
        )
    return sentences


def _meter(meters: Mapping[str, Any], name: str) -> float | None:
    """Return a meter if it is a number. A row of a file may hold anything."""
    value = meters.get(name)
    return value if _is_number(value) else None


def _reach_advice(largest: float, bound: float | None) -> str:
    """Return what helps against targets out of reach. `bound` is the largest target that rewards explain."""
    if bound is not None and bound <= largest:  # A smaller reward weight or a larger latent space would not help.
        return (
            f"the rewards of a batch explain targets of at most {bound:.3g}; the rest comes from next latents that the "
            "latent model predicts outside of the latent space"
        )
    return (
        "a smaller reward weight c_R (--set method.metric.operator.c_R=1-gamma) lowers the targets; latent space ball "
        "(--set method.latent_space=ball) makes the latents large enough for them"
    )


def read_warnings(run: Path) -> dict[str, str]:
    """Return the first warning of each kind in the logs of a run, with its decision: {"reach": "at decision ..."}."""
    first: dict[str, str] = {}
    for name in ("train", "timing"):
        path = run / f"{name}.jsonl"
        try:
            where = str(path)
            for row in read_log(path).rows:
                _check_counts(row, ("decisions",), where)
                for sentence in [*meter_warnings(row), *filter(None, [row.get("warning")])]:
                    kind, _, rest = str(files.printable(str(sentence))).partition(": ")
                    first.setdefault(kind, f"at decision {row['decisions']:,}: {rest}")
        except (RunError, KeyError, TypeError, ValueError) as error:
            first.setdefault(name, f"the warnings of {path.name} cannot be read: {error}")
    return first


def newest_row(path: Path) -> Row:
    """Return the last complete row of a JSON Lines file, or {} if there is none. Only the end of the file is read."""
    try:
        with atomic_io.open_file(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            *lines, _ = file.read().split(b"\n")
        return dict(json.loads(lines[-1]))
    except (OSError, ValueError, IndexError, TypeError, RecursionError):
        return {}


def refuse_long_rows(path: Path) -> None:
    """Raise RunError if a line is longer than any row. Call this before the whole file is read into memory."""
    with suppress(OSError), atomic_io.open_file(path, "rb") as file:  # whoever reads the file reports the error
        if os.fstat(file.fileno()).st_size <= _MAX_LENGTH:
            return
        for number, line in enumerate(iter(lambda: file.readline(_MAX_LENGTH + 1), b""), start=1):
            if len(line) > _MAX_LENGTH:
                raise RunError(
                    f"{path}, line {number} is damaged: a row has at most {_MAX_LENGTH:,} bytes, it has more"
                )


def damaged_rows(content: bytes) -> list[int]:
    """Return the numbers, from 1, of rows that are not JSON objects. An unfinished last row is one of them."""
    *lines, rest = content.split(b"\n")
    numbers = [number for number, line in enumerate(lines, start=1) if not _is_object(line)]
    return [*numbers, len(lines) + 1] if rest else numbers


def split_log(path: Path, entry: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the rows up to a checkpoint and the rest. Raises RunError if the rows do not match `entry`.

    `entry` holds the log's length and digest at the checkpoint.
    """
    refuse_long_rows(path)
    with convert_errors(path):
        content = atomic_io.read(path)
    return _split(path, content, entry)


def _split(path: Path, content: bytes, entry: Mapping[str, Any]) -> tuple[bytes, bytes]:
    length = entry["bytes"]
    if len(content) < length:
        missing = length - len(content)
        raise RunError(f"{path} was edited or damaged: {missing} of the {length} bytes at the checkpoint are missing")
    rows = content[:length]
    if hashlib.sha256(rows).hexdigest() != entry["sha256"]:
        raise RunError(f"{path} was edited or damaged: its first {length} bytes have changed since they were written")
    return rows, content[length:]


class Logs:
    """Appends rows to the logs. `state` and `restore` make them part of a checkpoint."""

    def __init__(self, run: Path, mirrors: Sequence[Mirror] = ()) -> None:
        self._paths = {name: run / f"{name}.jsonl" for name in LOGS}
        self._lengths = dict.fromkeys(LOGS, 0)
        self._digests = {name: hashlib.sha256() for name in LOGS}
        self._mirrors = mirrors

    def begin(self) -> None:
        """Create empty log files."""
        for path in self._paths.values():
            with convert_errors(path):
                atomic_io.write(path, b"")

    def write(self, name: str, row: Mapping[str, Any]) -> None:
        """Append a row, which includes the budget, to train, eval or timing."""
        data = (json.dumps(row) + "\n").encode()
        with convert_errors(self._paths[name]):
            atomic_io.append(self._paths[name], data)
        self._lengths[name] += len(data)
        self._digests[name].update(data)
        for mirror in self._mirrors:
            mirror(name, row)

    def state(self) -> dict[str, dict[str, Any]]:
        """Sync all files to disk and return their lengths and digests."""
        for name, path in self._paths.items():
            with convert_errors(path):
                length, wanted = atomic_io.sync(path), self._lengths[name]
            if length != wanted:
                raise RunError(f"{path} has {length} bytes, but {wanted} were written: another process changed it")
        return {name: {"bytes": self._lengths[name], "sha256": self._digests[name].hexdigest()} for name in LOGS}

    def restore(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Truncate each file to its length at a checkpoint. Raises RunError if the earlier content has changed."""
        for name, path in self._paths.items():
            rows, _ = split_log(path, state[name])
            with convert_errors(path):
                os.truncate(path, len(rows))
            self._lengths[name], self._digests[name] = len(rows), hashlib.sha256(rows)


@contextmanager
def convert_errors(path: Path) -> Iterator[None]:
    """Convert an OSError for `path`: a missing file to a RunError, all others to a ResourceError."""
    try:
        yield
    except FileNotFoundError:
        raise RunError(f"{path} is missing: it was deleted") from None
    except OSError as error:
        raise ResourceError(f"cannot use {path}: {error}") from None


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _check_counts(row: object, names: Sequence[str], where: str) -> None:
    if not isinstance(row, dict):
        raise RunError(f"{where} must be a record, got {row!r}")
    for name in names:
        value = row.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST_COUNT:
            raise RunError(f"{where}: {name} must be a whole number of at least 0, got {value!r}")


def _check_returns(row: Mapping[str, Any], where: str) -> None:
    others = row.get("elsewhere", {})
    if not isinstance(others, dict) or not all(isinstance(other, dict) for other in others.values()):
        raise RunError(f"{where}: elsewhere must be records, got {others!r}")
    for background, other in others.items():
        _check_returns({**other, "elsewhere": {}}, f"{where}, elsewhere {background}")
    for name, fewest in (("returns", 1), ("unseen_returns", 0)):
        values = row.get(name, [])
        if not isinstance(values, list) or len(values) < fewest or not all(map(_is_number, values)):
            raise RunError(f"{where}: {name} must be finite numbers, got {values!r}")
        successes = row.get(name.replace("returns", "successes"), [])
        if not isinstance(successes, list) or not all(isinstance(value, bool) for value in successes):
            raise RunError(f"{where}: successes must be true or false for each episode, got {successes!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, _NUMBER) and not isinstance(value, bool) and abs(value) <= LARGEST_RETURN
