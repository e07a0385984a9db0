"""The training loop: evaluate, save, act, step, update. Its state is in `session`."""

from __future__ import annotations

import dataclasses
import math
import shutil
from pathlib import Path
from typing import Protocol

import numpy as np

from pamd.errors import CheckpointError, ConfigError, DivergenceError, PamdError, RunError, RunInterrupted
from pamd.replay import Replay
from pamd.representation.meters import read_meters, warnings
from pamd.runs import RunDirectory
from pamd.runs.checkpoints import list_checkpoints
from pamd.runs.files import refuse_linked_directories, remove_temporary, temporaries
from pamd.runs.versions import write_versions
from pamd.training import checkpoint
from pamd.training.clock import Stopwatch
from pamd.training.config import Runtime, TrainConfig, config_text, prepare, read_config, run_name
from pamd.training.evaluate import evaluate, write_video
from pamd.training.preflight import check_run
from pamd.training.process import Stop, default_threads, oversubscribed, stop_signals, torch_threads
from pamd.training.session import Session, replay_plan
from pamd.types import Batch

__all__ = ["Observer", "SilentObserver", "decide", "learn", "resume", "train"]


class Observer(Protocol):
    """Receives the progress of a run, for example to display it."""

    def progress(self, session: Session) -> None:
        """Called after every decision."""

    def say(self, message: str) -> None:
        """Show a message to the user."""


class SilentObserver:
    """Shows nothing."""

    def progress(self, session: Session) -> None:
        pass

    def say(self, message: str) -> None:
        pass


def train(config: TrainConfig, root: str | Path = "runs", observer: Observer | None = None) -> Path:
    """Train and return the run directory. An interrupted run of the same config is resumed.

    A finished run of the same config with a smaller budget is extended.
    """
    config, observer = prepare(config), observer or SilentObserver()
    run = RunDirectory(Path(root) / run_name(config))
    if not (run.path / "config.json").exists():
        return _train_new(run, config, observer)
    before = read_config(RunDirectory.open(run.path).path / "config.json", config.runtime)
    if run_name(before) != run.path.name:
        raise RunError(f"{run.path} contains a run with another config; remove it, or choose another --runs directory")
    decisions = max(before.decisions, config.decisions)
    if before.decisions > config.decisions and not run.finished(decisions):
        observer.say(f"{run.path} has a larger budget and continues to {decisions} decisions")
    return _run(run, dataclasses.replace(before, decisions=decisions), observer)


def _train_new(run: RunDirectory, config: TrainConfig, observer: Observer) -> Path:
    """Train a run that has no config.json yet. A run that is rejected leaves no directory."""
    new = not run.path.exists()
    if new:
        check_run(config, run.path)
    try:
        run.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot create the run directory {run.path}: {error}") from None
    run.write_config(config_text(config))
    return _run(run, config, observer, new=new)


def resume(
    path: str | Path,
    runtime: Runtime | None = None,
    observer: Observer | None = None,
    *,
    decisions: int | None = None,
) -> Path:
    """Resume the run in `path` from its newest complete checkpoint. `decisions` raises its budget."""
    run = RunDirectory.open(Path(path))
    config = read_config(run.path / "config.json", runtime)
    if decisions is not None and decisions < config.decisions:
        raise ConfigError(f"{path} has a budget of {config.decisions} decisions; it cannot be lowered to {decisions}")
    return _run(run, dataclasses.replace(config, decisions=decisions or config.decisions), observer or SilentObserver())


