"""Asking a run to stop: the first signal at the next decision, the second at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Stop", "stop_signals"]


class Stop:
    """Set by SIGINT or SIGTERM; the loop reads it between decisions."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.asked:  # the second signal stops at once
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """A `Stop` that listens to SIGINT and SIGTERM; the handlers from before come back at the end."""
    stop = Stop()
    try:
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: its owner handles signals
        before = {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
