"""Find run directories in a directory. Links are not followed, so a report reads only the given directories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pamd.errors import RunError, nearest
from pamd.report.run import Unreadable
from pamd.runs.campaigns import campaign_runs, is_packed

__all__ = ["find_runs"]

_DEEPEST = 4
"""The maximum depth of the search."""


def find_runs(path: Path) -> Iterator[Path | Unreadable]:
    """Yield the run directories at or below `path`, and directories that look like runs but cannot be read.

    If `path` is a campaign (a Parquet file), yield FILE.parquet/RUN for each of its runs. Raises RunError if the path
    itself cannot be read or contains no run.
    """
    if path.is_file() or is_packed(path):
        packed = campaign_runs(path) if path.is_file() else [path]
        if not packed:
            raise RunError(f"{path} contains no run")
        yield from packed
        return
    try:
        found = list(_search(path, path, 0))
    except OSError as error:
        hint = nearest(path.name, _siblings(path))
        reason = f"{path} does not exist" if not path.exists() else f"{path} cannot be read: {error.strerror}"
        raise RunError(reason + (f"; near: {hint}" if hint else "")) from None
    if not found:
        raise RunError(f"{path} is not a run directory and contains none: there is no config.json")
    yield from found


def _search(path: Path, given: Path, depth: int) -> Iterator[Path | Unreadable]:
    if (path / "config.json").is_symlink() or (path / "config.json").is_file():
        yield path
        return
    inside = sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith("."))
    if (path / "eval.jsonl").exists():
        yield Unreadable(path, f"{path} has evaluations but no config.json, so their run is not known")
        return
    for child in inside if depth < _DEEPEST else []:
        if child.is_symlink():
            yield from _linked(child, given)
            continue
        try:
            yield from _search(child, given, depth + 1)
        except OSError as error:
            yield Unreadable(child, f"{child} cannot be read: {error.strerror}")


def _linked(link: Path, given: Path) -> Iterator[Unreadable]:
    """Yield a link to a run outside the given directory as unreadable. Runs inside it are found without the link."""
    target = link.resolve()
    if (target / "config.json").is_file() and not target.is_relative_to(given.resolve()):
        yield Unreadable(link, f"{link} is a symbolic link to another directory; pass {target} instead")


def _siblings(path: Path) -> list[str]:
    """Return the names of the sibling directories of `path`. `path` itself need not exist."""
    return [found.name for found in path.parent.glob("*") if found.name != path.name and found.is_dir()]