def _run(run: RunDirectory, config: TrainConfig, observer: Observer, new: bool = False) -> Path:
    """Train to the end of the budget. If `new`, this call created the directory, and removes it if it is rejected."""
    if run.finished(config.decisions):
        observer.say(f"{run.path} is already finished; to extend it, raise --decisions above {config.decisions}")
        return run.path
    if not new:
        check_run(config, run.path)
    with run.locked(), torch_threads(config.runtime.threads or default_threads(config.env)) as threads:
        try:
            session = _open(run, config, threads, observer)
        except BaseException:
            # A rejected run changes nothing: a new one leaves no directory, and an existing one keeps its status.
            if new:
                shutil.rmtree(run.path, ignore_errors=True)
            raise
        try:
            with stop_signals() as stop:
                _loop(session, observer, stop)
            run.write_status("finished", session.budget, seconds=round(session.seconds, 1))
        except RunInterrupted:
            run.write_status("interrupted", session.budget)
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, PamdError) else f"{type(error).__name__}: {error}"
            run.write_status("failed", session.budget, error=reason)
            raise
        finally:
            session.close()
    return run.path


def _open(run: RunDirectory, config: TrainConfig, threads: int, observer: Observer) -> Session:
    """Start a session, or restore it from its newest checkpoint."""
    refuse_linked_directories(run.path)
    for path in temporaries(run.path):
        remove_temporary(path)
    session = Session(run, config, threads)
    try:
        _make_room(run, config)
        _begin_or_restore(session, observer)
        write_versions(run.path)
    except BaseException:
        session.close()
        raise
    return session


def _make_room(run: RunDirectory, config: TrainConfig) -> None:
    """Enlarge the replay of a run whose budget was raised, and store the new budget."""
    if config.decisions > run.config_tree()["decisions"]:
        # The replay is enlarged first, so that the run matches its config after a kill between the two steps.
        if list_checkpoints(run.checkpoints):
            Replay.grow(run.replay, replay_plan(config)[0].capacity)
        run.write_config(config_text(config))


def _begin_or_restore(session: Session, observer: Observer) -> None:
    saved = list_checkpoints(session.run.checkpoints)
    for path in saved:
        try:
            session.restore(checkpoint.read(path))
        except CheckpointError as error:
            observer.say(f"{error}; using the previous checkpoint")
            continue
        observer.say(f"resuming {session.run.path} from checkpoint {path.name}")
        return
    if saved:
        raise CheckpointError(
            f"{session.run.checkpoints} has no complete checkpoint; delete the run directory to start again"
        )
    session.begin()


def _loop(session: Session, observer: Observer, stop: Stop) -> None:
    config, run, clock = session.config, session.run, Stopwatch()
    run.write_status("running", session.budget)
    saved_at = session.budget.decisions
    while True:
        decisions, last = session.budget.decisions, session.budget.decisions >= config.decisions
        if (_evaluation_due(session) or last) and session.evaluated_at != decisions and not stop.asked:
            _evaluate(session, clock, stop, last)
            if last:  # A run that was stopped here has already saved a checkpoint, without this evaluation.
                saved_at = -1
        checkpoint_due = decisions % config.checkpoint_every == 0 or session.replay.needs_sync or last or stop.asked
        if decisions != saved_at and checkpoint_due:
            _check_finite(session)  # Do not save a diverged state.
            with clock.section("checkpoint"):
                session.save()
            saved_at = decisions
            run.write_status("running", session.budget)
        if stop.asked:
            raise RunInterrupted(f"{run.path} stopped at decision {decisions}; continue with `pamd resume {run.path}`")
        if last:
            return
        decide(session, clock)
        learn(session, clock)
        _show_warnings(session, observer)
        observer.progress(session)


def _evaluation_due(session: Session) -> bool:
    """Return whether an evaluation is due. If episodes are counted, it is due only before a training episode begins."""
    every = session.config.evaluate_every
    if session.config.evaluate_unit == "decisions":
        return session.budget.decisions % every == 0
    return session.episode_length == 0 and session.env.episode % every == 0


def _show_warnings(session: Session, observer: Observer) -> None:
    """Show each kind of warning once. The kind is the first word of a warning."""
    for warning in session.warnings:
        kind = warning.partition(":")[0]
        if kind not in session.warned:
            session.warned.add(kind)
            observer.say(f"at decision {session.budget.decisions}: {warning}")
    session.warnings.clear()


