"""The command line: one file a command, heavy imports only where they are needed."""

from __future__ import annotations

from pamd.cli.main import main

__all__ = ["main"]
