"""tab:pamd_flops."""

from __future__ import annotations

from pamd.experiments.base import Experiment, add

__all__ = ["EXPERIMENT"]

EXPERIMENT = add(
    Experiment(
        name="table-flops",
        title="Floating-point operations of one update",
        shows="the cost of PAMD compared with the encoder, counted in operations",
        benchmark="flops",
        published="table-flops",
    )
)
