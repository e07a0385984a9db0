"""One life of a run: from the start of a process to its end, by an interruption or by itself."""

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
"""The interruptions, each with the exit codes that it may lead to. A paused process goes on."""

_SIGNALS: tuple[Kind, ...] = ("SIGKILL", "SIGTERM", "SIGINT twice", "STOP/CONT")
_CALLS: dict[Kind, int] = {"fsync": 40, "rename": 10, "full disk": 40}
"""A fault comes at a call between the first and this one: about two checkpoints of a run."""
HANGS_SECONDS = 1800.0
"""A process that has not ended by then hangs, however busy the machine is."""
_TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Pace:
    """Seconds that a run takes where nothing interrupts it."""

    startup: float
    """From the start of a process to its first decision."""
    checkpoint: float
    """From one checkpoint to the next."""

    def moment(self, rng: np.random.Generator) -> float:
        """When to interrupt: now and then in the startup, mostly before the second checkpoint."""
        if rng.random() < 0.2:
            return rng.uniform(0.0, self.startup)
        return self.startup + rng.uniform(0.0, 2 * self.checkpoint)

    def slower(self, factor: float) -> Pace:
        return Pace(self.startup * factor, self.checkpoint * factor)


@dataclass(frozen=True)
class Life:
    """How a process ended, and by what."""

    kinds: tuple[Kind, ...]
    """The interruptions that came before it ended: any number of pauses, then at most one more."""
    code: int
    problem: str | None
    """What should not have happened: a traceback, an exit code that no interruption explains, or no end at all."""


def live(words: Sequence[str], output: Path, rng: np.random.Generator, pace: Pace, *, fork: bool) -> Life:
    """Start `pamd WORDS` and interrupt it at a random moment."""
    kinds = tuple(KINDS) if fork else _SIGNALS
    kind = kinds[rng.integers(len(kinds))]
    fault = _fault(kind, rng) if kind in _CALLS else None
    process = Process(words, output, fault, fork=fork)
    came = [] if fault else _signal(process, kind, rng, pace)
    code = process.wait(HANGS_SECONDS)
    if code is None:
        process.send(signal.SIGKILL)
        process.wait(HANGS_SECONDS)
        return Life(tuple(came), -signal.SIGKILL, f"no end within {HANGS_SECONDS:.0f} s after {came or kind}")
    if fault and code != 0:
        came = [kind]
    return Life(tuple(came), code, _problem(came, code, process.said()))


def _fault(kind: Kind, rng: np.random.Generator) -> Fault:
    at: Literal["fsync", "rename", "write"] = (
        "write" if kind == "full disk" else "fsync" if kind == "fsync" else "rename"
    )
    return Fault(at, int(rng.integers(1, _CALLS[kind] + 1)), after=bool(rng.integers(2)))


def _signal(process: Process, kind: Kind, rng: np.random.Generator, pace: Pace) -> list[Kind]:
    """Send what `kind` says, unless the process ends before; the interruptions that were sent."""
    came: list[Kind] = []
    while process.wait(pace.moment(rng)) is None:
        came.append(kind)
        if kind != "STOP/CONT":
            break
        process.send(signal.SIGSTOP)
        time.sleep(rng.uniform(0.0, 0.1))
        process.send(signal.SIGCONT)
        kind = _SIGNALS[rng.integers(len(_SIGNALS))]
    if not came or came[-1] == "STOP/CONT":
        return came
    if kind == "SIGKILL":
        process.send(signal.SIGKILL)
    elif kind == "SIGTERM":
        process.send(signal.SIGTERM)
    else:
        process.send(signal.SIGINT)
        # Some second signals come at once, some when the first one is being obeyed, some too late.
        if process.wait(rng.choice([0.0, 0.02, 0.1])) is None:
            process.send(signal.SIGINT)
    return came


def _problem(came: Sequence[Kind], code: int, said: str) -> str | None:
    explained = (0, *(KINDS[came[-1]] if came else ()))
    if code in explained and (_TRACEBACK not in said or _interpreter_interrupted(came, said)):
        return None
    return f"exit code {code} after {', '.join(came) or 'no interruption'}: {said[-2000:].strip()}"


def _interpreter_interrupted(came: Sequence[Kind], said: str) -> bool:
    """Whether SIGINT met Python itself, before the command began or after it ended: only Python can speak then."""
    last = said.rstrip(": \n").endswith("KeyboardInterrupt")
    return list(came[-1:]) == ["SIGINT twice"] and said.count(_TRACEBACK) == 1 and last
