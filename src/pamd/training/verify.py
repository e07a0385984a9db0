"""Check a run directory for damage and repair it. Checking changes nothing. A resume makes the same checks."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pamd import durable
from pamd.errors import CheckpointError, PamdError, RunError
from pamd.identity import identity_digest, tree_identity
from pamd.replay import Replay
from pamd.table import counted
from pamd.training import checkpoint, repair
from pamd.training.checkpoint import Checkpoint
from pamd.training.leftovers import links, temporaries
from pamd.training.log import LOGS, split_log
from pamd.training.progress import read_progress
from pamd.training.run import RunDirectory, lock
from pamd.training.session import check_config
from pamd.training.versions import versions
from pamd.types import Budget

__all__ = ["Finding", "Repaired", "repair_run", "verify_run"]

STATES = ("running", "finished", "interrupted", "failed")
_ROUNDS = 5


class Finding(NamedTuple):
    """A problem or a note."""

    file: str
    """The name of the file in the run directory."""
    problem: str
    harmless: bool = False
    """True for a note. The run can still be resumed exactly, and its logs are unchanged."""
    repair: Callable[[], str] | None = None
    """A function that repairs the problem and describes the repair; None if no repair is safe."""


class Repaired(NamedTuple):
    """A finding and its repair."""

    finding: Finding
    done: str


def verify_run(path: Path) -> list[Finding]:
    """Check the run in `path`: config, versions, checkpoints, replay, logs, status, temporary files and links."""
    try:
        run = RunDirectory.open(path)
    except (PamdError, OSError) as error:
        return [Finding("config.json", _one_line(error))]
    try:
        with lock(path):
            return list(_findings(run))
    except RunError as error:
        return [Finding(".", _one_line(error))]


def repair_run(path: Path) -> tuple[list[Repaired], list[Finding]]:
    """Apply all safe repairs. Returns the repairs and the remaining findings."""
    done: list[Repaired] = []
    for _ in range(_ROUNDS):
        found = verify_run(path)
        possible = [finding for finding in found if finding.repair is not None]
        if not possible:
            break
        with RunDirectory.open(path).locked():
            done += [Repaired(finding, finding.repair()) for finding in possible if finding.repair is not None]
    return done, verify_run(path) if done else found


def _findings(run: RunDirectory) -> Iterator[Finding]:
    for link in links(run.path):
        yield Finding(_name(run, link), "is a symbolic link; it is not followed")
    for path in temporaries(run.path):
        clean = functools.partial(repair.drop_temporary, path)
        yield Finding(_name(run, path), "was left behind by a killed process", harmless=True, repair=clean)
    yield from _repairs(run)
    yield from _config_name(run)
    yield from _versions(run)
    whole, broken = _checkpoints(run)
    for path, problem in broken.items():
        remove = functools.partial(repair.remove_checkpoint, path) if whole else None
        yield Finding(_name(run, path), problem, repair=remove)
    if broken and whole:
        return  # The rest is checked after the repair.
    saved = whole[0] if whole else None
    yield from _status(run, saved)
    yield from _logs(run, saved)
    if saved is not None:
        yield from _resumable(run, saved)


def _checkpoints(run: RunDirectory) -> tuple[list[Checkpoint], dict[Path, str]]:
    """Return the complete checkpoints, newest first, and the problems of the others."""
    whole, broken = [], {}
    for path in checkpoint.all_in(run.checkpoints):
        try:
            saved = checkpoint.read(path)
            read_progress(saved)
            whole.append(saved)
        except CheckpointError as error:
            broken[path] = _one_line(error)
    return whole, broken


def _resumable(run: RunDirectory, saved: Checkpoint) -> Iterator[Finding]:
    """Check whether config and replay match the checkpoint."""
    try:
        check_config(run.config, saved)
    except PamdError as error:
        yield Finding("config.json", _one_line(error))
    if not run.replay.exists() and _finished(run):
        yield Finding("replay", "was deleted; the run cannot be extended", harmless=True)
        return
    try:
        Replay.open(run.replay, state=saved.state["replay"], read_only=True, storage="mmap")
    except PamdError as error:
        yield Finding("replay", _one_line(error))


def _logs(run: RunDirectory, saved: Checkpoint | None) -> Iterator[Finding]:
    for name in LOGS:
        yield from _unverified_log(run, name) if saved is None else _log(run, name, saved)


def _log(run: RunDirectory, name: str, saved: Checkpoint) -> Iterator[Finding]:
    """Check whether a log matches the checkpoint."""
    path, entry = run.path / f"{name}.jsonl", saved.state["logs"][name]
    try:
        rows, after = split_log(path, entry)
    except PamdError as error:
        content = _content(path)
        damaged = repair.damaged_rows(content) if len(content) >= entry["bytes"] else []
        drop = functools.partial(repair.drop_damaged_rows, run, name) if damaged else None
        unreadable = f"; row {', '.join(map(str, damaged[:10]))} cannot be read" if damaged else ""
        yield Finding(path.name, _one_line(error) + unreadable, repair=drop)
        return
    if after:
        cut = functools.partial(repair.truncate_log, path, len(rows))
        problem = f"{len(after)} bytes were written after checkpoint {saved.path.name}; a resume drops them"
        yield Finding(path.name, problem, harmless=not _finished(run), repair=cut)


def _unverified_log(run: RunDirectory, name: str) -> Iterator[Finding]:
    """Check whether a log without a checkpoint is readable. An unfinished run without a checkpoint starts again."""
    path = run.path / f"{name}.jsonl"
    if damaged := repair.damaged_rows(_content(path)):
        drop = functools.partial(repair.drop_damaged_rows, run, name)
        problem = f"row {', '.join(map(str, damaged[:10]))} cannot be read"
        yield Finding(path.name, problem, harmless=not _finished(run), repair=drop)


def _content(path: Path) -> bytes:
    """Read a file; empty if it cannot be read."""
    try:
        return durable.read(path)
    except OSError:
        return b""


def _finished(run: RunDirectory) -> bool:
    return run.status().get("state") == "finished"


def _status(run: RunDirectory, saved: Checkpoint | None) -> Iterator[Finding]:
    status, budget = run.status(), Budget() if saved is None else read_progress(saved).budget
    mark = functools.partial(repair.mark_interrupted, run, budget)
    state, decisions = status.get("state"), status.get("decisions")
    if saved is None and not (run.path / "status.json").exists():
        yield Finding("status.json", "is missing; the run has not started", harmless=True)
    elif state not in STATES:
        yield Finding("status.json", f"its state must be one of {', '.join(STATES)}, got {state!r}", repair=mark)
    elif state == "running":
        yield Finding(
            "status.json", "the state is running, but no process is using the run", harmless=True, repair=mark
        )
    elif state == "finished" and saved is None:
        yield Finding("checkpoints", "are missing; the logs cannot be verified", harmless=True)
    elif state == "finished" and decisions != budget.decisions:
        problem = f"the state is finished at decision {decisions!r}, but the last checkpoint is at {budget.decisions}"
        yield Finding("status.json", problem, repair=mark)


def _config_name(run: RunDirectory) -> Iterator[Finding]:
    """Check whether config.json matches the hash in the directory name. A renamed directory may have no hash."""
    digest = re.search(r"_s[0-9]+_([0-9a-f]{8})$", run.path.resolve().name)
    # Use the file as written, because a version with more fields would fill in their defaults.
    found = identity_digest(tree_identity(json.loads(durable.read(run.path / "config.json"))))
    if digest is not None and found != digest[1]:
        yield Finding("config.json", f"was edited: its hash is {found}, and the directory is named after {digest[1]}")


def _versions(run: RunDirectory) -> Iterator[Finding]:
    try:
        last: Any = json.loads(durable.read(run.path / "versions.json"))[-1]
        entries = dict(last)
    except (OSError, ValueError, TypeError, IndexError, KeyError, RecursionError) as error:
        yield Finding("versions.json", f"cannot be read: {_one_line(error)}", harmless=True)
        return
    now = versions()
    changed = [f"{name} {entries.get(name)!r}, here {now[name]!r}" for name in now if entries.get(name) != now[name]]
    if changed:
        yield Finding("versions.json", f"made with {'; '.join(changed)}: a resume may not be bit-exact", harmless=True)


def _repairs(run: RunDirectory) -> Iterator[Finding]:
    """Report earlier repairs that dropped rows."""
    if count := _content(run.path / repair.REPAIRS).count(b"\n"):
        yield Finding(
            repair.REPAIRS,
            f"rows of logs were dropped by {counted(count, 'repair')}; the remaining rows were not verified",
            harmless=True,
        )


def _name(run: RunDirectory, path: Path) -> str:
    return str(path.relative_to(run.path))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
