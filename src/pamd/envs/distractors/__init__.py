"""Distracting backgrounds that are independent of the task."""

from __future__ import annotations

from pamd.envs.config import PRESETS, ClipRef, DistractorConfig, Preset, distractor
from pamd.envs.distractors.compose import compose

__all__ = ["PRESETS", "ClipRef", "DistractorConfig", "Preset", "compose", "distractor"]
