"""Stop signals. The first signal stops a run at the next decision, the second one immediately."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Stop", "stop_signals"]


class Stop:
    """A flag that SIGINT or SIGTERM sets. The loop reads it between decisions."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.asked:  # The second signal stops immediately.
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Return a `Stop` that handles SIGINT and SIGTERM. The previous handlers are restored on exit."""
    stop = Stop()
    try:
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # Only the main thread can set signal handlers.
        before = {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
