"""The representation that behavioral-metric methods learn, independent of any learner."""

from __future__ import annotations

from pamd.representation.encoder import LatentEncoder
from pamd.representation.representation import Losses, Representation

__all__ = ["LatentEncoder", "Losses", "Representation"]
