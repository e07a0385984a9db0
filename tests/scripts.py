"""Scripts of tools/ and examples/ as modules, for tests of their functions."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

__all__ = ["load_script"]

ROOT = Path(__file__).parents[1]


def load_script(path: str) -> Any:
    """Import the script at `path`, which is relative to the repository: "tools/reference.py"."""
    name = path.removesuffix(".py").replace("/", "_")
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
