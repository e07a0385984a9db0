"""Files that do not belong in a run directory: temporary files of killed processes, and symbolic links."""

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
    """List the temporary files and checkpoints that killed processes left behind."""
    return sorted(path for pattern in _TEMPORARIES for path in run.glob(pattern))


def remove_temporary(path: Path) -> None:
    """Delete a temporary file. The caller must hold the lock, because a live run uses its temporary files."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def links(run: Path) -> list[Path]:
    """List the symbolic links in a run directory. They are not followed."""
    return sorted(
        Path(folder) / name
        for folder, folders, files in os.walk(run)
        for name in (*folders, *files)
        if os.path.islink(os.path.join(folder, name))
    )


def refuse_linked_directories(run: Path) -> None:
    """Raise RunError if a directory of the run is a link, because its files would be outside the run."""
    for name in _DIRECTORIES:
        if (run / name).is_symlink():
            raise RunError(f"{run / name} is a symbolic link; a run directory must contain its own files")
