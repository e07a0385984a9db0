"""Backgrounds that have nothing to do with the task: what they are made of, and which clips are seen in training."""

from __future__ import annotations

from pamd.envs.distractors.compose import compose
from pamd.envs.distractors.config import ClipRef, DistractorConfig
from pamd.envs.distractors.presets import PRESETS, Preset, distractor

__all__ = ["PRESETS", "ClipRef", "DistractorConfig", "Preset", "compose", "distractor"]
