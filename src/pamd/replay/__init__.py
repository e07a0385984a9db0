"""Replay: every frame stored once, in memory, compressed there or in a file, and resumed exactly after a kill."""

from __future__ import annotations

from pamd.replay.layout import Layout, ReplayConfig
from pamd.replay.replay import Replay
from pamd.replay.resources import Forecast, available_disk, available_memory, check_resources, forecast

__all__ = [
    "Forecast",
    "Layout",
    "Replay",
    "ReplayConfig",
    "available_disk",
    "available_memory",
    "check_resources",
    "forecast",
]
