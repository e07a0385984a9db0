"""The time that the parts of training take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Stopwatch"]


class Stopwatch:
    """Seconds spent in named sections since the last reading."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._began, self._cpu = time.perf_counter(), time.process_time()

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start

    def read(self) -> tuple[float, dict[str, float]]:
        """Return the time since the last reading and the share of each section, and reset the watch.

        The share `cpu` is the processor time of the process: 1 for each fully used core.
        """
        now, cpu = time.perf_counter(), time.process_time()
        whole, seconds = now - self._began, {**self._seconds, "cpu": cpu - self._cpu}
        self._began, self._cpu, self._seconds = now, cpu, {}
        return whole, {name: round(spent / whole, 4) for name, spent in seconds.items()} if whole > 0 else {}
