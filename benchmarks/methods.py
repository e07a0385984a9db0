"""The cost of one update of every method, at scale cpu, compared with DeepMDP and with PAMD."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import Options
from pamd.agent import Agent
from pamd.configuration import configure
from pamd.measure import count_operations, interleave, learning_session, milliseconds, ratio
from pamd.methods import DEFAULT_METHOD
from pamd.methods.pipelines import family
from pamd.table import Table
from pamd.training.session import Session
from pamd.types import Batch

__all__ = ["measure"]

TASK, COMPARED = "cheetah_run", ("deepmdp", DEFAULT_METHOD)


def measure(options: Options) -> Table:
    names = list(options.methods) or [str(row[0]) for row in family().rows]
    names += [name for name in COMPARED if name not in names]
    with learning_session(configure(TASK, "none", scale="cpu"), options.threads) as session:
        agents = {name: _agent(name, session) for name in names}
        rng = np.random.default_rng(0)
        samples = {name: partial(_sample, session, agent, rng) for name, agent in agents.items()}
        runs: dict[str, Callable[[], object]] = {name: _update(agents[name], samples[name]) for name in names}
        runs |= {f"sample {name}": sample for name, sample in samples.items()}
        seconds = interleave(runs, options.repetitions)
        rows = []
        for name, agent in agents.items():
            own = [p.numel() for p in agent.representation.terms.parameters() if p.requires_grad]
            row: dict[str, Any] = {"method": name, "steps of windows": agent.config.method.window}
            row |= {"own parameters": sum(own), "MFLOP": round(count_operations(runs[name]) / 1e6)}
            row |= {"ms": milliseconds(seconds[name]), "of it the sample, ms": milliseconds(seconds[f"sample {name}"])}
            row |= {f"x {other}": str(ratio(seconds[name], seconds[other])) for other in COMPARED}
            rows.append(row)
    notes = (
        f"SAC on {TASK}, joint schedule, batch {len(samples[names[0]]().obs)}: sample a batch and make one update.",
        "own parameters: those of the method's losses. The encoder, the actor and the critic come on top.",
        "x: time relative to that of another method in the same repetition; median (quartiles).",
        "MFLOP: two operations per multiplication, only matrix products and convolutions, forward and backward.",
    )
    title = f"one update of every method, cpu scale, {options.threads} threads"
    return Table.from_records("methods", title, rows, notes)


def _agent(name: str, session: Session) -> Agent:
    known = session.agent
    config = configure(TASK, name, scale="cpu").agent
    return Agent(config, observation_shape=known.observation_shape, action_dim=known.action_dim, seed=0)


def _sample(session: Session, agent: Agent, rng: np.random.Generator) -> Batch:
    learner, method = agent.config.learner.options, agent.config.method
    return session.replay.sample(
        learner.batch,
        rng,
        n_step=learner.n_step,
        gamma=learner.gamma,
        window=method.window,
        sequence=method.sequence,
    )


def _update(agent: Agent, sample: Callable[[], Batch]) -> Callable[[], object]:
    return lambda: agent.update(sample())
