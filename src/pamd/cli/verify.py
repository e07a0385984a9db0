"""`pamd verify`."""

from __future__ import annotations

import sys
from pathlib import Path

from pamd.errors import RunError


def verify(runs: list[Path], /) -> int:
    """Check all files of runs: config, versions, checkpoints, replay, logs, status, temporary files and links.

    The command prints one line per finding. The exit code is 0 if nothing is damaged and 1 otherwise. No file is
    changed: `pamd resume` cleans up after a kill by itself, and damage cannot be repaired without inventing data.

    Args:
        runs: run directories, or directories of run directories
    """
    from pamd.runs.verify import verify_run

    damaged = False
    for run in _run_directories(runs):
        findings = verify_run(run)
        lines = [f"{finding.file}: {'note: ' * finding.harmless}{finding.problem}" for finding in findings]
        broken = not all(finding.harmless for finding in findings)
        damaged |= broken
        lines += [] if broken else ["ok"]
        sys.stdout.writelines(f"{run}: {line}\n" for line in lines)
    return int(damaged)


def _run_directories(paths: list[Path]) -> list[Path]:
    """Return the given run directories. A directory that is not a run is replaced by the runs in it."""
    directories = []
    for path in paths:
        inside = [] if (path / "config.json").exists() else sorted(file.parent for file in path.glob("*/config.json"))
        directories += inside or [path]
    if not directories:
        raise RunError("verify: at least one run directory is required")
    return directories
