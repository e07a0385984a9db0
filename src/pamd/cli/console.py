"""What commands show while they work: text, progress bars and the clips of a run. Without a terminal, plain lines."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from pamd.envs import DistractorConfig, EnvConfig
    from pamd.training.config import TrainConfig
    from pamd.training.session import Session

_NAMES = 5
"""The number of clips that are named."""

_BarT = TypeVar("_BarT", bound="_Bar")


def print_text(text: str, *, stderr: bool = True) -> None:
    """Print `text` unchanged: no markup, no colors, no wrapping."""
    console = error_console(highlight=False) if stderr else Console(highlight=False)
    console.print(text, soft_wrap=True, markup=False)


def error_console(**options: Any) -> Console:
    """Return a console on stderr. If the terminal is lost, what is printed is lost as well, and the command goes on."""
    return Console(file=_Errors(), **options)  # type: ignore[arg-type]


class _Errors:
    """stderr, which ignores that it cannot be written."""

    def __init__(self) -> None:
        # A live display replaces sys.stderr by one that prints above it.
        self._stream = getattr(sys.stderr, "rich_proxied_file", sys.stderr)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


class _Bar:
    """A bar on a terminal, and a line every `seconds` elsewhere."""

    def __init__(self, console: Console | None, seconds: float, *columns: ProgressColumn) -> None:
        self._console = console or error_console()
        self._seconds = seconds
        self._printed = time.monotonic()
        self._bar = Progress(*columns, console=self._console, refresh_per_second=2)
        self._task: Any = None

    def __enter__(self: _BarT) -> _BarT:
        return self

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            self._bar.stop()

    def say(self, message: str) -> None:
        self._console.print(message, highlight=False, soft_wrap=True, markup=False)

    def _begin(self, what: str, total: int, **fields: Any) -> None:
        if self._console.is_terminal:
            self._task = self._bar.add_task(what, total=total, **fields)
            self._bar.start()

    def _line_is_due(self) -> bool:
        now = time.monotonic()
        if self._task is not None or now - self._printed <= self._seconds:
            return False
        self._printed = now
        return True


class Steps(_Bar):
    """Called with the name of the task, the finished steps and the total (`pamd.diagnostics.base.Progress`)."""

    def __init__(self, console: Console | None = None) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        super().__init__(console, 15.0, *columns, TimeElapsedColumn(), TimeRemainingColumn())
        self._what: str | None = None
        self._printed = 0.0  # The first step is shown at once.

    def __call__(self, what: str, done: int, total: int) -> None:
        if what != self._what:
            self._begin(what, total)
        self._what = what
        if self._task is not None:
            self._bar.update(self._task, completed=done, total=total)
        elif self._line_is_due() or done >= total:
            self.say(f"{what}  {done:,}/{total:,}")


class Display(_Bar):
    """An `Observer` of the training loop: rate, remaining time and last return."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__(
            console,
            30.0,
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[last]}"),
        )
        self._start: tuple[float, int] | None = None
        """The time and the number of decisions when this process began."""

    def progress(self, session: Session) -> None:
        done, total, now = session.budget.decisions, session.config.decisions, time.monotonic()
        if self._start is None:
            self._start = now, done
            self._begin(f"{session.config.env.task} {session.config.label}", total, rate="", last="")
        began, first = self._start
        rate = (done - first) / (now - began) if now > began else 0.0
        last = "" if session.last_return is None else f"return {session.last_return:.1f}"
        if self._task is not None:
            self._bar.update(self._task, completed=done, rate=f"{rate:.1f}/s", last=last)
        elif self._line_is_due():
            left = (total - done) / rate / 60 if rate else float("inf")
            self.say(f"decision {done:,}/{total:,}  {rate:.1f}/s  {left:.0f} min left  {last}")


def prepare_clips(config: TrainConfig, say: Callable[[str], None]) -> TrainConfig:
    """Choose and decode the clips of `config`, report them with `say`, and return the completed config."""
    return dataclasses.replace(config, env=prepare_env_clips(config.env, say))


def prepare_env_clips(config: EnvConfig, say: Callable[[str], None]) -> EnvConfig:
    """Choose and decode the clips of `config`, report them with `say`, and return the completed config."""
    from pamd.envs import prepare_env

    with Steps() as steps:
        made = prepare_env(config, lambda done, total, name: steps("decoding clips", done, total))
    if made.distractor is not None:
        say(_describe(made.distractor, config.size))
    return made


def _describe(distractor: DistractorConfig, size: int) -> str:
    from pamd.envs.distractors.cache import cache_directory, forecast

    if not distractor.has_clips:
        return f"distractor {distractor.name} has no clips, so there are no unseen backgrounds"
    sides = []
    for refs, side in ((distractor.train, "in training"), (distractor.unseen, "unseen")):
        names = ", ".join(ref.name for ref in refs[:_NAMES]) + (", ..." if len(refs) > _NAMES else "")
        sides.append(f"{len(refs)} clips {side} ({names})")
    most = forecast(len(distractor.train) + len(distractor.unseen), size, distractor.frames) / 1e6
    where = f"at most {most:.0f} MB in {cache_directory()}"
    return f"distractor {distractor.name}: {'; '.join(sides)}; {where}"
