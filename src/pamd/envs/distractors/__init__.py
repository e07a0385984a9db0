"""Distracting backgrounds that are independent of the task."""

from __future__ import annotations

from pamd.envs.distractors.compose import compose
from pamd.envs.distractors.config import ClipRef, DistractorConfig
from pamd.envs.distractors.presets import PRESETS, Preset, distractor

__all__ = ["PRESETS", "ClipRef", "DistractorConfig", "Preset", "compose", "distractor"]
