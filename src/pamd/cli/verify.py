"""`pamd verify`."""

from __future__ import annotations

import sys
from pathlib import Path

from pamd.errors import RunError
from pamd.runs import Unreadable, find_runs
from pamd.runs.campaigns import is_packed


def verify(runs: list[Path], /) -> int:
    """Check runs for damage: config, versions, status, logs, checkpoints, replay, and what else is in the directory.

    The command prints one line per finding. The exit code is 0 if nothing is damaged and 1 otherwise. No file is
    changed: `pamd resume` cleans up after a kill by itself, and damage cannot be repaired without inventing data. The
    content of videos, TensorBoard files and diagnostics has no digest and is not checked.

    Args:
        runs: run directories, or directories of run directories
    """
    from pamd.runs.verify import Finding, verify_run

    if not runs:
        raise RunError("verify: at least one run directory is required")
    damaged = False
    for run in (run for path in runs for run in find_runs(path)):
        path = run.path if isinstance(run, Unreadable) else run
        if is_packed(path):
            raise RunError(f"{path.parent} has logs without checkpoints, so there is nothing to verify them with")
        findings = [Finding(".", run.reason)] if isinstance(run, Unreadable) else verify_run(path)
        lines = [f"{finding.file}: {'note: ' * finding.harmless}{finding.problem}" for finding in findings]
        broken = not all(finding.harmless for finding in findings)
        damaged |= broken
        lines += [] if broken else ["ok"]
        sys.stdout.writelines(f"{path}: {line}\n" for line in lines)
    return int(damaged)
