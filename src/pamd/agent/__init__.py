"""The agent: encoder, representation and learner under one schedule."""

from __future__ import annotations

from pamd.agent.agent import Agent
from pamd.agent.config import AgentConfig, EncoderPart, Precision, Schedule

__all__ = ["Agent", "AgentConfig", "EncoderPart", "Precision", "Schedule"]
