"""The process of one local run: `python -m pamd.sweep.worker REQUEST RESULT PARENT`."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from pamd import atomic_io

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1
"""From Linux's prctl.h."""


def main(request: str, result: str, parent: str) -> None:
    _end_with(int(parent))
    from pamd.sweep.job import run_job

    outcome = run_job(*json.loads(Path(request).read_text()))
    # If the sweep has ended, its temporary files are gone. The run directory contains everything.
    with contextlib.suppress(FileNotFoundError):
        atomic_io.replace(Path(result), json.dumps(outcome).encode())


def _end_with(parent: int) -> None:
    """Make the kernel send SIGTERM when the sweep dies, so that this run writes a checkpoint and stops."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # The parent died before the call.
            sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
