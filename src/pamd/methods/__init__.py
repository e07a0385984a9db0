"""Methods as data, and their names. A name such as "dbc-unit+pamd" and a fidelity give a `Method` record."""

from __future__ import annotations

from pamd.methods.pipelines import (
    DEFAULT_METHOD,
    PIPELINES,
    Fidelity,
    agent_method,
    method,
    names,
    side,
    unknown_method,
)
from pamd.methods.record import LatentSpace, Method, TargetCopies
from pamd.terms import DistancePart, OperatorPart

__all__ = [
    "DEFAULT_METHOD",
    "PIPELINES",
    "DistancePart",
    "Fidelity",
    "LatentSpace",
    "Method",
    "OperatorPart",
    "TargetCopies",
    "agent_method",
    "method",
    "names",
    "side",
    "unknown_method",
]
