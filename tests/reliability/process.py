"""Run the `pamd` command in forked or new processes.

A forked process starts within milliseconds, because everything is already imported; a new one takes seconds. The parent
process never starts OpenGL or a torch thread pool, because neither survives a fork.
"""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.reliability.faults import Fault, install

from pamd.configuration import configure

__all__ = ["HANGS_SECONDS", "Process", "warm_up"]

HANGS_SECONDS = 1800.0
"""A process that has not ended after this time is considered hung, even on a busy machine."""

_IMPORTED = (
    "pamd.cli.train",
    "pamd.training.run",
    "pamd.envs.dmc",
    "pamd.envs.toy",
    "torch._dynamo",  # Imported by optimizers.
    "safetensors.torch",
    "tensorboard.summary.writer.record_writer",
    "tensorboard.compat.proto.event_pb2",
    "av",
    "gymnasium.wrappers",
    "scipy.ndimage",
    "scipy.special",
)
_POLL_SECONDS = 0.003


def warm_up() -> None:
    """Import everything that `pamd train` imports except MuJoCo, which starts OpenGL."""
    for module in _IMPORTED:
        importlib.import_module(module)
    configure("toy", "simsr+pamd")  # Imports the parts of an agent.


class Process:
    """One `pamd` command. Its output is written to the file `output`."""

    def __init__(self, words: Sequence[str], output: Path, fault: Fault | None = None, *, fork: bool = True) -> None:
        self.output = output
        self._code: int | None = None
        self.pid = _fork(words, output, fault) if fork else _spawn(words, output)

    def wait(self, seconds: float) -> int | None:
        """Return the exit code or the negative signal number, or None if the process still runs after `seconds`."""
        deadline = time.monotonic() + seconds
        while self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                return None
            else:
                time.sleep(_POLL_SECONDS)
        return self._code

    def send(self, number: signal.Signals) -> None:
        if self._code is None:
            os.kill(self.pid, number)

    def read_output(self) -> str:
        """Return the output so far."""
        return self.output.read_text(errors="replace")


def _spawn(words: Sequence[str], output: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [(os.POSIX_SPAWN_OPEN, 1, str(output), flags, 0o666), (os.POSIX_SPAWN_DUP2, 1, 2)]
    return os.posix_spawn(sys.executable, [sys.executable, "-m", "pamd", *words], os.environ, file_actions=actions)


def _fork(words: Sequence[str], output: Path, fault: Fault | None) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        if fault is not None:
            install(fault)
        code = _command(words)
    finally:
        # Never return to the code of the parent.
        os._exit(code)


def _command(words: Sequence[str]) -> int:
    """Run `python -m pamd WORDS` in this process and return the exit code."""
    sys.argv = ["pamd", *words]
    try:
        runpy.run_module("pamd", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except KeyboardInterrupt:
        return 130
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0
