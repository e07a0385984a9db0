"""Run directories: the only reader and writer of their files. This package does not need torch.

A run directory is the only product of training. Opening one from somebody else runs no code of theirs: its files are
JSON, JSON lines, safetensors and raw arrays, links are not followed, and everything is checked when it is read.
"""

from __future__ import annotations

from pamd.runs.directory import RunDirectory
from pamd.runs.record import Unreadable, find_runs, read_record
from pamd.runs.status import Budget, Progress, read_progress, read_status

__all__ = [
    "Budget",
    "Progress",
    "RunDirectory",
    "Unreadable",
    "find_runs",
    "read_progress",
    "read_record",
    "read_status",
]
