"""Compute the data of the comparisons of all heads. Finished parts are kept; rerun a command to continue.

python -m studies.diagnostics.collect exact OUT          # 22 finite MDPs
python -m studies.diagnostics.collect residual OUT RUN   # the replay of a trained agent
python -m studies.diagnostics.collect longer OUT RUN     # the same with three heads and four times as many updates
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import Any

import pyarrow
import torch
from pyarrow import parquet

from pamd import diagnostics
from pamd.training.process import keep_freed_memory
from studies.diagnostics.analysis import FITS, SETTINGS

STRUCTURED = ("wide-norm", "deep-norm", "iqe", "mrn", "pqe")
"""Learned distances that satisfy the triangle inequality, with as many parameters as pamd."""


def exact(out: Path) -> diagnostics.Exact:
    """Embed on-policy bisimulation of 22 MDPs with fifteen distances."""
    fixed = ("l1", "l2", "cosine", "mico", "scr")
    learned = ("diagonal", "mahalanobis", "adaptive-diagonal", "pamd", "mlp", *STRUCTURED)
    return diagnostics.exact(
        suite="varied",
        metrics=("policy-bisimulation",),
        distances=(*fixed, *learned),
        dimensions=(2, 4, 8, 16),
        seeds=2,
        out=out,
        progress=_tell,
        **SETTINGS,
    )


def residual(out: Path, run: Path, longer: bool) -> diagnostics.Residual:
    """Fit nine distances to their fixed points on a trained agent's replay: the preset paper, made smaller."""
    return diagnostics.residual(
        run,
        preset="paper",
        distances=("pamd", "mlp", "l2-unit", *(() if longer else (*STRUCTURED, "adaptive-diagonal"))),
        seeds=4,
        steps=4000 if longer else 1000,
        transitions=2000,
        drawn="newest",
        rewards="over-maximum",
        batch=16,
        tau=0.05,
        points=20,
        pairs=256,
        out=out,
        progress=_tell,
    )


def _tell(what: str, done: int, total: int) -> None:
    if done == total:
        sys.stderr.write(f"{what}: {done}/{total}\n")


def main(command: str, out: str, *run: str) -> None:
    """Compute one of them, and write the fits to exact-heads.parquet or the curves to OUT/data.json."""
    torch.set_num_threads(1)
    keep_freed_memory()
    place = Path(out)
    if command == "exact":
        fits = [
            {key: _rounded(value) for key, value in dataclasses.asdict(cell).items()} for cell in exact(place).cells
        ]
        parquet.write_table(pyarrow.Table.from_pylist(fits), FITS, compression="zstd", compression_level=19)
        return
    diagnostics.save(residual(place, Path(*run), longer=command == "longer"), place)
    data = json.loads((place / "data.json").read_text(encoding="utf-8"), parse_float=lambda x: _rounded(float(x)))
    (place / "data.json").write_text(json.dumps(data, separators=(",", ":")) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    """Return a number with five digits. Infinity is None, as in data.json."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.5g}") if math.isfinite(value) else None


if __name__ == "__main__":
    main(*sys.argv[1:])
