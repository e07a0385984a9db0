"""The loop: evaluate, save, act, step, update. One screen; what it holds is in `session`."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Protocol

import torch

from pamd.agent.meters import read_meters, warnings
from pamd.errors import CheckpointError, DivergenceError, PamdError, RunInterrupted
from pamd.training import checkpoint
from pamd.training.clock import Every, Stopwatch
from pamd.training.config import Runtime, TrainConfig, prepare
from pamd.training.evaluate import evaluate
from pamd.training.run import RunDirectory
from pamd.training.session import Session
from pamd.training.video import write_video
from pamd.types import Batch

__all__ = ["Observer", "decide", "learn", "resume", "train"]


class Observer(Protocol):
    """Who wants to watch: a progress display."""

    def progress(self, session: Session) -> None:
        """Called after every decision."""

    def say(self, message: str) -> None:
        """Something a person should know."""


class _Nobody:
    def progress(self, session: Session) -> None:
        pass

    def say(self, message: str) -> None:
        pass


def train(config: TrainConfig, root: str | Path = "runs", observer: Observer | None = None) -> Path:
    """Train, and return the run directory. A run of the same config that was interrupted goes on."""
    return _run(RunDirectory.create(Path(root), prepare(config)), observer or _Nobody())


def resume(path: str | Path, runtime: Runtime | None = None, observer: Observer | None = None) -> Path:
    """Go on with the run in `path` from its newest whole checkpoint."""
    return _run(RunDirectory.open(Path(path), runtime), observer or _Nobody())


def _run(run: RunDirectory, observer: Observer) -> Path:
    if run.status().get("state") == "finished":
        observer.say(f"{run.path} is finished already")
        return run.path
    run.lock()
    try:
        session = Session(run)
        try:
            _begin_or_restore(session, observer)
            with _stop_signals() as stop:
                _loop(session, observer, stop)
            run.write_status("finished", **session.budget._asdict(), seconds=round(session.seconds, 1))
        except RunInterrupted:
            run.write_status("interrupted", **session.budget._asdict())
            raise
        except PamdError as error:
            run.write_status("failed", error=str(error), **session.budget._asdict())
            raise
        finally:
            session.close()
    finally:
        run.unlock()
    return run.path


def _begin_or_restore(session: Session, observer: Observer) -> None:
    found, complaints = checkpoint.newest(session.run.checkpoints)
    for complaint in complaints:
        observer.say(f"{complaint}; falling back to the one before")
    if found is not None:
        tensors, state, path = found
        session.restore(tensors, state)
        observer.say(f"resuming {session.run.path} from checkpoint {path.name}")
    elif complaints:
        raise CheckpointError(f"no whole checkpoint is left in {session.run.checkpoints}; remove the run to start anew")
    else:
        session.begin()


def _loop(session: Session, observer: Observer, stop: _Stop) -> None:
    config, run, clock = session.config, session.run, Stopwatch()
    evaluation_due, checkpoint_due = Every(config.evaluate_every), Every(config.checkpoint_every)
    run.write_status("running", **session.budget._asdict())
    saved_at = session.budget.decisions
    while True:
        decisions, last = session.budget.decisions, session.budget.decisions >= config.decisions
        if (evaluation_due(decisions) or last) and session.evaluated_at != decisions and not stop.asked:
            _evaluate(session, clock, stop, last)
        if decisions != saved_at and (checkpoint_due(decisions) or session.replay.needs_sync or last or stop.asked):
            _check_finite(session)  # what is saved must be from before a divergence
            with clock.section("checkpoint"):
                session.save()
            saved_at = decisions
            run.write_status("running", **session.budget._asdict())
        if stop.asked:
            raise RunInterrupted(f"{run.path} was stopped at decision {decisions}; `pamd resume {run.path}` goes on")
        if last:
            return
        decide(session, clock)
        learn(session, clock)
        _say_once(session, observer)
        observer.progress(session)


def _say_once(session: Session, observer: Observer) -> None:
    """Hand on what the meters warn of, each kind once: its first words are its name."""
    for warning in session.warnings:
        kind = warning.partition(":")[0]
        if kind not in session.warned:
            session.warned.add(kind)
            observer.say(f"at decision {session.budget.decisions}: {warning}")
    session.warnings.clear()


def decide(session: Session, clock: Stopwatch) -> None:
    """One decision: act, step, store."""
    agent, env, sac = session.agent, session.env, session.config.method.sac
    with clock.section("act"):
        if session.budget.decisions < sac.random_decisions:
            action = session.rng.uniform(-1, 1, env.action_space.shape).astype("float32")
        else:
            action = agent.act(session.obs, explore=True)
    with clock.section("environment"):
        session.obs, reward, terminated, truncated, info = env.step(action)
    session.replay.add(action, float(reward), terminated, info["frame"])
    session.episode_return += float(reward)
    session.episode_length += 1
    budget = session.budget
    session.budget = budget._replace(decisions=budget.decisions + 1, frames=budget.frames + info["frames"])
    agent.synchronise(session.budget.decisions)
    if terminated or truncated:
        row = {"return": session.episode_return, "length": session.episode_length, "episode": env.episode}
        session.logs.write("train", {"kind": "episode", **session.budget._asdict(), **row})
        session.last_return = session.episode_return
        session.begin_episode()


def learn(session: Session, clock: Stopwatch) -> None:
    """The updates that this decision brings, and their log row."""
    config, sac = session.config, session.config.method.sac
    past = session.budget.decisions - sac.random_decisions
    if past < 0:
        return
    for _ in range(sac.first_updates if past == 0 else 1):
        with clock.section("sample"):
            batch = _to(session.replay.sample(config.scale.batch, session.rng), session.device)
        with clock.section("update"):
            metrics = session.agent.update(batch)
        session.budget = session.budget._replace(updates=session.budget.updates + 1)
        session.metrics.update(metrics)
        # On CUDA asking at every update would stall the device; there it is asked before a row and a checkpoint.
        if session.device.type == "cpu":
            _check_finite(session)
    if session.budget.decisions % config.log_every == 0:
        _check_finite(session)
        values = {name: float(value) for name, value in session.metrics.items()}
        with clock.section("meters"):
            meters = read_meters(session.agent, batch)
        session.warnings += warnings(meters)
        session.logs.write("train", {"kind": "update", **session.budget._asdict(), **values, **meters})
        _log_time(session, clock)


def _log_time(session: Session, clock: Stopwatch) -> None:
    whole, shares = clock.read()
    session.seconds += whole
    rate = session.config.log_every / whole if whole else 0.0
    row = {"seconds": round(session.seconds, 3), "decisions_per_second": round(rate, 3), **shares}
    session.logs.write("timing", {**session.budget._asdict(), **row})


def _evaluate(session: Session, clock: Stopwatch, stop: _Stop, last: bool) -> None:
    config = session.config
    film = config.runtime.video == "all" or (config.runtime.video == "last" and last)
    with clock.section("evaluation"):
        row, frames = evaluate(
            session.agent,
            config.env,
            config.seed,
            config.evaluate_episodes,
            film=film,
            stop=lambda: stop.asked,
        )
    if not row:
        return
    if frames:
        rate = int(session.env.metadata["render_fps"])
        write_video(session.run.video / f"{session.budget.decisions:09d}.mp4", frames, rate)
    session.logs.write("eval", {**session.budget._asdict(), **row})
    session.evaluated_at, session.last_return = session.budget.decisions, row["return_mean"]


def _check_finite(session: Session) -> None:
    """Raise DivergenceError where the newest value of a metric is not finite."""
    bad = [name for name, value in session.metrics.items() if not math.isfinite(value)]
    if bad:
        raise DivergenceError(
            f"{', '.join(bad)} became NaN or infinite at update {session.budget.updates};"
            f" the checkpoints in {session.run.checkpoints} are from before it"
        )


def _to(batch: Batch, device: torch.device) -> Batch:
    if device.type == "cpu":
        return batch
    moved = (getattr(batch, name).to(device) for name in ("obs", "action", "reward", "next_obs", "not_done"))
    return Batch(*moved)


class _Stop:
    """Set by SIGINT or SIGTERM; the loop looks at it between decisions."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.asked:  # asked twice: at once
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def _stop_signals() -> Iterator[_Stop]:
    stop = _Stop()
    try:
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: whoever runs it there handles its own signals
        before = {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
