"""Software versions of a run: the package, its dependencies, and the commit of the source tree if there is one."""

from __future__ import annotations

import functools
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pamd.version import __version__

__all__ = ["versions"]

_PACKAGES = ("torch", "numpy", "gymnasium", "mujoco", "dm_control", "av", "zstandard")


def versions() -> dict[str, Any]:
    """Return names and versions as plain data."""
    found: dict[str, Any] = {"pamd": __version__, "python": platform.python_version(), "platform": platform.platform()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return {**found, "commit": _commit()}


@functools.cache
def _commit() -> str | None:
    """Return the commit of the source tree, followed by + if files were changed; None outside a checkout."""
    source = Path(__file__).resolve().parents[3]
    if not (source / ".git").exists():
        return None
    try:
        commit = _git(source, "rev-parse", "HEAD")
        return commit + ("+" if _git(source, "status", "--porcelain", "--untracked-files=no", "src") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(source: Path, *arguments: str) -> str:
    command = ["git", "-C", str(source), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
