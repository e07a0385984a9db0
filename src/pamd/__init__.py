"""The pairwise adaptive Mahalanobis distance (PAMD), and experiments with behavioral-metric representations."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import TYPE_CHECKING, Any

from pamd.version import __version__

if TYPE_CHECKING:
    from pamd import (
        agent,
        augmentations,
        diagnostics,
        distances,
        encoders,
        envs,
        errors,
        exact,
        experiments,
        learners,
        methods,
        operators,
        replay,
        report,
        representation,
        schema,
        sweep,
        terms,
        training,
    )
    from pamd.agent import Agent, AgentConfig
    from pamd.configuration import configure
    from pamd.distances import DISTANCES, Distance, distance
    from pamd.distances.base import NoOptions, Properties
    from pamd.encoders import ENCODERS, Encoder, encoder
    from pamd.envs import EnvConfig, make_env
    from pamd.errors import PamdError
    from pamd.latents import BatchLatents
    from pamd.learners import LEARNERS, Learner
    from pamd.methods import Method, method
    from pamd.operators import OPERATORS, Operator, operator
    from pamd.operators.base import OperatorConfig
    from pamd.representation import Losses, Representation
    from pamd.schema import record
    from pamd.terms import TERMS, Objective, Term, metric_loss
    from pamd.training import TrainConfig, load, resume, train
    from pamd.types import Batch, Latents, Loss, Measurement, OperatorInputs, Pairs, Window

# Imported on first use, so that `import pamd` and the command line do not wait for torch.
_HOMES = {
    name: module
    for module, names in {
        "pamd.agent": ("Agent", "AgentConfig"),
        "pamd.configuration": ("configure",),
        "pamd.distances": ("DISTANCES", "Distance", "distance"),
        "pamd.distances.base": ("NoOptions", "Properties"),
        "pamd.encoders": ("ENCODERS", "Encoder", "encoder"),
        "pamd.envs": ("EnvConfig", "make_env"),
        "pamd.errors": ("PamdError",),
        "pamd.latents": ("BatchLatents",),
        "pamd.learners": ("LEARNERS", "Learner"),
        "pamd.methods": ("Method", "method"),
        "pamd.operators": ("OPERATORS", "Operator", "operator"),
        "pamd.operators.base": ("OperatorConfig",),
        "pamd.representation": ("Losses", "Representation"),
        "pamd.schema": ("record",),
        "pamd.terms": ("TERMS", "Objective", "Term", "metric_loss"),
        "pamd.training": ("TrainConfig", "load", "resume", "train"),
        "pamd.types": ("Batch", "Latents", "Loss", "Measurement", "OperatorInputs", "Pairs", "Window"),
    }.items()
    for name in names
}

__all__ = [
    "DISTANCES",
    "ENCODERS",
    "LEARNERS",
    "OPERATORS",
    "TERMS",
    "Agent",
    "AgentConfig",
    "Batch",
    "BatchLatents",
    "Distance",
    "Encoder",
    "EnvConfig",
    "Latents",
    "Learner",
    "Loss",
    "Losses",
    "Measurement",
    "Method",
    "NoOptions",
    "Objective",
    "Operator",
    "OperatorConfig",
    "OperatorInputs",
    "Pairs",
    "PamdError",
    "Properties",
    "Representation",
    "Term",
    "TrainConfig",
    "Window",
    "__version__",
    "agent",
    "augmentations",
    "configure",
    "diagnostics",
    "distance",
    "distances",
    "encoder",
    "encoders",
    "envs",
    "errors",
    "exact",
    "experiments",
    "learners",
    "load",
    "make_env",
    "method",
    "methods",
    "metric_loss",
    "operator",
    "operators",
    "record",
    "replay",
    "report",
    "representation",
    "resume",
    "runs",
    "schema",
    "sweep",
    "terms",
    "train",
    "training",
]


_RENAMED = {"Extras": "OperatorInputs"}

_MOVED_MODULES = {
    "pamd.benchmarks": "the package `benchmarks` in a clone of the repository",
    **dict.fromkeys(("pamd.config", "pamd.fields"), "pamd.schema and pamd.settings"),
    "pamd.durable": "pamd.atomic_io",
    "pamd.identity": "pamd.runs.identity",
    **dict.fromkeys(("pamd.models", "pamd.objective"), "pamd.terms"),
    "pamd.ranks": "pamd.diagnostics.base",
    "pamd.scale": "pamd.scales",
    "pamd.experiments.claims": "studies.verdicts in a clone of the repository",
    "pamd.methods.family": "pamd.methods.pipelines",
    **{
        f"pamd.report.{old}": new
        for new, names in {
            "pamd.report.comparison": ("aggregate", "settings", "differences"),
            "pamd.report.diagnostics": ("diagnosed",),
            "pamd.report.figures": ("figure", "curves", "plots"),
            "pamd.report.run": ("load",),
            "pamd.report.summary": ("about", "findings"),
            "pamd.report.tables": ("results", "inference", "paper"),
            "pamd.runs.logs": ("logs",),
            "studies.verdicts in a clone of the repository": (
                *("verdicts", "exact_verdicts", "forest", "claim_curves", "instruments"),
            ),
        }.items()
        for old in names
    },
    "pamd.sweep.state": "pamd.runs",
    **dict.fromkeys(
        (f"pamd.training.{old}" for old in ("allocator", "clock", "signals", "threads")), "pamd.training.process"
    ),
    **dict.fromkeys(("pamd.training.exported", "pamd.training.hub"), "pamd.training.export"),
    "pamd.training.card": "pamd.training.model_card",
    "pamd.training.upload": "pamd.training.session",
    "pamd.training.video": "pamd.training.evaluate",
}
"""Modules of earlier versions, and where their content is now."""


class _MovedModules:
    """The last finder of `import`: it is asked only for modules that do not exist."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name in _MOVED_MODULES:
            raise ModuleNotFoundError(f"{name} has moved: use {_MOVED_MODULES[name]}", name=name)


sys.meta_path.append(_MovedModules)


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        warnings.warn(f"pamd.{name} is deprecated; use pamd.{_RENAMED[name]}", DeprecationWarning, stacklevel=2)
        name = _RENAMED[name]
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in __all__:
        return importlib.import_module(f"pamd.{name}")
    raise AttributeError(f"module 'pamd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
