"""`make demo`: a bisimulation method and its PAMD version learn a real DMControl task from pixels, side by side.

About ten minutes on two cores. Each is an ordinary `pamd train` in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from pamd.configuration import configure
from pamd.report import learning_curves, load_run
from pamd.report.logs import read_log
from pamd.training.config import Runtime, config_text, run_name

TASK, METHODS, DECISIONS, RANDOM = "cheetah_run", ("dbc-det", "dbc-det+pamd"), 10_000, 500
REPEAT = 8
ROOT = Path("demo")
ON_ONE_CORE = ("--threads", "1", "--no-tensorboard", "--video", "last")


def main() -> int:
    console = Console()
    console.print(f"Training {' and '.join(METHODS)} on {TASK} from pixels, {DECISIONS:,} decisions each, in {ROOT}/.")
    console.print("Ctrl-C stops both; rerun `make demo` to continue.\n")
    ROOT.mkdir(exist_ok=True)
    started, processes = time.monotonic(), {}
    for method in METHODS:
        file = ROOT / f"{method}.json"
        file.write_text(config_text(config(method)))
        words = [sys.executable, "-m", "pamd", "train", "--config", str(file), "--runs", str(ROOT), *ON_ONE_CORE]
        log = (ROOT / f"{method}.log").open("w")
        processes[method] = subprocess.Popen(words, stdout=log, stderr=log)
    runs = {method: ROOT / run_name(config(method)) for method in METHODS}
    try:
        watch(processes, runs, console)
    except KeyboardInterrupt:
        for process in processes.values():
            process.wait()  # Ctrl-C reached them too: they are writing their checkpoints.
        console.print("Stopped; rerun `make demo` to continue.")
        return 130
    failed = [method for method, process in processes.items() if process.returncode]
    for method in failed:
        console.print(f"[red]{method} failed:[/] {(ROOT / f'{method}.log').read_text()[-2000:]}")
    if failed:
        return 1
    show(runs, console, (time.monotonic() - started) / 60)
    return 0


def config(method: str):
    """The CPU scale, smaller still: two runs share two cores."""
    settings = ("env.size=40", "encoder.strides=[2,2,1]", "encoder.filters=16", "learner.batch=48", "log_every=100")
    # The random phase is short and, as in the released code, its transitions are learned from in one go. Slow copies
    # follow faster than in the paper: value must spread within minutes, not hours.
    settings += (f"learner.random_decisions={RANDOM}", f"learner.first_updates={RANDOM}")
    settings += ("learner.critic_tau=0.02", "method.encoder_tau=0.05")
    return configure(
        TASK,
        method,
        fidelity="released",
        scale="cpu",
        schedule="joint",
        action_repeat=REPEAT,
        decisions=DECISIONS,
        evaluate_every=1000,
        evaluate_episodes=3,
        checkpoint_every=500,
        settings=settings,
        runtime=Runtime(),
    )


def watch(processes: dict[str, subprocess.Popen[bytes]], runs: dict[str, Path], console: Console) -> None:
    """A table of both runs until they end; where there is no terminal, printed anew every half minute."""
    with Live(console=console, refresh_per_second=1, auto_refresh=console.is_terminal) as live:
        printed = time.monotonic()
        while True:
            live.update(table(runs))
            if all(process.poll() is not None for process in processes.values()):
                return
            if not console.is_terminal and time.monotonic() - printed > 30:
                printed = time.monotonic()
                console.print(table(runs))
            time.sleep(2)


def table(runs: dict[str, Path]) -> Table:
    made = Table("method", "decision", "a second", "return at each evaluation (first: untrained)")
    for method, run in runs.items():
        timing, evaluations = read_log(run / "timing.jsonl").rows, read_log(run / "eval.jsonl").rows
        rows = read_log(run / "train.jsonl").rows
        decision = rows[-1]["decisions"] if rows else 0
        rate = timing[-1]["decisions_per_second"] if timing else 0.0
        returns = " ".join(f"{row['return_mean']:.0f}" for row in evaluations)
        made.add_row(method, f"{decision:,}/{DECISIONS:,}", f"{rate:.1f}", returns)
    return made


def show(runs: dict[str, Path], console: Console, minutes: float) -> None:
    """Curves, videos and where they are."""
    curves = [load_run(run).curve for run in runs.values()]
    random_play = random_return(runs)
    written = learning_curves(
        curves, ROOT / "learning_curves", baseline=random_play, title=f"{TASK} from pixels, action repeat {REPEAT}"
    )
    console.print(f"\nDone in {minutes:.1f} minutes. Random play returned {random_play:.0f} on average.")
    for curve in curves:
        last = sum(curve.returns[-1]) / len(curve.returns[-1])
        console.print(f"  {curve.method:<14} {last:.0f} after {curve.decisions[-1]:,} decisions")
    console.print("One seed and a short budget: this shows the machinery at work, not which method is better.\n")
    for path in (*written, *(video for run in runs.values() for video in (run / "video").glob("*.mp4"))):
        console.print(f"  {path}", highlight=False, soft_wrap=True)


def random_return(runs: dict[str, Path]) -> float:
    """The mean return of the episodes of the random phase, over both runs."""
    rows = [json.loads(line) for run in runs.values() for line in (run / "train.jsonl").read_text().splitlines()]
    returns = [row["return"] for row in rows if row["kind"] == "episode" and row["decisions"] <= RANDOM]
    return sum(returns) / len(returns)


if __name__ == "__main__":
    sys.exit(main())
