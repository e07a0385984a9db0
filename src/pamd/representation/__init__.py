"""The representation: what behavioural-metric methods are about, apart from any learner."""

from __future__ import annotations

from pamd.representation.encoder import LatentEncoder
from pamd.representation.latents import BatchLatents, CachedLatents
from pamd.representation.losses import Losses
from pamd.representation.representation import Representation

__all__ = ["BatchLatents", "CachedLatents", "LatentEncoder", "Losses", "Representation"]
