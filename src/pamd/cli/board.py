"""A live table of the runs of a sweep. Without a terminal, plain lines are printed instead."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pamd.runs import Progress, read_progress
from pamd.sweep import Tracked

__all__ = ["Board", "duration"]

_REFRESH, _LINES = 1.0, 60.0
_ROWS = 40
"""The maximum number of rows in the live table. Further runs are only counted."""
_ORDER = ("running", "failed", "interrupted", "waiting", "finished")
_COLORS = {"running": "cyan", "failed": "red", "interrupted": "yellow", "finished": "green"}


class Board:
    """Displays the progress of a sweep. It reads the run directories, so it works the same for every backend."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live: Live | None = None
        self._shown = 0.0
        self._began: dict[str, tuple[float, int]] = {}
        """The first observed (time, decisions) of each run, and of all runs together."""
        self._known: dict[tuple[str, str], Progress] = {}
        """The states of runs that are not running. Their files are read only once."""

    def __enter__(self) -> Board:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, message: str) -> None:
        self._console.print(message, highlight=False, soft_wrap=True, markup=False)

    def changed(self, run: Tracked) -> None:
        self._shown = 0.0
        if run.skipped:
            return
        name, again = _name(run), f", attempt {run.attempts}" if run.attempts > 1 else ""
        if run.state == "waiting":
            self.say(f"{name}: {run.error}; retrying from its last checkpoint")
        elif run.state == "running":
            self.say(f"{name}: started{again}")
        else:
            last = read_progress(run.job.path).last_return
            result = f", return {last:.1f}" if last is not None and run.state == "finished" else ""
            self.say(f"{name}: {run.state}{result}" + (f": {run.error}" if run.error else ""))

    def show(self, runs: Sequence[Tracked]) -> None:
        now = time.monotonic()
        if now - self._shown < (_REFRESH if self._live else _LINES):
            return
        first, self._shown = self._shown == 0.0, now
        if self._live is not None:
            self._live.update(self._table(runs, now), refresh=True)
        elif not first:
            for run in runs:
                if run.state == "running":
                    self.say("  ".join([_name(run), *self._progress(run, now)]))
            self.say(self._counts(runs, now))

    def _table(self, runs: Sequence[Tracked], now: float) -> Table:
        shown = sorted(runs, key=lambda run: _ORDER.index(run.state))[:_ROWS]
        table = Table("run", "state", "decisions", "return", "time left", caption=self._counts(runs, now), box=None)
        for run in shown:
            done, last, left = self._progress(run, now)
            again = f" ({run.attempts})" if run.attempts > 1 else ""
            state = Text(f"{run.state}{again}", _COLORS.get(run.state, ""))
            table.add_row(_name(run), state, done, last, left)
        return table

    def _progress(self, run: Tracked, now: float) -> tuple[str, str, str]:
        seen, total = self._read(run), run.job.config.decisions
        left = ""
        if run.state == "running" and seen.decisions:
            left = self._left(f"{run.job.name}/{run.attempts}", now, seen.decisions, total)
        last = "" if seen.last_return is None else f"{seen.last_return:.1f}"
        return f"{seen.decisions:,}/{total:,}", last, left

    def _left(self, what: str, now: float, done: int, total: int) -> str:
        """Estimate the remaining time from the rate since `what` was first seen; "" if there is no rate yet."""
        began, first = self._began.setdefault(what, (now, done))
        return duration((total - done) * (now - began) / (done - first)) if done > first else ""

    def _counts(self, runs: Sequence[Tracked], now: float) -> str:
        counts: Counter[str] = Counter(run.state for run in runs)
        text = ", ".join(f"{counts[state]} {state}" for state in _ORDER if counts[state])
        open_ = [run for run in runs if run.state in ("running", "waiting", "finished")]
        left = self._left(
            "all", now, sum(self._read(run).decisions for run in open_), sum(run.job.config.decisions for run in open_)
        )
        return f"{text}; {left} left in total" if left else text

    def _read(self, run: Tracked) -> Progress:
        if run.state == "running":
            return read_progress(run.job.path)
        key = (run.job.name, run.state)
        if key not in self._known:
            self._known[key] = read_progress(run.job.path)
        return self._known[key]


def _name(run: Tracked) -> str:
    return f"{run.job.config.env.task} {run.job.label} s{run.job.config.seed}"


def duration(seconds: float) -> str:
    """Format seconds as rounded seconds, minutes, hours or days."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 5 * 86400 else f"{seconds / 86400:,.0f} days"