def decide(session: Session, clock: Stopwatch) -> None:
    """Make one decision: choose an action, step the environment, and store the transition."""
    agent, env, budget = session.agent, session.env, session.budget
    with clock.section("act"):
        if budget.decisions < session.config.learner.options.random_decisions:
            action = session.rng.uniform(-1, 1, env.action_space.shape).astype("float32")
        else:
            action = agent.act(session.obs, explore=True, decisions=budget.decisions)
    with clock.section("environment"):
        session.obs, reward, terminated, truncated, info = env.step(action)
    session.replay.add(action, float(reward), terminated, info["frame"])
    session.episode_return += float(reward)
    session.episode_length += 1
    session.budget = budget._replace(decisions=budget.decisions + 1, frames=budget.frames + info["frames"])
    if terminated or truncated:
        row = {"return": session.episode_return, "length": session.episode_length, "episode": env.episode}
        session.logs.write("train", {"kind": "episode", **session.budget._asdict(), **row})
        session.last_return = session.episode_return
        session.begin_episode()


def learn(session: Session, clock: Stopwatch) -> None:
    """Run the updates of this decision, and write a log row if one is due."""
    learner, decisions, batch = session.config.learner.options, session.budget.decisions, None
    for _ in range(learner.updates_due(decisions)):
        with clock.section("sample"):
            batch = session.sample(session.rng)
        with clock.section("update"):
            metrics = session.agent.update(batch, decisions)
        session.budget = session.budget._replace(updates=session.budget.updates + 1)
        session.metrics.update(metrics)
        # On CUDA, reading values at every update would stall the device. They are read for a log row or a checkpoint.
        if session.device.type == "cpu":
            _check_finite(session)
    if decisions % session.config.log_every == 0 and session.budget.updates:
        # If this decision made no update, a separate batch is drawn. It is the same one after a resume.
        rng = np.random.default_rng([session.config.seed, 2, decisions])
        _log_update(session, clock, session.sample(rng) if batch is None else batch)


def _log_update(session: Session, clock: Stopwatch, batch: Batch) -> None:
    _check_finite(session)
    values = {name: float(value) for name, value in session.metrics.items()}
    with clock.section("meters"):
        meters = read_meters(
            session.agent.measured,
            batch.obs,
            batch.action,
            batch.reward,
            batch.next_obs,
            seed=session.agent.updates,
            learning_rate=session.config.learner.options.learning_rate,
            inputs=session.agent.operator_inputs(batch),
        )
    session.warnings += warnings(meters)
    session.logs.write("train", {"kind": "update", **session.budget._asdict(), **values, **meters})
    _log_time(session, clock)


def _log_time(session: Session, clock: Stopwatch) -> None:
    whole, shares = clock.read()
    session.seconds += whole
    rate = session.config.log_every / whole if whole else 0.0
    session.warnings += [sentence] if (sentence := oversubscribed(session.threads)) else []
    row = {"seconds": round(session.seconds, 3), "decisions_per_second": round(rate, 3), **shares}
    session.logs.write("timing", {**session.budget._asdict(), **row})


def _evaluate(session: Session, clock: Stopwatch, stop: Stop, last: bool) -> None:
    config = session.config
    record = config.runtime.video == "all" or (config.runtime.video == "last" and last)
    with clock.section("evaluation"):
        row, frames = evaluate(
            session.agent,
            config.env,
            config.seed,
            config.evaluate_episodes,
            record=record,
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
    """Raise DivergenceError if the newest value of a metric is not finite."""
    bad = [name for name, value in session.metrics.items() if not math.isfinite(value)]
    if bad:
        raise DivergenceError(
            f"{', '.join(bad)} became NaN or infinite at update {session.budget.updates};"
            f" the checkpoints in {session.run.checkpoints} are older and intact"
        )
