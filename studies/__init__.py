"""Our own campaigns: one folder each, with its plan, its data, its analysis, its tables and its figures.

They are not part of the package. `python -m studies` rebuilds every table and figure from the data. A study is a folder
with an `analysis.py` that has `write(out, figures=True)`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from pamd.errors import UnknownNameError

__all__ = ["STUDIES", "analysis"]

STUDIES = tuple(sorted(path.parent.name for path in Path(__file__).parent.glob("*/analysis.py")))


def analysis(name: str) -> Any:
    """Return the module `analysis` of a study."""
    if name not in STUDIES:
        raise UnknownNameError("study", name, STUDIES)
    return importlib.import_module(f"studies.{name}.analysis")
