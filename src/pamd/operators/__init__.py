"""Behavioral operators by name. An operator builds the regression target of a pair."""

from __future__ import annotations

from typing import Any

from pamd import schema as _schema
from pamd.operators.base import OPERATORS, Operator

__all__ = ["OPERATORS", "Operator", "operator"]


def operator(name: str, **options: Any) -> Operator[Any]:
    """Return the operator called `name`. `options` are the fields of its config, e.g. ``gamma=0.99``."""
    cls = OPERATORS.get(name)
    return cls(_schema.build(cls.Config, options, f"operator {name!r}"))
