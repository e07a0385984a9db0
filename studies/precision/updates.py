"""Updates at the paper's scale in both precisions, next to each other, on the same batches.

A third agent shows what is chaos: it is float32, and its first weights differ from those of the other two in the
seventh digit. The difference between bfloat16 and float32 means something only if it exceeds that between the two
float32 agents.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from pamd.agent import Agent
from pamd.configuration import configure
from pamd.measure import learning_session
from pamd.training import Runtime
from pamd.training.loop import decide
from pamd.training.process import Stopwatch
from pamd.types import Batch
from studies.precision.plan import HERE, METHOD

__all__ = ["AGENTS", "DATA", "measure", "rows"]

DATA = HERE / "updates.csv"
AGENTS = {"float32": "float32", "float32, disturbed": "float32", "bfloat16": "bfloat16"}
"""The agents and their precisions."""
EVERY = 10
"""Updates between two rows."""
LOSSES = ("critic_loss", "transition_loss", "reward_loss", "metric_loss", "actor_loss", "q_mean", "distance_mean")
DECISIONS = 500
"""Decisions of the first policy, from which batches are drawn. Every start of the measurement makes the same ones."""
_DISTURBED = 1e-7


def rows() -> list[dict[str, str]]:
    """Return the rows of updates.csv; [] if there are none yet."""
    if not DATA.exists():
        return []
    with DATA.open() as file:
        return list(csv.DictReader(file))


def measure(updates: int, runs_in: Path, threads: int = 1) -> Iterator[str]:
    """Make `updates` updates of each agent and add a row per agent to updates.csv every `EVERY`. Yield progress.

    The state of the agents is saved in `runs_in` with every row, so an interrupted measurement continues there.
    """
    config = configure("cheetah_run", METHOD, schedule="joint", decisions=2_000, runtime=Runtime(device="cpu"))
    with learning_session(config, threads) as session:
        clock = Stopwatch()
        shape, actions = session.agent.observation_shape, session.agent.action_dim
        for _ in range(DECISIONS):
            decide(session, clock)
        agents = {name: _agent(precision, shape, actions) for name, precision in AGENTS.items()}
        _disturb(agents["float32, disturbed"])
        done = _restore(agents, runs_in)
        probe = _copied(session.sample(np.random.default_rng([1, 0])))
        for update in range(done + 1, updates + 1):
            batch = _copied(session.sample(np.random.default_rng([0, update])))
            losses = {name: agent.update(batch) for name, agent in agents.items()}
            if update % EVERY == 0:
                _append(update, losses, _compared(agents, probe))
                _save(agents, update, runs_in)
                yield f"{update} of {updates} updates"


def _agent(precision: str, shape: tuple[int, ...], actions: int) -> Agent:
    config = configure("cheetah_run", METHOD, schedule="joint", precision=precision)
    return Agent(config.agent, observation_shape=shape, action_dim=actions, seed=0)


@torch.no_grad()
def _disturb(agent: Agent) -> None:
    draw = torch.Generator().manual_seed(0)
    for weight in agent.nets.parameters():
        weight.mul_(1 + _DISTURBED * torch.randn(weight.shape, generator=draw))


def _copied(batch: Batch) -> Batch:
    """Return a copy. The replay writes every batch to the same memory."""
    names = ("obs", "action", "reward", "next_obs", "not_done")
    return Batch(*(getattr(batch, name).clone() for name in names))


@torch.no_grad()
def _compared(agents: dict[str, Agent], probe: Batch) -> dict[str, dict[str, float]]:
    """Return how the latents of the probe's states differ from those of the float32 agent, by agent.

    "distances": the correlation of the distances between all pairs of latents. "rounding": the mean distance between
    the latents of the same weights in bfloat16 and in float32, relative to the mean distance between two states.
    """
    distances, compared = {}, {}
    for name, agent in agents.items():
        encoder = agent.representation.encoder
        z = encoder(probe.obs)
        with torch.autocast("cpu", torch.bfloat16):
            rounded = encoder.trunk(probe.obs)
        distances[name] = torch.pdist(z)
        rounding = (encoder.head(rounded) - z).norm(dim=-1).mean() / distances[name].mean()
        compared[name] = {"rounding": float(rounding), "distances": _correlation(distances["float32"], distances[name])}
    return compared


def _correlation(left: Tensor, right: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([left, right]))[0, 1])


def _append(update: int, losses: dict[str, dict[str, Tensor]], latents: dict[str, dict[str, float]]) -> None:
    columns = ["update", "agent", *LOSSES, "rounding", "distances"]
    kept = [row for row in rows() if int(row["update"]) < update]
    made: list[dict[str, Any]] = [
        {"update": update, "agent": name, **{k: f"{float(losses[name][k]):.6g}" for k in LOSSES},
         **{k: f"{v:.6g}" for k, v in latents[name].items()}}
        for name in losses
    ]  # fmt: skip
    with DATA.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*kept, *made])


def _save(agents: dict[str, Agent], update: int, runs_in: Path) -> None:
    """Replace the saved state. The count is written last, so a kill leaves the previous row's state or this one."""
    folder = runs_in / "updates" / str(update)
    folder.mkdir(parents=True, exist_ok=True)
    for name, agent in agents.items():
        save_file({k: v.contiguous() for k, v in agent.tensors().items()}, folder / f"{name}.safetensors")
    (folder.parent / "done.json").write_text(json.dumps({"updates": update}))
    for other in folder.parent.iterdir():
        if other.is_dir() and other != folder:
            for file in other.iterdir():
                file.unlink()
            other.rmdir()


def _restore(agents: dict[str, Agent], runs_in: Path) -> int:
    """Load the saved state and return its number of updates; 0 if there is none."""
    record = runs_in / "updates" / "done.json"
    if not record.exists():
        return 0
    done: int = json.loads(record.read_text())["updates"]
    for name, agent in agents.items():
        agent.load(load_file(record.parent / str(done) / f"{name}.safetensors"))
    return done
