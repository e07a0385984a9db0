"""`pamd verify`."""

from __future__ import annotations

import sys
from pathlib import Path

from pamd.errors import RunError

__all__ = ["verify"]


def verify(
    runs: list[Path],
    /,
    *,
    repair: bool = False,
) -> int:
    """Check all files of runs: config, versions, checkpoints, replay, logs, status, temporary files and links.

    The command prints one line per finding. The exit code is 0 if nothing is damaged and 1 otherwise. Without
    --repair, no file is changed.

    Args:
        runs: run directories, or directories of run directories
        repair: apply safe repairs: remove temporary files, remove broken checkpoints if a complete one exists, truncate
            logs to the checkpoint, drop unreadable rows (listed in repairs.jsonl) and correct the status
    """
    from pamd.training.verify import repair_run, verify_run

    damaged = False
    for run in _run_directories(runs):
        done, found = repair_run(run) if repair else ([], verify_run(run))
        lines = [f"{finding.file}: {finding.problem}; repaired: {what}" for finding, what in done]
        lines += [f"{finding.file}: {'note: ' * finding.harmless}{finding.problem}" for finding in found]
        broken = [finding for finding in found if not finding.harmless]
        damaged |= bool(broken)
        lines += [] if broken else ["ok"]
        sys.stdout.writelines(f"{run}: {line}\n" for line in lines)
    return int(damaged)


def _run_directories(paths: list[Path]) -> list[Path]:
    """Return the given run directories. A directory that is not a run is replaced by the runs in it."""
    found = []
    for path in paths:
        inside = [] if (path / "config.json").exists() else sorted(file.parent for file in path.glob("*/config.json"))
        found += inside or [path]
    if not found:
        raise RunError("verify: at least one run directory is required")
    return found
