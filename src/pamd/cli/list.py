"""`pamd list`: what there is, by name."""

from __future__ import annotations

import dataclasses
import importlib
import json
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from pamd.errors import ConfigError

__all__ = ["show"]

_WIDE = 110
"""Columns that the table of methods needs."""

What = Literal[
    "methods",
    "distances",
    "operators",
    "encoders",
    "learners",
    "augmentations",
    "scales",
    "tasks",
    "distractors",
    "experiments",
]


def show(
    what: Annotated[What, tyro.conf.Positional] = "methods",
    /,
    diff: tuple[str, str] | None = None,
    fidelity: Literal["paper", "released"] = "paper",
    all: bool = False,
    table: bool = False,
) -> None:
    """Print names; for methods, how two of them differ, field by field.

    Args:
        what: what to list.
        diff: two methods; NAME@released or NAME@paper picks the fidelity of one.
        fidelity: of methods that do not say.
        all: every pipeline+distance, too.
        table: the whole family as one table, with citations.
    """
    console = Console()
    if table:
        if what != "methods" or diff is not None:
            raise ConfigError("--table shows methods; it cannot be combined with --diff or with another list")
        from pamd.methods.family import family

        console.print(family(fidelity, every=all).text(), highlight=False, soft_wrap=True, markup=False)
    elif diff is not None:
        if what != "methods":
            raise ConfigError(f"--diff compares methods, not {what}")
        _print_difference(console, diff, fidelity)
    elif what == "methods":
        _print_methods(console, fidelity, all)
    else:
        for line in _lines(what):
            console.print(line, highlight=False, soft_wrap=True)


def _print_methods(console: Console, fidelity: Literal["paper", "released"], every: bool) -> None:
    from pamd.methods import PIPELINES, method, names

    table = Table(title=f"fidelity: {fidelity}", title_justify="left", box=None, pad_edge=False)
    for column in ("method", "distance", "operator", "pairs", "latents", "transition"):
        table.add_column(column, no_wrap=True)
    named = [*PIPELINES, "dbc-det+pamd", "simsr+pamd", "simsr+mlp", "dbc-det+diagonal", "simsr+adaptive-diagonal"]
    for name in names() if every else [*named, "dbc-det+pamd-lowrank"]:
        made = method(name, fidelity)
        distance, operator = made.distance, made.operator
        table.add_row(
            name,
            distance.name if distance else "-",
            operator.name if operator else "-",
            made.objective.pairing if distance else "-",
            made.latent_space,
            made.transition,
        )
    console.width = max(console.width, _WIDE)  # a terminal folds its lines more legibly than a table its cells
    console.print(table)
    if not every:
        console.print("dbc-det, mico, simsr and rap take any +DISTANCE in place of their comparator; --all lists them.")


def _print_difference(console: Console, pair: tuple[str, str], fidelity: Literal["paper", "released"]) -> None:
    from pamd.config import differences
    from pamd.methods import method

    made = []
    for word in pair:
        name, _, own = word.partition("@")
        made.append(method(name, own or fidelity))  # type: ignore[arg-type]
    table = Table("field", *pair)
    for field, one, other in differences(*made):
        table.add_row(field, _shown(one), _shown(other))
    console.print(table)


def _shown(value: Any) -> str:
    return "-" if value is None else str(value)


def _lines(what: str) -> list[str]:
    if what == "tasks":
        from pamd.envs.dmc import suite_tasks

        return [*suite_tasks(), "toy", "gym:ID"]
    if what == "distractors":
        from pamd.envs.distractors import PRESETS

        return [f"{name}: {preset.what}" for name, preset in PRESETS.items()]
    if what == "experiments":
        from pamd.experiments import EXPERIMENTS

        return [f"{name}: {EXPERIMENTS.get(name).shows}" for name in EXPERIMENTS.names()]
    if what == "scales":
        from pamd.configuration import SCALES

        return [f"{name}: {json.dumps(changes)}" for name, changes in SCALES.items()]
    registry: Any = getattr(importlib.import_module(f"pamd.{what}"), what.upper())
    lines = []
    for name in registry.names():
        options = ", ".join(f"{f.name}={_default(f)}" for f in dataclasses.fields(registry.get(name).Config))
        lines.append(f"{name}: {options or 'no options'}")
    return lines


def _default(field: Any) -> str:
    if field.default_factory is dataclasses.MISSING:
        return repr(field.default)
    made = field.default_factory()
    return str(getattr(made, "name", made))
