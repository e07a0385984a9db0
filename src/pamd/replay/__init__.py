"""The replay buffer. Each frame is stored once, in memory or in a file. A killed run resumes exactly."""

from __future__ import annotations

from pamd.replay.layout import ReplayConfig
from pamd.replay.replay import Replay
from pamd.replay.resources import Forecast, available_disk, available_memory, check_resources, disk_taken, forecast

__all__ = [
    "Forecast",
    "Replay",
    "ReplayConfig",
    "available_disk",
    "available_memory",
    "check_resources",
    "disk_taken",
    "forecast",
]
