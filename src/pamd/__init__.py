"""PAMD: the pairwise adaptive Mahalanobis distance, and the laboratory for behavioural-metric representations."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pamd import exact
    from pamd.distances import DISTANCES, Distance, distance
    from pamd.errors import PamdError
    from pamd.objective import Objective, metric_loss
    from pamd.operators import OPERATORS, Operator, operator
    from pamd.types import Latents, Loss, Measurement, Pairs

__version__ = "0.1.0"

# Looked up on first use, so that `import pamd` and the command line do not wait for torch.
_HOMES = {
    "DISTANCES": "pamd.distances",
    "Distance": "pamd.distances",
    "Latents": "pamd.types",
    "Loss": "pamd.types",
    "Measurement": "pamd.types",
    "OPERATORS": "pamd.operators",
    "Objective": "pamd.objective",
    "Operator": "pamd.operators",
    "PamdError": "pamd.errors",
    "Pairs": "pamd.types",
    "distance": "pamd.distances",
    "metric_loss": "pamd.objective",
    "operator": "pamd.operators",
}

__all__ = [
    "DISTANCES",
    "OPERATORS",
    "Distance",
    "Latents",
    "Loss",
    "Measurement",
    "Objective",
    "Operator",
    "Pairs",
    "PamdError",
    "__version__",
    "distance",
    "exact",
    "metric_loss",
    "operator",
]


def __getattr__(name: str) -> Any:
    if name == "exact":
        return importlib.import_module("pamd.exact")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pamd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
