"""Progress of work with a known number of steps: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

__all__ = ["Steps"]

_LINE_SECONDS = 15.0


class Steps:
    """Called with the name of the task, the finished steps and the total (`pamd.diagnostics.base.Progress`)."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bar: Progress | None = None
        self._what: str | None = None
        self._task: int | None = None
        self._printed = 0.0

    def __enter__(self) -> Steps:
        if self._console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            self._bar = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=self._console)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, message: str) -> None:
        self._console.print(message, highlight=False, soft_wrap=True, markup=False)

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._bar is not None:
            if what != self._what or self._task is None:
                self._task = int(self._bar.add_task(what, total=total))
            self._bar.update(self._task, completed=done, total=total)  # type: ignore[arg-type]
        elif done >= total or time.monotonic() - self._printed > _LINE_SECONDS:
            self._printed = time.monotonic()
            self.say(f"{what}  {done:,}/{total:,}")
        self._what = what
