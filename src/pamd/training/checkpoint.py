"""Checkpoints: complete or absent, verified when read, and nothing in them can be executed.

checkpoints/000010000/ holds tensors.safetensors, state.json and complete.json with the digests of the two. It is
written under another name, made durable, and renamed last.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from pamd import durable
from pamd.errors import CheckpointError, ResourceError

__all__ = ["KEPT", "Checkpoint", "any_in", "newest", "write"]

KEPT = 2
_TENSORS, _STATE, _COMPLETE = "tensors.safetensors", "state.json", "complete.json"

Checkpoint = tuple[dict[str, Tensor], dict[str, Any], Path]
"""Tensors, state, and where it was."""


def write(directory: Path, decisions: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """Save a checkpoint; the last two are kept."""
    from safetensors.torch import save

    final = directory / f"{decisions:09d}"
    temporary = directory / f".writing-{os.getpid()}"
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        contents = {
            _TENSORS: save({k: v.detach().cpu().contiguous() for k, v in tensors.items()}),
            _STATE: json.dumps(state).encode(),
        }
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
        for name, data in {**contents, _COMPLETE: json.dumps(digests).encode()}.items():
            durable.write(temporary / name, data)
        # A checkpoint of the same decision is there only after a resume at that very point; it says the same.
        shutil.rmtree(final, ignore_errors=True)
        temporary.rename(final)
        durable.sync_directory(directory)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise ResourceError(f"cannot write a checkpoint in {directory}: {error}; the one before is unharmed") from None
    for old in _all(directory)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def any_in(directory: Path) -> bool:
    """Whether there is a checkpoint, whole or not."""
    return bool(_all(directory))


def newest(directory: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, or None; and what is wrong with each newer one."""
    complaints: list[str] = []
    for path in _all(directory):
        try:
            return _read(path), complaints
        except CheckpointError as error:
            complaints.append(str(error))
    return None, complaints


def _read(path: Path) -> Checkpoint:
    from safetensors.torch import load

    try:
        digests = json.loads((path / _COMPLETE).read_text())
        contents = {name: (path / name).read_bytes() for name in (_TENSORS, _STATE)}
    except (OSError, ValueError) as error:
        raise CheckpointError(f"checkpoint {path.name} is not whole: {error}") from None
    for name, data in contents.items():
        if not isinstance(digests, dict) or hashlib.sha256(data).hexdigest() != digests.get(name):
            raise CheckpointError(f"checkpoint {path.name} is damaged: {name} is not what was written")
    return load(contents[_TENSORS]), json.loads(contents[_STATE]), path


def _all(directory: Path) -> list[Path]:
    """Newest first."""
    if not directory.is_dir():
        return []
    return sorted((p for p in directory.iterdir() if p.name.isdigit()), key=lambda p: int(p.name), reverse=True)
