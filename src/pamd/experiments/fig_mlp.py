"""fig:result2: learning curves (top) and the residual-fitting diagnostic (bottom)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pamd.errors import ConfigError
from pamd.experiments.base import Experiment, add, arms
from pamd.experiments.paper import WALKER_WALK

RESIDUAL: dict[str, dict[str, Any]] = {
    "paper": {"preset": "paper"},
    "cpu": {"preset": "quick", "seeds": 4},
    "smoke": {"preset": "quick", "seeds": 1, "steps": 20, "pairs": 32},
}
"""The arguments of the diagnostic at each scale."""


def residual(scale: str, runs: Sequence[tuple[str, Path]]) -> Path:
    """Fit PAMD and the MLP to their fixed points on the replay of the first SimSR run.

    Each distance is fitted once with a frozen encoder and once with a trainable encoder.
    """
    from pamd import diagnostics  # Imported here because listing experiments must not import torch.

    source = next(path for label, path in runs if label == "simsr")
    if not (source / "replay").is_dir():
        raise ConfigError(f"the residual diagnostic of fig-mlp requires {source / 'replay'}, which does not exist")
    place = source / "diagnostics" / f"residual-{RESIDUAL[scale]['preset']}"  # The default of `pamd diagnose`.
    diagnostics.save(diagnostics.residual(source, out=place, **RESIDUAL[scale]), place)
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
