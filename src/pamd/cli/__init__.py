"""The command line: `pamd train | resume | eval | envs | list | doctor`."""

from __future__ import annotations

from pamd.cli.main import main

__all__ = ["main"]
