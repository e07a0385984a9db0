"""The representation that behavioral-metric methods learn, independent of any learner."""

from __future__ import annotations

from pamd.representation.encoder import LatentEncoder
from pamd.representation.latents import BatchLatents, CachedLatents
from pamd.representation.losses import Losses
from pamd.representation.representation import Representation

__all__ = ["BatchLatents", "CachedLatents", "LatentEncoder", "Losses", "Representation"]
