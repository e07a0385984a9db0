"""The record of one run: its config, status, versions and rows as plain data. Reports are made of these records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pamd.errors import CheckpointError, RunError, nearest
from pamd.runs import files
from pamd.runs.campaigns import campaign_runs, is_packed
from pamd.runs.checkpoints import list_checkpoints, read_counters, read_state, read_tensors
from pamd.runs.identity import identity_digest, refuse_edits, tree_identity
from pamd.runs.logs import Log, Row, read_evaluations, read_timing, unconfirmed_bytes
from pamd.runs.status import Status, read_status
from pamd.runs.versions import read_versions

_MAX_DEPTH = 4
"""The maximum depth of the search for run directories."""


@dataclass(frozen=True)
class RunRecord:
    """A run, finished or not, as plain data."""

    path: Path
    """The run directory."""
    config: dict[str, Any]
    """The content of config.json."""
    config_text: str
    """The text of config.json."""
    status: Status
    versions: list[dict[str, Any]]
    """The versions of the software that trained the run, oldest first; [] if unknown."""
    evaluations: list[Row]
    """The rows of eval.jsonl, in order of decisions. Each has decisions, frames, updates and returns."""
    timing: list[Row]
    """The rows of timing.jsonl. Each has decisions and seconds."""
    verified: str
    """The evidence that nothing was edited: a checkpoint for config and logs, or the directory name for the config; ""
    if there is none."""
    notices: tuple[str, ...] = ()
    """Notices about the files of the run for the reader of a report."""


def read_record(path: Path) -> RunRecord:
    """Read the run in `path`, which may still be active.

    Raises RunError if a file cannot be read, or if the config or a log was edited after the newest checkpoint.
    """
    file = path / "config.json"
    try:
        data = files.read(path, file.name)
        text, config = data.decode(), files.parse_json(data)
    except (OSError, ValueError) as error:
        raise RunError(f"{file} cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise RunError(f"{file} is not the config of a run: it must be a record, got {type(config).__name__}")
    status = read_status(path)
    logs = _read_logs(path, config, status)
    return RunRecord(
        path,
        config,
        text,
        status,
        read_versions(path),
        logs.evaluations.rows,
        logs.timing.rows,
        logs.verified,
        tuple(filter(None, (logs.evaluations.notice, logs.timing.notice, logs.notice))),
    )


class _Logs(NamedTuple):
    """The logs of a run and the evidence that they and the config were not edited."""

    evaluations: Log
    timing: Log
    verified: str
    notice: str = ""


def _read_logs(path: Path, config: Mapping[str, Any], status: Status) -> _Logs:
    """Read the logs and compare config and logs with the newest complete checkpoint. Raises RunError if they differ.

    A run without checkpoints, such as a published one, has no digests of its logs. Its config can be confirmed only by
    the digest in its name.
    """
    saved = list_checkpoints(path / "checkpoints")
    for checkpoint in saved:
        try:
            state = read_state(checkpoint)
            read_counters(checkpoint, state)
        except CheckpointError:
            continue
        refuse_edits(config, state, checkpoint.name, str(path / "config.json"))
        try:
            return _confirmed_logs(path, state["logs"], status, checkpoint.name)
        except RunError:
            # A resume that finds the tensors damaged continues from the previous checkpoint, with shorter logs.
            if _is_complete(checkpoint):
                raise
    notice = "no checkpoint can be read, so config.json and the logs cannot be confirmed" if saved else ""
    named = path.resolve().name.endswith(f"_{identity_digest(tree_identity(config))}")
    evaluations, timing = read_evaluations(path / "eval.jsonl"), read_timing(path / "timing.jsonl")
    return _Logs(evaluations, timing, "the digest in its name" if named else "", notice)


def _confirmed_logs(path: Path, entries: Mapping[str, Any], status: Status, checkpoint: str) -> _Logs:
    evaluations = read_evaluations(path / "eval.jsonl", entries["eval"])
    timing = read_timing(path / "timing.jsonl", entries["timing"])
    # Nothing in a record needs the rows of train.jsonl, which is the longest log.
    later = {"train": unconfirmed_bytes(path / "train.jsonl", entries["train"])}
    later |= {"eval": evaluations.unconfirmed, "timing": timing.unconfirmed}
    for name, count in later.items():
        if count and status.state == "finished":
            raise RunError(
                f"{path / name}.jsonl was edited: {count} bytes were written after checkpoint {checkpoint},"
                " but the run has finished"
            )
    return _Logs(evaluations, timing, f"checkpoint {checkpoint}")


def _is_complete(checkpoint: Path) -> bool:
    try:
        read_tensors(checkpoint)
    except CheckpointError:
        return False
    return True


@dataclass(frozen=True)
class Unreadable:
    """A directory that cannot be read as a run, with the reason."""

    path: Path
    reason: str

    @property
    def name(self) -> str:
        """The printable name of the directory."""
        return str(files.printable(self.path.name))


def find_runs(path: Path) -> Iterator[Path | Unreadable]:
    """Yield the run directories at or below `path`, and directories that look like runs but cannot be read.

    If `path` is a campaign (a Parquet file), yield FILE.parquet/RUN for each of its runs. Links are not followed.
    Raises RunError if the path itself cannot be read or contains no run.
    """
    if path.is_file() or is_packed(path):
        packed = campaign_runs(path) if path.is_file() else [path]
        if not packed:
            raise RunError(f"{path} contains no run")
        yield from packed
        return
    try:
        runs = list(_search(path, path, 0))
    except OSError as error:
        siblings = [other.name for other in path.parent.glob("*") if other.name != path.name and other.is_dir()]
        hint = nearest(path.name, siblings)
        reason = f"{path} does not exist" if not path.exists() else f"{path} cannot be read: {error.strerror}"
        raise RunError(reason + (f"; near: {hint}" if hint else "")) from None
    if not runs:
        raise RunError(f"{path} is not a run directory and contains none: there is no config.json")
    yield from runs


def _search(path: Path, root: Path, depth: int) -> Iterator[Path | Unreadable]:
    if (path / "config.json").is_symlink() or (path / "config.json").is_file():
        yield path
        return
    inside = sorted(child for child in path.iterdir() if child.is_dir() and not child.name.startswith("."))
    if (path / "eval.jsonl").exists():
        yield Unreadable(path, f"{path} has evaluations but no config.json, so their run is not known")
        return
    for child in inside if depth < _MAX_DEPTH else []:
        if child.is_symlink():
            # Runs below `root` are also found without the link.
            target = child.resolve()
            if (target / "config.json").is_file() and not target.is_relative_to(root.resolve()):
                yield Unreadable(child, f"{child} is a symbolic link to another directory; pass {target} instead")
            continue
        try:
            yield from _search(child, root, depth + 1)
        except OSError as error:
            yield Unreadable(child, f"{child} cannot be read: {error.strerror}")
