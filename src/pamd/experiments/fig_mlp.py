"""fig:result2: learning curves (top) and the residual-fitting diagnostic (bottom)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pamd.errors import ConfigError
from pamd.experiments.base import Experiment, Fidelity, add, arms
from pamd.experiments.paper import WALKER_WALK

RESIDUAL: dict[str, dict[str, Any]] = {
    "paper": {},
    "cpu": {"preset": "quick", "seeds": 4},
    "smoke": {"preset": "quick", "seeds": 1, "steps": 20, "pairs": 32},
}
"""The arguments of the diagnostic at each scale. At scale `paper`, the fidelity is the preset."""


def residual(scale: str, fidelity: Fidelity, runs: Sequence[tuple[str, Path]]) -> Path:
    """Fit PAMD and the MLP to their fixed points on the replay of the first SimSR run.

    Each distance is fitted once with a frozen encoder and once with a trainable encoder.
    """
    from pamd import diagnostics  # Imported here because listing experiments must not import torch.

    source = next(path for label, path in runs if label == "simsr")
    if not (source / "replay").is_dir():
        raise ConfigError(f"the residual diagnostic of fig-mlp requires {source / 'replay'}, which does not exist")
    arguments = {"preset": fidelity, **RESIDUAL[scale]}
    place = source / "diagnostics" / f"residual-{arguments['preset']}"  # The default of `pamd diagnose`.
    diagnostics.save(diagnostics.residual(source, out=place, **arguments), place)
    return place


EXPERIMENT = add(
    Experiment(
        name="fig-mlp",
        title="PAMD against an unconstrained network",
        shows="whether a distance that can absorb the supervision leaves the encoder untrained: walker_walk, and"
        " residual fitting with the encoder frozen and trainable",
        arms=arms({"walker_walk": WALKER_WALK}, "simsr", "simsr+pamd", "simsr+mlp"),
        published="fig-mlp",
        after=residual,
        needs_replay=True,
    )
)
