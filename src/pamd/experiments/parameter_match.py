"""app:param_match: check that MetricNet and DistanceMLP have the stated, nearly equal numbers of parameters."""

from __future__ import annotations

from pamd.experiments.base import Experiment, add
from pamd.table import Table

_STATED = {"pamd": 193_915, "mlp": 194_041}
DIMENSION = 50


def count(scale: str) -> Table:
    """Count the parameters of the trained modules. The scale has no effect."""
    from pamd.distances import distance

    found = {
        name: sum(p.numel() for p in distance(name, latent_dim=DIMENSION).parameters())
        for name in ("pamd", "mlp", "diagonal", "adaptive-diagonal", "pamd-lowrank", "pamd-block")
    }
    rows = [
        {
            "distance": name,
            "parameters": number,
            "in the paper": _STATED.get(name, ""),
            "agrees": "" if name not in _STATED else "yes" if number == _STATED[name] else "NO",
            "more than pamd": number - found["pamd"],
        }
        for name, number in found.items()
    ]
    notes = [f"Latent dimension {DIMENSION}. The paper states a difference of 126 between MLP and PAMD."]
    return Table.from_records(EXPERIMENT.name, EXPERIMENT.title, rows, notes)


EXPERIMENT = add(
    Experiment(
        name="parameter-match",
        title="Parameters of the distance heads",
        shows="that PAMD and the unconstrained network have nearly the same number of parameters",
        compute=count,
    )
)
