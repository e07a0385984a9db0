"""The training loop: evaluate, save, decide, learn. Its state is in `Session`; `run` starts and resumes it."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pamd.envs import trust_flag
from pamd.errors import DivergenceError, RunInterrupted
from pamd.representation.meters import read_meters
from pamd.runs.logs import meter_warnings
from pamd.training.evaluate import evaluate, write_video
from pamd.training.process import Stop, Stopwatch, oversubscribed
from pamd.training.session import Session
from pamd.types import Batch


class Observer(Protocol):
    """Receives the progress of a run, for example to display it."""

    def progress(self, session: Session) -> None:
        """Called after every decision."""

    def say(self, message: str) -> None:
        """Show a message to the user."""


def run_loop(session: Session, observer: Observer, stop: Stop) -> None:
    """Train until the budget is used up. Raises RunInterrupted after a stop signal, with a checkpoint."""
    config, run, clock = session.config, session.run, Stopwatch()
    run.write_status("running", session.budget)
    _show_warnings(session, observer)
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
            command = f"pamd resume {run.path}{trust_flag(config.env)}"
            raise RunInterrupted(f"{run.path} stopped at decision {decisions}; continue with `{command}`")
        if last:
            return
        if config.act_before_update:
            action = choose(session, clock)
            learn(session, clock)
            take(session, clock, action)
        else:
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
    take(session, clock, choose(session, clock))


def choose(session: Session, clock: Stopwatch) -> NDArray[np.float32]:
    """Return the action of the next decision. The first decisions are random."""
    decisions = session.budget.decisions
    with clock.section("act"):
        if decisions < session.config.learner.options.random_decisions:
            return session.rng.uniform(-1, 1, session.env.action_space.shape).astype(np.float32)
        return session.agent.act(session.obs, explore=True, decisions=decisions)


def take(session: Session, clock: Stopwatch, action: NDArray[np.float32]) -> None:
    """Step the environment with `action` [A], and store the transition."""
    env, budget = session.env, session.budget
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
    """Run the updates that follow the decisions so far, and write a log row if one is due."""
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
        meters |= session.agent.dormant_ratios(batch)
    session.warnings += meter_warnings(meters)
    session.logs.write("train", {"kind": "update", **session.budget._asdict(), **values, **meters})
    _log_time(session, clock)


def _log_time(session: Session, clock: Stopwatch) -> None:
    whole, shares = clock.read()
    session.seconds += whole
    rate = session.config.log_every / whole if whole else 0.0
    row: dict[str, Any] = {"seconds": round(session.seconds, 3), "decisions_per_second": round(rate, 3), **shares}
    if warning := oversubscribed(session.threads):
        session.warnings.append(warning)
        row["warning"] = warning  # The other warnings follow from the meters in train.jsonl.
    session.logs.write("timing", {**session.budget._asdict(), **row})


def _evaluate(session: Session, clock: Stopwatch, stop: Stop, last: bool) -> None:
    config = session.config
    record = config.runtime.video == "all" or (config.runtime.video == "last" and last)
    with clock.section("evaluation"):
        play = functools.partial(
            evaluate,
            session.agent,
            seed=config.seed,
            episodes=config.evaluate_episodes,
            first_episode=session.budget.decisions if config.evaluate_starts == "new" else 0,
            stop=lambda: stop.asked,
        )
        row, frames = play(config.env, record=record)
        for background in config.evaluate_on if row else ():
            other, _ = play(dataclasses.replace(config.env, distractor=background))
            if not other:  # The run was stopped. It evaluates again when it is resumed.
                return
            row.setdefault("elsewhere", {})[background.name] = other
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
