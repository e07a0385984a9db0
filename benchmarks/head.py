"""Forward and backward pass of every distance, compared with the textbook construction of PAMD."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import pamd
from benchmarks.common import Options
from pamd.measure import interleave, milliseconds, ratio
from pamd.table import Table

__all__ = ["measure"]

DIMENSIONS = (50, 200, 512, 1024)
BATCH = 128
BLOCK = {50: 10, 200: 10, 512: 16, 1024: 16}
"""The block size of pamd-block for each d."""


def measure(options: Options) -> Table:
    rows = [row for d in DIMENSIONS for row in _rows(d, options)]
    notes = (
        "x textbook: speedup over PAMD with every G built explicitly and its exact norm; median (quartiles).",
        "x pamd at 200: speedup over pamd at d = 200, the reference for variants of linear cost.",
    )
    return Table.from_records("head", f"forward and backward of {BATCH} pairs, {options.threads} threads", rows, notes)


def _rows(d: int, options: Options) -> list[dict[str, Any]]:
    runs = {name: _contender(name, d) for name in ["textbook", *pamd.DISTANCES.names()]}
    runs["pamd at 200"] = _contender("pamd", 200)
    # From d = 512 on, the textbook construction takes seconds and 8 GB.
    seconds = interleave(runs, options.repetitions if d <= 200 else max(2, options.repetitions // 3))
    return [
        {
            "d": d,
            "distance": name,
            "ms": milliseconds(taken),
            "x textbook": str(ratio(seconds["textbook"], taken)),
            "x pamd at 200": str(ratio(seconds["pamd at 200"], taken)),
        }
        for name, taken in seconds.items()
    ]


def _contender(name: str, d: int) -> Callable[[], None]:
    """Return a function that does the head's work of one update: forward, penalty, backward to latents and weights."""
    torch.manual_seed(0)
    textbook = name == "textbook"
    settings: dict[str, Any] = {"block": BLOCK[d]} if name == "pamd-block" else {}
    distance: Any = pamd.distance("pamd" if textbook else name, latent_dim=d, **settings)
    z, z_prime, target = torch.randn(BATCH, d), torch.randn(BATCH, d), torch.rand(BATCH)
    generator = torch.Generator().manual_seed(0)

    def run() -> None:
        left, right = z.clone().requires_grad_(), z_prime.clone().requires_grad_()
        distance.zero_grad()
        if textbook:
            value, penalty = distance.textbook(left, right)
        else:
            value, penalty, _ = distance.measure(left, right, generator)
        goal = target if value.ndim == 1 else target[:, None]
        loss: Tensor = (value - goal).square().mean() + penalty
        loss.backward()

    return run
