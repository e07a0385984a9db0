"""A process that has imported everything and forks a new process for each run, so that a run does not import it again.

A run still has its own process: it starts from the state after the imports, in which nothing was computed, and its
results have the same bytes as in a new interpreter. Neither an OpenGL context nor a thread survives a fork, so the
process creates none. If it finds one, it starts new interpreters instead.

Orders and answers are lines of JSON: ["start", key, request, result, errors] and ["signal", key, number];
["ended", key, code], in which a negative code is a signal.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_SERVER = "from pamd.sweep.forks import serve; from pamd.sweep.worker import work; work(*serve())"
WORKER = "import sys; from pamd.sweep.worker import work; work(*sys.argv[1:])"
_IMPORTED = (
    "pamd.training.run",
    "pamd.training.evaluate",
    "pamd.replay.sample",
    "pamd.envs.dmc",
    "pamd.envs.toy",
    "torch._dynamo",  # Imported by optimizers.
    "safetensors.torch",
    "gymnasium.wrappers",
    "scipy.ndimage",
    "scipy.special",
    "av",
)
"""What runs import after `pamd.sweep.worker`, except MuJoCo, which starts OpenGL."""
_OPENGL = ("mujoco", "OpenGL.EGL")
_PAUSE, _PATIENCE = 0.02, 30.0
"""Seconds between two looks at a run that was killed, and until its server is killed as well."""


class Fork:
    """A run in a forked process, with the methods of `subprocess.Popen` that a worker needs."""

    def __init__(self, server: ForkServer, key: str) -> None:
        self._server, self._key = server, key
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.code(self._key)
        return self.returncode

    def terminate(self) -> None:
        self._server.signal(self._key, signal.SIGTERM)

    def kill(self) -> None:
        self._server.signal(self._key, signal.SIGKILL)

    def wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while self.poll() is None:
            if time.monotonic() > deadline:
                self._server.close()  # It hangs.
            time.sleep(_PAUSE)


class ForkServer:
    """The process that forks runs, as seen from the sweep. It ends when this object is closed or this process ends."""

    def __init__(self, environment: Mapping[str, str], errors: Path) -> None:
        with errors.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                env=dict(environment),
                start_new_session=True,  # Signals of a terminal reach only the sweep. It asks each run to stop once.
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._answers = self._process.stdin, self._process.stdout
        os.set_blocking(self._answers.fileno(), False)
        self._codes: dict[str, int] = {}
        self._lines = _Lines()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def start(self, key: str, request: Path, result: Path, errors: Path) -> Fork:
        """Start a run without waiting. `request` and `result` are files of `work`, `errors` gets its output."""
        self._codes.pop(key, None)
        self._send(["start", key, str(request), str(result), str(errors)])
        return Fork(self, key)

    def signal(self, key: str, number: int) -> None:
        """Send a signal to the process of a run, if it has not ended."""
        self._send(["signal", key, int(number)])

    def code(self, key: str) -> int | None:
        """Return the exit code of a run, or the negative number of a signal; None if it has not ended.

        If the server was killed, its code counts for its runs. They notice, write a checkpoint and end by themselves.
        """
        ended = self._process.poll()  # First, so that nothing is written after the last look.
        with contextlib.suppress(BlockingIOError):
            while data := b"" if self._answers.closed else os.read(self._answers.fileno(), 65536):
                for _, name, code in self._lines.add(data):
                    self._codes[name] = code
        return self._codes.get(key, ended)

    def close(self) -> None:
        """End the server at once. Runs that are still there notice, write a checkpoint and end by themselves."""
        self._process.kill()
        self._process.wait()
        self._orders.close()
        self._answers.close()

    def _send(self, order: Sequence[Any]) -> None:
        # Without a reader, the server has ended, and `code` tells.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._orders.write(json.dumps(order).encode() + b"\n")


class _Lines:
    """Splits what arrives in pieces into lines of JSON."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, data: bytes) -> Iterator[Any]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return map(json.loads, lines)


def serve() -> list[str]:
    """Answer orders until the sweep has ended. Returns only in a forked process, with the arguments of `work`."""
    orders, answers = os.dup(0), os.dup(1)
    # Output of a library must not look like an answer, and a run has no input.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # It writes to the pipe, and `select` returns.
    # A fork must not ask for its parent: it may have ended by then.
    server = os.getpid()
    forks, lines, children = _prepare(), _Lines(), dict[str, int]()
    while True:
        ready, _, _ = select.select([orders, wake], [], [])
        if wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 65536)
        for key, code in _reaped(children):
            with contextlib.suppress(BrokenPipeError):  # The sweep has ended.
                os.write(answers, json.dumps(["ended", key, code]).encode() + b"\n")
        if orders not in ready:
            continue
        if not (data := os.read(orders, 65536)):
            os._exit(0)  # The sweep has ended. The runs look at their parent, and write their checkpoints.
        for what, key, *words in lines.add(data):
            if what == "signal":
                if key in children:
                    os.kill(children[key], words[0])
            elif pid := os.fork() if forks else _spawn(words):
                children[key] = pid
            else:
                for handle in (orders, answers, wake, woken):
                    os.close(handle)
                return _become_worker(words, server)


def _prepare() -> bool:
    """Import what runs need and return whether this process may fork."""
    if sys.platform != "linux":
        return False
    try:
        for name in _IMPORTED:
            with contextlib.suppress(ImportError):  # The run itself says what is missing.
                importlib.import_module(name)
        from pamd.configuration import configure
        from pamd.runs.versions import versions

        configure("toy", "simsr+pamd")  # Imports the parts of an agent.
        versions()  # Asks git for the commit.
    except Exception:
        return False
    # Objects that are never collected are not written to, so the processes of runs share their memory.
    gc.collect()
    gc.freeze()
    return len(os.listdir("/proc/self/task")) == 1 and not any(name in sys.modules for name in _OPENGL)


def _reaped(children: dict[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the key and the code of each process that has ended, and forget it."""
    for key, pid in list(children.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            del children[key]
            yield key, os.waitstatus_to_exitcode(status)


def _spawn(words: Sequence[str]) -> int:
    """Start a new interpreter for a run and return its process."""
    request, result, errors = words
    command = [sys.executable, "-c", WORKER, request, result, str(os.getpid())]
    with open(errors, "wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    process.returncode = 0  # `_reaped` waits for it, not the object.
    return process.pid


def _become_worker(words: Sequence[str], parent: int) -> list[str]:
    """Make this forked process like a new one, and return the arguments of `work`."""
    request, result, errors = words
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    log = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    return [request, result, str(parent)]
