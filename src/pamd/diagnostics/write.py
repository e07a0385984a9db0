"""Write results to files: numbers as JSON, arrays as npz. Figures and report sections are made from these files."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from pamd import durable
from pamd.diagnostics.dimension import Dimension
from pamd.diagnostics.embedding import Exact
from pamd.diagnostics.forms import Geometry
from pamd.diagnostics.latent_report import LatentReport
from pamd.diagnostics.residuals import Residual

__all__ = ["save"]

Result = Residual | Geometry | LatentReport | Exact | Dimension
KINDS: dict[type, str] = {
    Residual: "residual",
    Geometry: "geometry",
    LatentReport: "latents",
    Exact: "exact",
    Dimension: "dimension",
}


def save(result: Result, directory: Path, **about: Any) -> None:
    """Write data.json, and arrays.npz if there are arrays. `about` adds fields such as the run and the checkpoint."""
    directory.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    tree = _plain(dataclasses.asdict(result), "", arrays)
    text = json.dumps({"kind": KINDS[type(result)], **about, **tree}, indent=1, allow_nan=False)
    if arrays:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        durable.replace(directory / "arrays.npz", buffer.getvalue())
    durable.replace(directory / "data.json", (text + "\n").encode())


def _plain(value: Any, path: str, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """Convert `value` to JSON. Arrays are moved to `arrays` under their dotted path; infinity becomes null."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if isinstance(value, dict):
        return {key: _plain(item, f"{path}.{key}".lstrip("."), arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}.{index}", arrays) for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
