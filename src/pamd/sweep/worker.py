"""The process of one local run: `python -m pamd.sweep.worker REQUEST RESULT PARENT`."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from pamd import durable

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1
"""From Linux's prctl.h."""


def main(request: str, result: str, parent: str) -> None:
    _end_with(int(parent))
    from pamd.sweep.job import run_job

    outcome = run_job(*json.loads(Path(request).read_text()))
    # Without the sweep its own files are gone too; the run directory has everything.
    with contextlib.suppress(FileNotFoundError):
        durable.replace(Path(result), json.dumps(outcome).encode())


def _end_with(parent: int) -> None:
    """Let the system send SIGTERM, hence a checkpoint, when the sweep dies: nothing else would stop this run."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # It died before the call.
            sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
