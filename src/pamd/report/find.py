"""Run directories below a directory. Links are not followed: a report reads what it was given and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pamd.errors import RunError, nearest
from pamd.report.run import Unreadable

__all__ = ["find_runs"]

_DEEPEST = 4
"""How many levels below a given directory runs are searched."""


def find_runs(path: Path) -> Iterator[Path | Unreadable]:
    """The run directories at or below `path`, and what looks like one but cannot be read.

    RunError if the path itself cannot be read or has no run.
    """
    try:
        found = list(_search(path, path, 0))
    except OSError as error:
        hint = nearest(path.name, _siblings(path))
        raise RunError(f"{path} cannot be read: {error.strerror}" + (f"; near: {hint}" if hint else "")) from None
    if not found:
        raise RunError(f"{path} is not a run directory and contains none: there is no config.json")
    yield from found


def _search(path: Path, given: Path, depth: int) -> Iterator[Path | Unreadable]:
    if (path / "config.json").is_symlink() or (path / "config.json").is_file():
        yield path
        return
    inside = sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith("."))
    if (path / "eval.jsonl").exists():
        yield Unreadable(path, f"{path} has evaluations but no config.json, so it is not known what they evaluate")
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
    """A run elsewhere is named; what lies below the given directory is found without the link."""
    target = link.resolve()
    if (target / "config.json").is_file() and not target.is_relative_to(given.resolve()):
        yield Unreadable(link, f"{link} is a symbolic link to another place; pass {target} itself")


def _siblings(path: Path) -> list[str]:
    """Names of the directories next to `path`, which may not exist."""
    return [found.name for found in path.parent.glob("*") if found.name != path.name and found.is_dir()]
