"""Damage to the files of a run, as by a disk, a sync tool or manual editing, and the expected outcome of a resume."""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = ["DAMAGES", "NEWEST", "OLDER", "Mutation", "mutations"]


def _flip(path: Path) -> None:
    """Flip one bit in the middle of the written content. The unwritten rest of a replay file contains only NULs."""
    data = bytearray(path.read_bytes())
    held = len(bytes(data).rstrip(b"\0")) or min(len(data), 60)
    data[held // 2] ^= 1
    path.write_bytes(data)


def _halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _lose_last_byte(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def _pad(path: Path) -> None:
    with open(path, "ab") as file:
        file.write(bytes(4096))


def _zero(path: Path) -> None:
    """Overwrite the file with NULs, as after a power failure when only the length was written."""
    path.write_bytes(bytes(path.stat().st_size))


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _repeat(path: Path) -> None:
    path.write_bytes(path.read_bytes() * 2)


def _random(path: Path) -> None:
    """Overwrite the file with fixed pseudorandom bytes."""
    size = path.stat().st_size
    path.write_bytes((bytes(range(255, 0, -1)) * (size // 255 + 1))[:size])


def _link(path: Path) -> None:
    """Replace the file by a symbolic link to the same content outside the run directory."""
    elsewhere = path.parents[3] / f"elsewhere-{path.name}"
    shutil.move(path, elsewhere)
    path.symlink_to(elsewhere)


def _dangle(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nothing"))


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "one bit flipped": _flip,
    "cut to half": _halve,
    "last byte lost": _lose_last_byte,
    "padded with 4096 NULs": _pad,
    "overwritten with NULs": _zero,
    "overwritten with other bytes": _random,
    "emptied": _empty,
    "written twice": _repeat,
    "deleted": Path.unlink,
    "moved behind a link": _link,
    "a link to nothing": _dangle,
    "a directory instead": _directory,
}
"""Functions that damage a file in place."""

Outcome = Literal["resumes", "refused"]

NEWEST, OLDER = "checkpoints/000000060", "checkpoints/000000056"
"""The two checkpoints of the mutated run."""

_CHECKPOINT = ("tensors.safetensors", "state.json", "complete.json")
_LOGS = ("train.jsonl", "eval.jsonl", "timing.jsonl")
_REPLAY = ("replay.json", "frames.u8", "actions.f32", "rewards.f32", "terminated.u8", "age.i32")
_NESTED = "[" * 100_000


@dataclass(frozen=True)
class Mutation:
    """One change to the files of a run."""

    file: str
    """The file that is damaged, relative to the run directory."""
    what: str
    expected: Outcome
    apply: Callable[[Path], None]
    """A function of the run directory that applies the mutation."""


def mutations() -> list[Mutation]:
    """Return all mutations: every damage to every file, edits of JSON files, and exchanged or removed files."""
    return [*_damages(), *_edits(), *_exchanges()]


def _damages() -> Iterator[Mutation]:
    files = ["config.json", "status.json", "versions.json", *_LOGS]
    files += [f"{checkpoint}/{name}" for checkpoint in (NEWEST, OLDER) for name in _CHECKPOINT]
    files += [f"replay/{name}" for name in _REPLAY]
    for file in files:
        for what, damage in DAMAGES.items():
            yield Mutation(file, what, _expected(file, what), functools.partial(_at, file, damage))


_HARMLESS = {
    # Only the end of the last line is lost.
    ("config.json", "last byte lost"),
    ("replay/replay.json", "last byte lost"),
    # The file contains only NULs anyway, because no episode of toy terminates.
    ("replay/terminated.u8", "overwritten with NULs"),
    # A resume drops log content after the checkpoint, as after a kill.
    *((log, what) for log in _LOGS for what in ("padded with 4096 NULs", "written twice")),
}


def _expected(file: str, what: str) -> Outcome:
    """Return the expected outcome.

    A damaged checkpoint is replaced by the other one. Status and versions are only informative. Any other damage is
    refused.
    """
    if file in ("status.json", "versions.json"):
        return "refused" if what == "a directory instead" else "resumes"
    return "resumes" if file.startswith("checkpoints") or (file, what) in _HARMLESS else "refused"


def _at(file: str, damage: Callable[[Path], None], run: Path) -> None:
    damage(run / file)


def _edits() -> Iterator[Mutation]:
    """Yield edits of JSON files: changed fields, which keep the JSON valid, and deeply nested brackets."""
    yield _edit("config.json", "seed", 5, "refused")
    yield _edit("config.json", "learner.options.batch", 4, "refused")
    yield _edit("config.json", "replay.capacity", 44, "refused")
    yield _edit("config.json", "decisions", -1, "refused")
    yield _edit("config.json", "layout", 99, "refused")
    yield _edit("config.json", "unknown", 1, "refused")
    yield _edit("config.json", "runtime.video", "off", "resumes")
    yield _edit("status.json", "state", "finished", "resumes")
    yield _edit("status.json", "decisions", 10**9, "resumes")
    yield _edit("status.json", "decisions", "many", "resumes")
    for field, value in (("budget.decisions", 59), ("seconds", "long"), ("rng.state.state", 7), ("replay.written", 9)):
        yield _edit(f"{NEWEST}/state.json", field, value, "resumes")
    yield _edit("replay/replay.json", "layout.margin", 1, "refused")
    yield _edit("replay/replay.json", "layout.storage", "mmap", "resumes")
    yield _edit("replay/replay.json", "syncs", [], "refused")
    yield _edit("replay/replay.json", "version", 99, "refused")
    nested = ("config.json", "status.json", "versions.json", f"{NEWEST}/state.json", f"{NEWEST}/complete.json")
    for file in (*nested, "replay/replay.json"):
        damage = functools.partial(_write, text=_NESTED)
        expected: Outcome = "refused" if file in ("config.json", "replay/replay.json") else "resumes"
        yield Mutation(file, "100,000 brackets", expected, functools.partial(_at, file, damage))


def _edit(file: str, field: str, value: Any, expected: Outcome) -> Mutation:
    def damage(path: Path) -> None:
        tree = json.loads(path.read_text())
        *parents, leaf = field.split(".")
        functools.reduce(lambda branch, name: branch[name], parents, tree)[leaf] = value
        path.write_text(json.dumps(tree))

    return Mutation(file, f"{field} = {json.dumps(value)}", expected, functools.partial(_at, file, damage))


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _exchanges() -> Iterator[Mutation]:
    """Yield mutations that remove, replace or exchange whole files and directories, or drop a row."""
    gone: dict[str, Outcome] = {NEWEST: "resumes", OLDER: "resumes", "replay": "refused"}
    for name, expected in gone.items():
        yield Mutation(name, "deleted", expected, functools.partial(_at, name, shutil.rmtree))
    yield Mutation("checkpoints", "deleted", "resumes", functools.partial(_at, "checkpoints", shutil.rmtree))
    for name in (NEWEST, OLDER):
        yield Mutation(name, "a file instead", "resumes", functools.partial(_at, name, _file_instead))
    yield Mutation("replay", "a file instead", "refused", functools.partial(_at, "replay", _file_instead))
    yield Mutation("checkpoints", "the two exchanged", "refused", lambda run: _exchange(run / NEWEST, run / OLDER))
    for name in _CHECKPOINT:
        swap = functools.partial(_swap, f"{NEWEST}/{name}", f"{OLDER}/{name}")
        yield Mutation("checkpoints", f"{name} of the two exchanged", "refused", swap)
    rename = functools.partial(_rename, NEWEST, "checkpoints/000000999")
    yield Mutation(NEWEST, "renamed to 000000999", "resumes", rename)
    swap = functools.partial(_swap, "replay/rewards.f32", "replay/age.i32")
    yield Mutation("replay", "rewards.f32 and age.i32 exchanged", "refused", swap)
    swap = functools.partial(_swap, "train.jsonl", "eval.jsonl")
    yield Mutation("train.jsonl", "exchanged with eval.jsonl", "refused", swap)
    yield Mutation("train.jsonl", "a row dropped", "refused", functools.partial(_at, "train.jsonl", _drop_row))


def _file_instead(path: Path) -> None:
    shutil.rmtree(path)
    path.write_bytes(b"no directory")


def _rename(one: str, other: str, run: Path) -> None:
    (run / one).rename(run / other)


def _swap(one: str, other: str, run: Path) -> None:
    _exchange(run / one, run / other)


def _exchange(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def _drop_row(path: Path) -> None:
    _, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(rest))
