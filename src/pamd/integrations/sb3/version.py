"""The required version of Stable-Baselines3."""

from __future__ import annotations

import importlib.metadata
import re

from pamd.errors import ConfigError

__all__ = ["OLDEST", "require_sb3"]

OLDEST = (2, 9)
"""Older versions build buffers and policies in a different order."""


def require_sb3() -> None:
    """Raise ConfigError unless a supported version of Stable-Baselines3 is installed."""
    wanted = ".".join(map(str, OLDEST))
    try:
        found = importlib.metadata.version("stable-baselines3")
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError(
            f"pamd.integrations.sb3 requires stable-baselines3 >= {wanted}: pip install 'pamd[sb3]'"
        ) from None
    if tuple(int(number) for number in re.findall(r"\d+", found)[:2]) < OLDEST:
        raise ConfigError(
            f"pamd.integrations.sb3 requires stable-baselines3 >= {wanted}, got {found}: pip install -U 'pamd[sb3]'"
        )
