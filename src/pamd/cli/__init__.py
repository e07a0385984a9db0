"""The command line interface. Each command has its own file and imports heavy packages only when it needs them."""

from __future__ import annotations

from pamd.cli.main import main

__all__ = ["main"]
