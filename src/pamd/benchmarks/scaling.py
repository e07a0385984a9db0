"""The paper's table of latent-dimension scaling (tab:pamd_wallclock_scaling), measured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

from pamd.benchmarks.measure import Options, Table, interleave, milliseconds, ratio
from pamd.benchmarks.pipeline import TASK, session_of
from pamd.benchmarks.update import batch_of, make_agent, twice
from pamd.methods import scale
from pamd.training.clock import Stopwatch
from pamd.training.loop import decide, learn

__all__ = ["PAPER", "measure"]


class Published(NamedTuple):
    """One row of the paper's table: at d = 50 and at d = 200."""

    update_ms: tuple[float, float]
    steps_per_second: tuple[float, float]
    minutes: tuple[float, float]


PAPER = {
    "dbc": Published((28.37, 33.20), (31.60, 27.11), (52.8, 61.5)),
    "dbc-det+pamd": Published((28.96, 39.98), (31.14, 22.92), (53.5, 72.7)),
    "mico": Published((24.73, 26.11), (35.54, 33.87), (46.9, 49.2)),
    "simsr": Published((30.82, 32.60), (29.29, 27.84), (56.9, 59.9)),
    "simsr+pamd": Published((36.11, 39.19), (25.43, 23.57), (65.5, 70.7)),
}
"""tab:pamd_wallclock_scaling; on a GPU that the paper does not name, so only the changes compare with ours."""
DIMENSIONS = (50, 200)
DECISIONS = 100_000
"""What the paper's total times come to at its steps a second."""


def measure(options: Options) -> Table:
    rows = [_row(name, options) for name in PAPER]
    notes = (
        "Update: sequential schedule, paper scale; slower: median (quartiles) of time at d = 200 over time at d = 50, "
        "in turns; a turn is two updates.",
        f"decisions/s: whole decisions of training {TASK} at paper scale and with its standard rendering; "
        f"total: {DECISIONS:,} of them.",
        "Most of what d = 200 adds is not PAMD: the encoder's and actor's linear layers have four times the weights.",
        "paper: the published change; its absolute times are of another machine.",
    )
    return Table("scaling", f"latent dimension 50 against 200, {options.threads} threads", rows, notes)


def _row(name: str, options: Options) -> dict[str, Any]:
    updates = _updates(name, options)
    with ExitStack() as stack:
        runs: dict[str, Callable[[], object]] = {}
        for d in DIMENSIONS:
            session = stack.enter_context(session_of(name, "paper", "sequential", options.threads, d, warm_up=2))
            runs[str(d)] = _decisions(session)
        whole = interleave(runs, options.repetitions)
    row: dict[str, Any] = {"method": name}
    row |= {f"update ms, d={d}": round(milliseconds(updates[str(d)]) / 2, 1) for d in DIMENSIONS}
    row["slower"] = str(ratio(updates["200"], updates["50"]))
    for d in DIMENSIONS:
        seconds = milliseconds(whole[str(d)]) / 2000
        row |= {f"decisions/s, d={d}": round(1 / seconds, 2), f"total h, d={d}": round(DECISIONS * seconds / 3600, 1)}
    paper = PAPER[name]
    row["paper: slower"] = round(paper.update_ms[1] / paper.update_ms[0], 2)
    row["paper: total"] = round(paper.minutes[1] / paper.minutes[0], 2)
    return row


def _updates(name: str, options: Options) -> dict[str, list[float]]:
    batch = batch_of(scale("paper"))
    agents = {str(d): make_agent(name, latent_dim=d) for d in DIMENSIONS}
    return interleave({d: twice(agent, batch) for d, agent in agents.items()}, options.repetitions)


def _decisions(session: Any) -> Callable[[], None]:
    clock = Stopwatch()

    def run() -> None:
        for _ in range(2):
            decide(session, clock)
            learn(session, clock)

    return run
