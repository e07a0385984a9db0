"""A campaign: the text files of many runs in one Parquet file, which reports read like a directory of runs.

A row is a run. The column `name` has the name of its directory, and every other column has the content of one file,
unchanged. So `FILE.parquet/RUN` names a run like a directory, and a reader of run directories needs no second parser.
Videos, checkpoints and replays are not part of a campaign.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pamd import atomic_io
from pamd.errors import PamdError, RunError, install_command

FILES = (
    "config.json",
    "status.json",
    "versions.json",
    "eval.jsonl",
    "train.jsonl",
    "timing.jsonl",
)
"""The files of a run that a campaign keeps. A missing file is null."""

_KIND = {b"pamd.campaign": b"1"}
"""The mark of a campaign in the metadata of the schema, with the version of this layout."""
_LARGEST = 2 << 30
"""The largest campaign in bytes, before compression. A small hostile file could otherwise fill the memory."""
_LEVEL = 19
_PAGE = 64 << 20
"""Runs of a campaign resemble each other, so one large page per column compresses three times as well as small ones."""


def write_campaign(runs: Iterable[tuple[str, Mapping[str, bytes]]], path: Path) -> None:
    """Write runs, (name, content of each file), to a Parquet file with zstd compression."""
    pa, pq = _pyarrow()
    rows = sorted(runs, key=lambda run: run[0])
    names = [name for name, _ in rows]
    _check_names(names, path)
    texts = [[_text(name, file, content.get(file)) for name, content in rows] for file in FILES]
    schema = pa.schema([(column, pa.string()) for column in ("name", *FILES)], metadata=_KIND)
    data = io.BytesIO()
    pq.write_table(
        pa.table([names, *texts], schema=schema),
        data,
        compression="zstd",
        compression_level=_LEVEL,
        data_page_size=_PAGE,
        use_dictionary=False,
        write_statistics=False,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_io.replace(path, data.getvalue())


def campaign_runs(path: Path) -> list[Path]:
    """Return `path/NAME` for each run of the campaign `path`. Raises RunError if it is not a campaign."""
    return [path / name for name in _positions(*_key(path))]


def is_packed(run: Path) -> bool:
    """Return whether `run` names a run inside a campaign: its parent is a file."""
    return run.parent.is_file()


def read_packed(run: Path, file: str) -> bytes:
    """Return a file of a run inside a campaign. Raises FileNotFoundError if there is none."""
    key = _key(run.parent)
    place = _positions(*key).get(run.name)
    if place is None:
        raise FileNotFoundError(f"{run.parent} has no run {run.name!r}")
    content: bytes | None = _column(*key, file)[place] if file in FILES else None
    if content is None:
        raise FileNotFoundError(f"{run} has no {file}")
    return content


def _key(path: Path) -> tuple[Path, int, int]:
    """Identify the content of a file, so that a campaign is read once but never shown after it was replaced."""
    state = path.stat()
    return path, state.st_mtime_ns, state.st_size


@functools.lru_cache(maxsize=32)
def _positions(path: Path, time: int, size: int) -> dict[str, int]:
    """Return the row of each run by its name."""
    names = [(name or b"").decode("utf-8", "replace") for name in _column(path, time, size, "name")]
    _check_names(names, path)
    return {name: index for index, name in enumerate(names)}


@functools.lru_cache(maxsize=32)
def _column(path: Path, _time: int, _size: int, column: str) -> list[bytes | None]:
    """Return one column, with None where a run lacks the file. Columns are read when they are needed."""
    pa, pq = _pyarrow()
    try:
        with pq.ParquetFile(path) as file:
            _check(file, path)
            if column not in file.schema_arrow.names:  # Another version may keep other files.
                return [None] * file.metadata.num_rows
            # As bytes, like a file: its reader says what is wrong if they are not UTF-8.
            return list(file.read(columns=[column]).column(0).cast(pa.binary()).to_pylist())
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RunError(f"{path} cannot be read as a campaign (`pamd pack` writes one): {reason}") from None


def _check(file: Any, path: Path) -> None:
    """Raise RunError unless an opened Parquet file has the schema of a campaign and a sensible size."""
    schema = file.schema_arrow
    if (schema.metadata or {}).get(b"pamd.campaign") != _KIND[b"pamd.campaign"]:
        raise RunError(f"{path} is not a campaign of runs: `pamd pack RUNS --out FILE.parquet` writes one")
    found = {field.name: str(field.type) for field in schema}
    if not {"name", "config.json"} <= found.keys() or set(found.values()) != {"string"}:
        raise RunError(f"{path} is not a campaign of runs: it must have text in name, config.json, ..., got {found}")
    size = sum(file.metadata.row_group(index).total_byte_size for index in range(file.metadata.num_row_groups))
    if size > _LARGEST:
        raise RunError(f"{path} has {size:,} bytes of text; a campaign has at most {_LARGEST:,}")


def _check_names(names: list[str], path: Path) -> None:
    """Raise RunError unless all names are different names of directories. A name must not lead out of the campaign."""
    for name in names:
        if not re.fullmatch(r"[^/\\\0]+", name) or name in (".", ".."):
            raise RunError(f"{path}: a run must be named like a directory, got {name!r}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RunError(f"{path} would have two runs named {twice!r}: one run must not count twice")


def _text(name: str, file: str, content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError as error:
        raise RunError(f"{name}/{file} is not text: {error}") from None


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise PamdError(f"a Parquet file of runs requires pyarrow: {install_command('lab')}") from None
    return pyarrow, pyarrow.parquet
