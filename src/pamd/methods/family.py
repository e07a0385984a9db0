"""The table of all methods, with the comparator, target, latent space, model, reward head and source of each."""

from __future__ import annotations

import dataclasses

from pamd.errors import ConfigError
from pamd.methods.pipelines import PIPELINES, Fidelity, method, names
from pamd.methods.record import Method
from pamd.schema import Part
from pamd.table import Table

__all__ = ["COLUMNS", "family"]

COLUMNS = ("method", "comparator", "target", "latent space", "model", "reward head", "citation")


def family(fidelity: Fidelity = "paper", *, every: bool = False) -> Table:
    """Return a table with one row per pipeline and PAMD version; with `every`, also one per pipeline+distance."""
    chosen = names() if every else [name for pipeline in PIPELINES for name in _with_pamd(pipeline)]
    return Table("family", f"The family, fidelity {fidelity}", COLUMNS, [_row(name, fidelity) for name in chosen])


def _with_pamd(pipeline: str) -> list[str]:
    """Return the pipeline, and its PAMD version if there is one."""
    try:
        method(f"{pipeline}+pamd")
    except ConfigError:
        return [pipeline]
    return [pipeline, f"{pipeline}+pamd"]


def _row(name: str, fidelity: Fidelity) -> list[str | None]:
    made = method(name, fidelity)
    cites = PIPELINES[name.partition("+")[0]].cites
    return [
        name,
        made.distance.name if made.distance else None,
        _target(made.operator) if made.operator else None,
        made.latent_space,
        None if (transition := made.term("transition")) is None else transition.kind,
        _reward_head(made),
        cites + ("; PAMD" if "+pamd" in name else ""),
    ]


def _target(operator: Part) -> str:
    """Return the operator's name and the options that differ from its defaults."""
    default = operator.cls.Config()
    changed = [
        f.name for f in dataclasses.fields(default) if getattr(operator.options, f.name) != getattr(default, f.name)
    ]
    return " ".join([operator.name, *(f"{name}={getattr(operator.options, name)}" for name in changed)])


def _reward_head(made: Method) -> str | None:
    if made.term("state-reward") is not None:
        return "of the state"
    return None if made.term("reward") is None else "of the predicted next latent"
