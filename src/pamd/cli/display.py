"""Training progress: a bar with rate, remaining time and last return. Without a terminal, plain lines are printed."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pamd.training.session import Session

__all__ = ["Display"]

_LINE_SECONDS = 30.0


class Display:
    """An `Observer` of the training loop."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._bar: Progress | None = None
        self._task: int | None = None
        self._began = time.monotonic()
        self._printed = self._began
        self._first = 0

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, message: str) -> None:
        self._console.print(message, highlight=False, soft_wrap=True)

    def progress(self, session: Session) -> None:
        done, total = session.budget.decisions, session.config.decisions
        now = time.monotonic()
        if self._task is None:
            self._start(session)
            self._began, self._first = now, done
        rate = (done - self._first) / (now - self._began) if now > self._began else 0.0
        last = "" if session.last_return is None else f"return {session.last_return:.1f}"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, rate=f"{rate:.1f}/s", last=last)  # type: ignore[arg-type]
        elif now - self._printed > _LINE_SECONDS:
            self._printed = now
            left = (total - done) / rate / 60 if rate else float("inf")
            self.say(f"decision {done:,}/{total:,}  {rate:.1f}/s  {left:.0f} min left  {last}")

    def _start(self, session: Session) -> None:
        self._task = 0
        if not self._console.is_terminal:
            return
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[last]}"),
            console=self._console,
            refresh_per_second=2,
        )
        label = f"{session.config.env.task} {session.config.label}"
        self._task = int(self._bar.add_task(label, total=session.config.decisions, rate="", last=""))
        self._bar.start()
