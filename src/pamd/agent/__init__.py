"""The agent: an encoder, a representation and a learner with one schedule."""

from __future__ import annotations

from pamd.agent.agent import Agent, Parts, build_parts, parameter_groups
from pamd.agent.config import AgentConfig, EncoderPart, Precision, Schedule

__all__ = [
    "Agent",
    "AgentConfig",
    "EncoderPart",
    "Parts",
    "Precision",
    "Schedule",
    "build_parts",
    "parameter_groups",
]
