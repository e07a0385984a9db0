"""Terms by name. A term is one loss on latents. To add a term, add a file here; no other edit is needed."""

from __future__ import annotations

from pamd.terms.base import TERMS, Term, TermPart, TermStep
from pamd.terms.metric import DistancePart, MetricConfig, Objective, OperatorPart, metric_loss

__all__ = [
    "TERMS",
    "DistancePart",
    "MetricConfig",
    "Objective",
    "OperatorPart",
    "Term",
    "TermPart",
    "TermStep",
    "metric_loss",
]
