"""tab:pamd_wallclock_scaling."""

from __future__ import annotations

from pamd.experiments.base import Experiment, add

__all__ = ["EXPERIMENT"]

EXPERIMENT = add(
    Experiment(
        name="table-scaling",
        title="Latent dimension 50 against 200",
        shows="how update time, decisions per second and total time depend on the latent dimension on this machine",
        benchmark="scaling",
        published="table-scaling",
    )
)
