"""`make demo`: two agents learn a DMControl task from pixels at the same time, one with a behavioral metric.

`deepmdp` is the baseline: the same latent model and reward decoder, and no metric.

The demo takes 10 to 15 minutes on two idle cores. Each agent is an ordinary `pamd train` in its own process. At the
end, the demo writes a report page that shows the learning curves and the videos of both agents.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from pamd.configuration import configure
from pamd.methods import DEFAULT_METHOD
from pamd.report import learning_curves, load_run, page
from pamd.runs import read_progress
from pamd.runs.logs import read_log
from pamd.training.config import Runtime, TrainConfig, config_text, run_name
from pamd.training.process import Stop, stop_signals

# The settings of the demo: scale `cpu`, and a task on which progress is easy to see.
TASK, METHODS = "walker_stand", ("deepmdp", DEFAULT_METHOD)
DECISIONS, MOST = 12_000, 1000
"""MOST is the maximum return of the task."""
OPTIONS = {
    "scale": "cpu",
    "decisions": DECISIONS,
    "evaluate_every": 1000,
    "evaluate_episodes": 3,
    "checkpoint_every": 500,
    "log_every": 100,
}
ROOT = Path("demo")
COLUMNS = ("agent", "decisions", "progress", "time left", "untrained", "newest returns")
_SHOWN = 4
"""The number of newest returns in the live table."""
ON_ONE_CORE = ("--threads", "1", "--no-tensorboard", "--video", "last")


def main() -> int:
    console = Console()
    console.print(f"Training {' and '.join(METHODS)} on {TASK} from pixels, {DECISIONS:,} decisions each, in {ROOT}/.")
    console.print("Press Ctrl-C to stop both agents. Run `make demo` again to continue.\n")
    ROOT.mkdir(exist_ok=True)
    started = time.monotonic()
    runs = {method: ROOT / run_name(config(method)) for method in METHODS}
    with stop_signals() as stop:
        processes = {method: start(method) for method in METHODS}
        try:
            watch(processes, runs, console, stop)
        finally:
            for process in processes.values():
                process.terminate()  # An agent that still runs writes a checkpoint.
            for process in processes.values():
                process.wait()
    if stop.asked:
        console.print("Stopped. Run `make demo` again to continue.")
        return 130
    failed = [method for method, process in processes.items() if process.returncode]
    for method in failed:
        console.print(f"[red]{method} failed:[/]")
        console.print((ROOT / f"{method}.log").read_text()[-2000:], markup=False)
    if failed:
        return 1
    show(runs, console, (time.monotonic() - started) / 60)
    return 0


def config(method: str) -> TrainConfig:
    return configure(TASK, method, runtime=Runtime(), **OPTIONS)


def start(method: str) -> subprocess.Popen[bytes]:
    """Start `pamd train` in the background. Its output is written to demo/METHOD.log."""
    file = ROOT / f"{method}.json"
    file.write_text(config_text(config(method)))
    words = [sys.executable, "-m", "pamd", "train", "--config", str(file), "--runs", str(ROOT), *ON_ONE_CORE]
    with (ROOT / f"{method}.log").open("w") as log:
        # In a session of its own, an agent receives no signals of the terminal. The demo asks it to stop, once.
        return subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)


def watch(processes: dict[str, subprocess.Popen[bytes]], runs: dict[str, Path], console: Console, stop: Stop) -> None:
    """Show both runs until they end or a signal asks to stop. Without a terminal, print the table now and then."""
    began = time.monotonic()
    first = {method: read_progress(run).decisions for method, run in runs.items()}
    with Live(console=console, refresh_per_second=1, auto_refresh=console.is_terminal) as live:
        printed = began
        while True:
            now = time.monotonic()
            shown = table(runs, first, now - began)
            live.update(shown)
            if stop.asked or all(process.poll() is not None for process in processes.values()):
                return
            if not console.is_terminal and now - printed > 30:
                printed = now
                console.print(shown)
            time.sleep(2)


def table(runs: dict[str, Path], first: dict[str, int], seconds: float) -> Table:
    """Return a table of progress, time left and returns. `first` contains the decisions of each run `seconds` ago."""
    made = Table(*COLUMNS, box=None, pad_edge=False)  # At most 80 columns: a bar, and no frame.
    for method, run in runs.items():
        done = read_progress(run).decisions
        first_return, *returns = [f"{row['return_mean']:.0f}" for row in read_log(run / "eval.jsonl").rows] or [""]
        bar = ProgressBar(DECISIONS, done, width=10)
        left = time_left(done, done - first[method], seconds)
        made.add_row(method, f"{done:,}", bar, left, first_return, " ".join(returns[-_SHOWN:]))
    return made


def time_left(done: int, since: int, seconds: float) -> str:
    """Estimate the remaining time from the last `since` decisions, which took `seconds`."""
    if done >= DECISIONS:
        return "done"
    if since <= 0:
        return "..."
    minutes, rest = divmod(int((DECISIONS - done) * seconds / since), 60)
    return f"{minutes}:{rest:02d}"


def show(runs: dict[str, Path], console: Console, minutes: float) -> None:
    """Write the curves and the report page, and print a summary."""
    curves = [load_run(run).curve for run in runs.values()]
    random_play = random_return(runs)
    title = f"{TASK} from pixels"
    learning_curves(curves, ROOT / "learning_curves", baseline=random_play, title=title)
    written = page.build(list(runs.values()), ROOT / "report", title=f"Demo: {title}")
    console.print(f"\nDone in {minutes:.1f} minutes. Mean return on {TASK}:")
    console.print(f"  {'random actions':<14} {random_play:.0f}")
    console.print(f"  {'maximum':<14} {MOST}")
    last = [sum(curve.returns[-1]) / len(curve.returns[-1]) for curve in curves]
    for curve, mean in zip(curves, last, strict=True):
        console.print(f"  {curve.method:<14} {mean:.0f} after {curve.decisions[-1]:,} decisions")
    console.print(
        f"{sum(mean > random_play for mean in last)} of {len(last)} agents did better than random actions. This does"
        " not show which method is better: each has one seed, a short budget and small networks.\n"
    )
    console.print(f"Learning curves: {(ROOT / 'learning_curves.png').resolve()}", highlight=False, soft_wrap=True)
    console.print(f"Open the report with both videos: {written.resolve()}", highlight=False, soft_wrap=True)


def random_return(runs: dict[str, Path]) -> float:
    """Return the mean return of the episodes of the random phase, over both runs."""
    rows = [json.loads(line) for run in runs.values() for line in (run / "train.jsonl").read_text().splitlines()]
    random = config(METHODS[0]).learner.options.random_decisions
    returns = [row["return"] for row in rows if row["kind"] == "episode" and row["decisions"] <= random]
    return sum(returns) / len(returns)


if __name__ == "__main__":
    sys.exit(main())
