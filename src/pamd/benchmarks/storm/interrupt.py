"""Start one process of a run, interrupt it, and check how it ends."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from pamd.benchmarks.storm.faults import Fault
from pamd.benchmarks.storm.process import Process

__all__ = ["HANGS_SECONDS", "KINDS", "Kind", "Life", "Pace", "live"]

Kind = Literal["SIGKILL", "SIGTERM", "SIGINT twice", "STOP/CONT", "fsync", "rename", "full disk"]

KINDS: dict[Kind, tuple[int, ...]] = {
    "SIGKILL": (-signal.SIGKILL,),
    "SIGTERM": (130, -signal.SIGTERM),
    "SIGINT twice": (130, -signal.SIGINT),
    "STOP/CONT": (),
    "fsync": (-signal.SIGKILL,),
    "rename": (-signal.SIGKILL,),
    "full disk": (2,),
}
"""The interruptions and their allowed exit codes. A paused process continues."""

_SIGNALS: tuple[Kind, ...] = ("SIGKILL", "SIGTERM", "SIGINT twice", "STOP/CONT")
_CALLS: dict[Kind, int] = {"fsync": 40, "rename": 10, "full disk": 40}
"""The last call at which a fault can occur, after about two checkpoints."""
HANGS_SECONDS = 1800.0
"""A process that has not ended after this time is considered hung, even on a busy machine."""
_TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Pace:
    """The timing of an uninterrupted run in seconds."""

    startup: float
    """From the start of a process to its first decision."""
    checkpoint: float
    """From one checkpoint to the next."""

    def moment(self, rng: np.random.Generator) -> float:
        """Draw the time of an interruption: sometimes during startup, mostly before the second checkpoint."""
        if rng.random() < 0.2:
            return rng.uniform(0.0, self.startup)
        return self.startup + rng.uniform(0.0, 2 * self.checkpoint)

    def slower(self, factor: float) -> Pace:
        return Pace(self.startup * factor, self.checkpoint * factor)


@dataclass(frozen=True)
class Life:
    """The end of a process and its cause."""

    kinds: tuple[Kind, ...]
    """The interruptions before the end: any number of pauses, and at most one other."""
    code: int
    problem: str | None
    """A failure: a traceback, an unexpected exit code, or a process that does not end."""


def live(words: Sequence[str], output: Path, rng: np.random.Generator, pace: Pace, *, fork: bool) -> Life:
    """Start `pamd WORDS` and interrupt it at a random moment."""
    kinds = tuple(KINDS) if fork else _SIGNALS
    kind = kinds[rng.integers(len(kinds))]
    fault = _fault(kind, rng) if kind in _CALLS else None
    process = Process(words, output, fault, fork=fork)
    interruptions = [] if fault else _signal(process, kind, rng, pace)
    code = process.wait(HANGS_SECONDS)
    if code is None:
        process.send(signal.SIGKILL)
        process.wait(HANGS_SECONDS)
        return Life(
            tuple(interruptions), -signal.SIGKILL, f"no end within {HANGS_SECONDS:.0f} s after {interruptions or kind}"
        )
    if fault and code != 0:
        interruptions = [kind]
    return Life(tuple(interruptions), code, _problem(interruptions, code, process.read_output()))


def _fault(kind: Kind, rng: np.random.Generator) -> Fault:
    at: Literal["fsync", "rename", "write"] = (
        "write" if kind == "full disk" else "fsync" if kind == "fsync" else "rename"
    )
    return Fault(at, int(rng.integers(1, _CALLS[kind] + 1)), after=bool(rng.integers(2)))


def _signal(process: Process, kind: Kind, rng: np.random.Generator, pace: Pace) -> list[Kind]:
    """Send the signals of `kind` unless the process ends first. Return the interruptions that were sent."""
    interruptions: list[Kind] = []
    while process.wait(pace.moment(rng)) is None:
        interruptions.append(kind)
        if kind != "STOP/CONT":
            break
        process.send(signal.SIGSTOP)
        time.sleep(rng.uniform(0.0, 0.1))
        process.send(signal.SIGCONT)
        kind = _SIGNALS[rng.integers(len(_SIGNALS))]
    if not interruptions or interruptions[-1] == "STOP/CONT":
        return interruptions
    if kind == "SIGKILL":
        process.send(signal.SIGKILL)
    elif kind == "SIGTERM":
        process.send(signal.SIGTERM)
    else:
        process.send(signal.SIGINT)
        # The second signal may arrive immediately, while the first is handled, or too late.
        if process.wait(rng.choice([0.0, 0.02, 0.1])) is None:
            process.send(signal.SIGINT)
    return interruptions


def _problem(interruptions: Sequence[Kind], code: int, output: str) -> str | None:
    allowed = (0, *(KINDS[interruptions[-1]] if interruptions else ()))
    if code in allowed and (_TRACEBACK not in output or _interpreter_interrupted(interruptions, output)):
        return None
    return f"exit code {code} after {', '.join(interruptions) or 'no interruption'}: {output[-2000:].strip()}"


def _interpreter_interrupted(interruptions: Sequence[Kind], output: str) -> bool:
    """Return whether SIGINT interrupted the interpreter itself, before the command began or after it ended."""
    last = output.rstrip(": \n").endswith("KeyboardInterrupt")
    return list(interruptions[-1:]) == ["SIGINT twice"] and output.count(_TRACEBACK) == 1 and last
