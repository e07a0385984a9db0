"""What a run was trained with: the package, its dependencies, the commit of the source tree if any, the processor."""

from __future__ import annotations

import functools
import json
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pamd.runs import files
from pamd.runs.status import write_text
from pamd.version import __version__

_PACKAGES = ("torch", "numpy", "gymnasium", "mujoco", "dm_control", "av")


def versions() -> dict[str, Any]:
    """Return names and versions as plain data."""
    names: dict[str, Any] = {"pamd": __version__, "python": platform.python_version(), "platform": platform.platform()}
    names["processor"] = processor()
    for package in _PACKAGES:
        try:
            names[package] = version(package)
        except PackageNotFoundError:
            names[package] = None
    return {**names, "commit": _commit()}


@functools.cache
def processor() -> str:
    """Return the name of this machine's processor. Processors of different makes round sums differently."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


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


def read_versions(run: Path) -> list[dict[str, Any]]:
    """Return the entries of versions.json, one for each set of versions that trained the run; [] if unreadable."""
    try:
        return [dict(entry) for entry in files.read_json(run, "versions.json")]
    except (OSError, ValueError, TypeError):
        return []


def write_versions(run: Path, known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Write versions.json and return its entries: the `known` ones, and the current versions unless they are the last.

    `known` are the entries of the checkpoint; [] before the first one. An edited file is thereby restored.
    """
    now, written = versions(), read_versions(run)
    entries = known or written
    entries = entries if entries and entries[-1] == now else [*entries, now]
    if entries != written:
        write_text(run / "versions.json", json.dumps(entries, indent=1) + "\n")
    return entries
