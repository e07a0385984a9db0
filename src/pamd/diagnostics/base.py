"""What all diagnostics share: the registry, progress, stored partial results, and writing a result to files.

To add a diagnostic, add a file here with a function that returns a frozen dataclass, and register the function
with `diagnostic`. The options in the `Args` section of its docstring become those of `pamd diagnose NAME`.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pamd import atomic_io
from pamd.errors import ConfigError
from pamd.registry import Registry
from pamd.schema import tree_differences

Progress = Callable[[str, int, int], None]
"""Called with the name of the task, the finished steps and the total."""


def quiet(what: str, done: int, total: int) -> None:
    """Do nothing: the default `Progress`."""


class Result(Protocol):
    """A frozen dataclass. Its fields are numbers, text, arrays, and dictionaries and sequences of them."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    kind: ClassVar[str]
    """The name under which the diagnostic is registered."""


DIAGNOSTICS: Registry[Callable[..., Result]] = Registry("diagnostic", "pamd.diagnostics")

_Compute = TypeVar("_Compute", bound=Callable[..., Result])


def diagnostic(name: str) -> Callable[[_Compute], _Compute]:
    """Return a decorator that registers a function under `name`. It keeps the type of the function."""

    def add(compute: _Compute) -> _Compute:
        DIAGNOSTICS.register(name)(compute)
        return compute

    return add


def save(result: Result, directory: Path, **about: Any) -> None:
    """Write data.json, and arrays.npz if there are arrays. `about` adds fields such as the run and the checkpoint."""
    directory.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    tree = _plain(dataclasses.asdict(result), "", arrays)
    text = json.dumps({"kind": result.kind, **about, **tree}, indent=1, allow_nan=False)
    if arrays:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        atomic_io.replace(directory / "arrays.npz", buffer.getvalue())
    atomic_io.replace(directory / "data.json", (text + "\n").encode())


def _plain(value: Any, path: str, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """Convert `value` to JSON. Arrays are moved to `arrays` under their dotted path; infinity becomes null."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if isinstance(value, dict):
        return {key: _plain(item, f"{path}.{key}".lstrip("."), arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}.{index}", arrays) for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class Ledger:
    """Rows by key. The first line of the file holds the settings, so that rows of different settings are never mixed.

    The file is created with the first row.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        self._path = path
        self._rows: dict[str, dict[str, Any]] = {}
        # Compare settings after a JSON round trip, so that tuples and lists are equal.
        self._header: dict[str, Any] = json.loads(json.dumps({"settings": settings}))
        if path is None or not path.is_file():
            return
        header, *rows = _whole_rows(path) or [self._header]
        if rows:
            self._check(header)
            self._rows = {row["key"]: row["row"] for row in rows}
            # Drop an incomplete last line of a killed process.
            atomic_io.replace(path, "".join(json.dumps(row) + "\n" for row in [header, *rows]).encode())
        else:
            path.unlink()

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def __getitem__(self, key: str) -> dict[str, Any]:
        return self._rows[key]

    def add(self, key: str, row: dict[str, Any]) -> None:
        """Store a row, also on disk if there is a path."""
        self._rows[key] = row
        if self._path is None:
            return
        new = [{"key": key, "row": row}] if self._path.is_file() else [self._header, {"key": key, "row": row}]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_io.open_file(self._path, "ab") as file:
            file.write("".join(json.dumps(line) + "\n" for line in new).encode())

    def _check(self, header: dict[str, Any]) -> None:
        """Raise ConfigError unless the file was written with the same settings."""
        if self._header == header:
            return
        differ = tree_differences(dict(header.get("settings", {})), self._header["settings"])
        shown = "; ".join(f"{key} {old!r} against {new!r}" for key, old, new in differ) or "another version"
        raise ConfigError(
            f"{self._path} contains results of other settings ({shown}); choose another --out, or remove it"
        )


def _whole_rows(path: Path) -> list[dict[str, Any]]:
    """Return all complete lines."""
    rows = []
    for number, line in enumerate(atomic_io.read(path).split(b"\n")[:-1], start=1):
        try:
            rows.append(dict(json.loads(line)))
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"{path}, line {number} is damaged ({error}); fix that line, or remove the file"
            ) from None
    return rows


def rank_correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Return Spearman's rank correlation with averaged ties; 0 if one side is constant. x, y: [P]."""
    ranks = [_ranks(np.asarray(side, dtype=np.float64)) for side in (x, y)]
    a, b = (rank - rank.mean() for rank in ranks)
    scale = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale > 0 else 0.0


def _ranks(x: NDArray[np.float64]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: NDArray[np.float64] = (last - (counts - 1) / 2)[inverse]
    return shared
