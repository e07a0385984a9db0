"""lem:spectral_sandwich: check that the values of PAMD are within the lemma's bounds and how tight the bounds are."""

from __future__ import annotations

from typing import Any

from pamd.experiments.base import Experiment, add
from pamd.table import Table

DIMENSION = 50
PAIRS = {"paper": 100_000, "cpu": 20_000, "smoke": 500}
_SPREADS = (1e-3, 1.0, 1e2)
"""The standard deviations of the latents: close together, unit scale, and far apart."""


def check(scale: str) -> Table:
    """Evaluate PAMD on random pairs with the initial weights and with weights that are ten times larger."""
    rows = [_row(spread, gain, PAIRS[scale]) for gain in (1.0, 10.0) for spread in _SPREADS]
    notes = (
        f"Latent dimension {DIMENSION}, {PAIRS[scale]:,} random pairs per row, float64; gain: factor on all weights.",
        "nearest: the smallest value/lower and the largest value/upper; violations beyond 1e-12 relative are counted.",
    )
    return Table.from_records(EXPERIMENT.name, EXPERIMENT.title, rows, notes)


def _row(spread: float, gain: float, pairs: int) -> dict[str, Any]:
    import torch

    from pamd.distances import distance

    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        head: Any = distance("pamd", latent_dim=DIMENSION).double()
        for weight in head.parameters():
            weight.mul_(gain)
    nearest_lower, nearest_upper, violations = float("inf"), 0.0, 0
    with torch.no_grad():
        for start in range(0, pairs, 500):
            size = (2, min(500, pairs - start), DIMENSION)
            z, z_prime = spread * torch.randn(size, generator=generator, dtype=torch.float64)
            value, (low, high) = head(z, z_prime), head.bounds(z, z_prime)
            nearest_lower = min(nearest_lower, float((value / low).min()))
            nearest_upper = max(nearest_upper, float((value / high).max()))
            violations += int(((value < low * (1 - 1e-12)) | (value > high * (1 + 1e-12))).sum())
    return {
        "spread of z": spread,
        "gain": gain,
        "pairs": pairs,
        "violations": violations,
        "nearest to lower": f"{nearest_lower:.4g}",
        "nearest to upper": f"{nearest_upper:.4g}",
    }


EXPERIMENT = add(
    Experiment(
        name="lemma",
        title="The spectral bounds of PAMD",
        shows="that every value lies between the lemma's bounds, and how tight the bounds are",
        compute=check,
    )
)
