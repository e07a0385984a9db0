"""PAMD: the pairwise adaptive Mahalanobis distance, and the laboratory for behavioural-metric representations."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pamd import diagnostics, exact
    from pamd.agent.method import Method
    from pamd.configuration import configure
    from pamd.distances import DISTANCES, Distance, distance
    from pamd.envs import EnvConfig, make_env
    from pamd.errors import PamdError
    from pamd.methods import method, scale
    from pamd.objective import Objective, metric_loss
    from pamd.operators import OPERATORS, Operator, operator
    from pamd.training import TrainConfig, resume, train
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
    "EnvConfig": "pamd.envs",
    "Method": "pamd.agent.method",
    "TrainConfig": "pamd.training",
    "configure": "pamd.configuration",
    "distance": "pamd.distances",
    "make_env": "pamd.envs",
    "method": "pamd.methods",
    "resume": "pamd.training",
    "scale": "pamd.methods",
    "train": "pamd.training",
    "metric_loss": "pamd.objective",
    "operator": "pamd.operators",
}

__all__ = [
    "DISTANCES",
    "OPERATORS",
    "Distance",
    "EnvConfig",
    "Latents",
    "Loss",
    "Measurement",
    "Method",
    "Objective",
    "Operator",
    "Pairs",
    "PamdError",
    "TrainConfig",
    "__version__",
    "configure",
    "diagnostics",
    "distance",
    "exact",
    "make_env",
    "method",
    "metric_loss",
    "operator",
    "resume",
    "scale",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in ("diagnostics", "exact"):
        return importlib.import_module(f"pamd.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pamd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
