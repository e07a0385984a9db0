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
    """Check every file of runs: config, versions, checkpoints, replay, logs, status, temporaries, links.

    Prints one line per finding. The exit code is 0 if nothing is damaged and 1 otherwise. Nothing changes without
    --repair.

    Args:
        runs: run directories, or directories of run directories
        repair: repair what is safe: remove temporary files, and broken checkpoints if a complete one is left; cut logs
            back to the checkpoint; drop unreadable rows (listed in repairs.jsonl); correct the status
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
    """The given directories, or the runs in them where they are no runs themselves."""
    found = []
    for path in paths:
        inside = [] if (path / "config.json").exists() else sorted(file.parent for file in path.glob("*/config.json"))
        found += inside or [path]
    if not found:
        raise RunError("verify: name at least one run directory")
    return found
