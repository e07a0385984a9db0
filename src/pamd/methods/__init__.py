"""Methods as data, and their names. A name such as "simsr+pamd" and a fidelity give a `Method` record."""

from __future__ import annotations

from pamd.methods.pipelines import PIPELINES, Fidelity, method, names, side
from pamd.methods.record import BallRadius, LatentSpace, Method, TargetCopies
from pamd.terms import DistancePart, OperatorPart

__all__ = [
    "PIPELINES",
    "BallRadius",
    "DistancePart",
    "Fidelity",
    "LatentSpace",
    "Method",
    "OperatorPart",
    "TargetCopies",
    "method",
    "names",
    "side",
]
