"""Execution backends, one file each."""

from __future__ import annotations

from pamd.sweep.backends.base import BACKENDS, Backend, Resources

__all__ = ["BACKENDS", "Backend", "Resources"]
