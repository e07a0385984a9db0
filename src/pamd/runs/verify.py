"""Check a run directory for damage. Nothing is changed. A resume makes the same checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pamd import atomic_io
from pamd.errors import CheckpointError, PamdError, RunError
from pamd.replay import Replay
from pamd.runs.checkpoints import list_checkpoints, read_counters, read_state, read_tensors
from pamd.runs.directory import RunDirectory
from pamd.runs.files import foreign, irregular, shared_files, temporaries
from pamd.runs.identity import identity_digest, name_digest, refuse_edits, tree_identity
from pamd.runs.logs import LOGS, damaged_rows, refuse_long_rows, split_log
from pamd.runs.status import STATES, Budget, Status, read_status
from pamd.runs.versions import read_versions, versions

_ROWS = 10
"""The maximum number of damaged rows that a finding lists."""


class Finding(NamedTuple):
    """A problem or a note."""

    file: str
    """The name of the file in the run directory."""
    problem: str
    harmless: bool = False
    """True for a note. The run can still be resumed exactly, and its logs are unchanged."""


class _Saved(NamedTuple):
    """A complete checkpoint."""

    path: Path
    state: dict[str, Any]
    budget: Budget


def verify_run(path: Path) -> list[Finding]:
    """Check the run in `path`: config, versions, checkpoints, replay, logs, status, temporary files and links."""
    try:
        run = RunDirectory.open(path)
        tree = run.config_tree()
    except (PamdError, OSError) as error:
        return [Finding("config.json", _one_line(error))]
    try:
        with run.locked(write=False):
            return list(_findings(run, tree))
    except RunError as error:
        return [Finding(".", _one_line(error))]


def _findings(run: RunDirectory, tree: dict[str, Any]) -> Iterator[Finding]:
    left = temporaries(run.path)
    for path, kind in irregular(run.path):
        yield Finding(_name(run, path), kind)
    for path in left:
        yield Finding(_name(run, path), "was left behind by a killed process; a resume removes it", harmless=True)
    for path in foreign(run.path):
        if path not in left:
            yield Finding(_name(run, path), "is not a file of a run; nothing reads it", harmless=True)
    for path in shared_files(run.path):
        yield Finding(_name(run, path), "has a second name (a hard link); a resume copies it first", harmless=True)
    yield from _config(run, tree)
    newest, damaged = _newest_checkpoint(run)
    yield from damaged
    yield from _versions(run, newest)
    status = read_status(run.path)
    yield from _status(run, tree, status, newest)
    for name in LOGS:
        yield from _log(run, name, status, newest)
    if newest is not None:
        yield from _resumable(run, tree, status, newest)


def _config(run: RunDirectory, tree: dict[str, Any]) -> Iterator[Finding]:
    """Check the budget, and whether config.json matches the hash in the directory name."""
    if not isinstance(tree.get("decisions"), int) or isinstance(tree["decisions"], bool):
        yield Finding("config.json", f"decisions must be a whole number, got {tree.get('decisions')!r}")
    expected, digest = name_digest(run.path.resolve().name), identity_digest(tree_identity(tree))
    if expected not in (None, digest):
        yield Finding("config.json", f"was edited: its hash is {digest}, and the directory is named after {expected}")


def _versions(run: RunDirectory, newest: _Saved | None) -> Iterator[Finding]:
    """Compare versions.json with the checkpoint, and the last entry with the versions of this machine."""
    entries, now = read_versions(run.path), versions()
    saved = newest.state.get("versions") if newest else None
    if newest and saved and entries[: len(saved)] != saved:
        yield Finding(
            "versions.json", f"was edited or damaged after checkpoint {newest.path.name} was made; a resume restores it"
        )
        return
    if not entries:
        yield Finding("versions.json", "cannot be read", harmless=True)
        return
    last = entries[-1]
    # Earlier versions did not store the processor.
    changed = [f"{name} {last[name]!r}, here {now[name]!r}" for name in now if last.get(name, now[name]) != now[name]]
    if changed:
        yield Finding("versions.json", f"made with {'; '.join(changed)}: a resume may not be bit-exact", harmless=True)


def _newest_checkpoint(run: RunDirectory) -> tuple[_Saved | None, list[Finding]]:
    """Return the newest complete checkpoint, from which a resume continues, and the problems of the others."""
    newest, damaged = None, []
    for path in list_checkpoints(run.checkpoints):
        try:
            read_tensors(path)
            state = read_state(path)
            saved = _Saved(path, state, read_counters(path, state).budget)
            newest = newest or saved
        except CheckpointError as error:
            damaged.append(Finding(_name(run, path), _one_line(error)))
    return newest, damaged


def _status(run: RunDirectory, tree: dict[str, Any], status: Status, newest: _Saved | None) -> Iterator[Finding]:
    """Compare status.json with the checkpoint and the budget."""
    if newest is None and not (run.path / "status.json").exists():
        yield Finding("status.json", "is missing; the run has not started", harmless=True)
        return
    if status.state not in STATES:
        yield Finding("status.json", f"its state must be one of {', '.join(STATES)}, got {status.state!r}")
        return
    if status.state == "running":
        yield Finding("status.json", "the state is running, but no process is using the run", harmless=True)
    if status.state == "finished" and newest is None:
        yield Finding("checkpoints", "are missing; the logs cannot be verified", harmless=True)
    if newest is None:
        return
    saved = newest.budget
    if not _agree(status, saved):
        at = "unknown counts" if status.budget is None else _counts(status.budget)
        problem = f"the state is {status.state} at {at}, but the last checkpoint is at {_counts(saved)}"
        yield Finding("status.json", problem)
    elif status.state == "finished" and isinstance(tree.get("decisions"), int) and saved.decisions < tree["decisions"]:
        problem = f"the state is finished at decision {saved.decisions} of {tree['decisions']}; a resume continues"
        yield Finding("status.json", problem, harmless=True)


def _agree(status: Status, saved: Budget) -> bool:
    """Return whether a status can belong to a run whose last checkpoint is at `saved`."""
    if status.budget is None:
        return False
    if status.state in ("finished", "interrupted"):  # These have a checkpoint of their last decision.
        return status.budget == saved
    # A run fails after its last checkpoint. A killed one may be behind: its status is written after the checkpoint.
    return status.state == "running" or status.budget.decisions >= saved.decisions


def _counts(budget: Budget) -> str:
    return ", ".join(f"{value} {name}" for name, value in budget._asdict().items())


def _log(run: RunDirectory, name: str, status: Status, newest: _Saved | None) -> Iterator[Finding]:
    """Check whether a log matches the checkpoint. Without a checkpoint, check only whether its rows can be read."""
    path, resumable = run.path / f"{name}.jsonl", status.state != "finished"
    try:
        refuse_long_rows(path)
        content = atomic_io.read(path)
    except RunError as error:
        yield Finding(path.name, _one_line(error))
        return
    except OSError:
        content = b""
    numbers = ", ".join(map(str, damaged_rows(content)[:_ROWS]))
    unreadable = f"row {numbers} cannot be read"
    if newest is None:
        # An unfinished run without a checkpoint starts again.
        if numbers:
            yield Finding(path.name, unreadable, harmless=resumable)
        return
    try:
        _, after = split_log(path, newest.state["logs"][name])
    except PamdError as error:
        yield Finding(path.name, _one_line(error) + (f"; {unreadable}" if numbers else ""))
        return
    if after:
        problem = f"{len(after)} bytes were written after checkpoint {newest.path.name}; a resume drops them"
        yield Finding(path.name, problem, harmless=resumable)


def _resumable(run: RunDirectory, tree: dict[str, Any], status: Status, newest: _Saved) -> Iterator[Finding]:
    """Check whether config and replay match the checkpoint."""
    try:
        refuse_edits(tree, newest.state, newest.path.name)
    except PamdError as error:
        yield Finding("config.json", _one_line(error))
    if not run.replay.exists() and status.state == "finished":
        yield Finding("replay", "was deleted; the run cannot be extended", harmless=True)
        return
    try:
        Replay.open(run.replay, state=newest.state["replay"], read_only=True, storage="mmap")
    except PamdError as error:
        yield Finding("replay", _one_line(error))


def _name(run: RunDirectory, path: Path) -> str:
    return str(path.relative_to(run.path))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
