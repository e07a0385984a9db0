"""The agent: an encoder, a representation and a learner with one schedule."""

from __future__ import annotations

from pamd.agent.agent import Agent, Parts, build_parts
from pamd.agent.config import AgentConfig, EncoderPart, Precision, Schedule
from pamd.agent.optimizers import stepped_parameters

__all__ = [
    "Agent",
    "AgentConfig",
    "EncoderPart",
    "Parts",
    "Precision",
    "Schedule",
    "build_parts",
    "stepped_parameters",
]
