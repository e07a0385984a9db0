"""One agent for all methods: SAC from pixels, whose representation side is the `Method`."""

from __future__ import annotations

from pamd.agent.agent import Agent
from pamd.agent.method import Method, Part, Sac, Scale

__all__ = ["Agent", "Method", "Part", "Sac", "Scale"]
