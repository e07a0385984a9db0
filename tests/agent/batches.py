"""Batches of noise and small agents, at smoke scale."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from tests.terms.windows import window_for

from pamd.agent import Agent, AgentConfig, EncoderPart
from pamd.learners import LearnerPart
from pamd.methods import agent_method, method, side
from pamd.types import Batch

OBSERVATION = (9, 24, 24)
BATCH = 16
ENCODER = EncoderPart("conv", {"filters": 8, "strides": [2, 2]})
RELEASED_SAC: dict[str, dict[str, Any]] = {
    "dbc": {"first_updates": 1000, "burst_every_update": True, "log_prob": "released"},
    "independent": {
        "hidden": 1024,
        "critic_tau": 0.01,
        "temperature_learning_rate": 1e-4,
        "temperature_beta1": 0.5,
        "schedule_offset": 999,
        "log_prob": "released",
    },
}


def make_batch(seed: int = 0, actions: int = 2, size: int = BATCH) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    shape = (size, *OBSERVATION)
    obs, next_obs = (torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator) for _ in range(2))
    action = torch.rand(size, actions, generator=generator) * 2 - 1
    reward = torch.rand(size, generator=generator)
    return Batch(obs, action, reward, next_obs, torch.ones(size))


def with_windows(batch: Batch, agent: Agent) -> Batch:
    """The batch with the windows that the agent's method reads."""
    draw = torch.Generator().manual_seed(1)
    window = window_for(agent.config.method, batch.action, batch.reward, batch.next_obs, draw)
    return dataclasses.replace(batch, window=window)


def make_config(
    name: str = "simsr+pamd",
    fidelity: Any = "paper",
    *,
    schedule: Any = "sequential",
    isolate_metric: bool = False,
    precision: Any = "float32",
    learner: str = "sac",
    options: dict[str, Any] | None = None,
    **fields: Any,
) -> AgentConfig:
    """An agent's config; `fields` are the method's, `options` the learner's."""
    if options is None:
        options = RELEASED_SAC[side(name)] if fidelity == "released" and learner == "sac" else {}
    made = agent_method(name, fidelity, **fields)
    return AgentConfig(ENCODER, made, LearnerPart(learner, options), schedule, isolate_metric, precision)


def make_agent(name: str = "simsr+pamd", fidelity: Any = "paper", *, seed: int = 0, **fields: Any) -> Agent:
    return Agent(make_config(name, fidelity, **fields), observation_shape=OBSERVATION, action_dim=2, seed=seed)


def updated(name: str = "simsr+pamd", *, seed: int = 0, count: int = 4, **fields: Any) -> Agent:
    agent = make_agent(name, seed=seed, **fields)
    for i in range(count):
        agent.update(make_batch(i))
    return agent


def equal(one: Agent, other: Agent) -> bool:
    left, right = one.tensors(), other.tensors()
    return left.keys() == right.keys() and all(torch.equal(left[k], right[k]) for k in left)


def two_members(name: str) -> dict[str, Any]:
    """Fields of a method with an ensemble of two, which is quicker than five; none if it has no latent model."""
    return {} if method(name).term("transition") is None else {"transition": {"members": 2}}
