"""What does not belong into a run directory: files that a killed process was writing, and links to elsewhere."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pamd.errors import RunError

__all__ = ["links", "refuse_linked_directories", "remove_temporary", "temporaries"]

_DIRECTORIES = ("checkpoints", "replay", "video", "tensorboard")
_TEMPORARIES = (
    ".status.json.*",
    ".config.json.*",
    ".versions.json.*",
    ".*.jsonl.*",
    "video/.*.mp4",
    "replay/.replay.json.*",
    "checkpoints/.writing-*",
)


def temporaries(run: Path) -> list[Path]:
    """What a killed process left of files and checkpoints that it was replacing."""
    return sorted(path for pattern in _TEMPORARIES for path in run.glob(pattern))


def remove_temporary(path: Path) -> None:
    """Delete a temporary. Only under the lock: those of a live run are in use."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def links(run: Path) -> list[Path]:
    """The symbolic links in a run directory. They are not followed."""
    return sorted(
        Path(folder) / name
        for folder, folders, files in os.walk(run)
        for name in (*folders, *files)
        if os.path.islink(os.path.join(folder, name))
    )


def refuse_linked_directories(run: Path) -> None:
    """RunError if a directory of the run is a link: its files would lie outside the run."""
    for name in _DIRECTORIES:
        if (run / name).is_symlink():
            raise RunError(f"{run / name} is a symbolic link; a run directory must hold its own files")
