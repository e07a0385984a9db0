"""`pamd list`: the names that commands and configs accept."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import inspect
import json
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Console
from rich.table import Table

from pamd import atomic_io
from pamd.cli.parser import Metavar
from pamd.errors import ConfigError
from pamd.schema import flatten

_WIDE = 110
"""The terminal width that the table of methods requires."""

_What = Literal[
    "methods",
    "distances",
    "operators",
    "terms",
    "encoders",
    "learners",
    "augmentations",
    "scales",
    "tasks",
    "distractors",
    "noises",
    "experiments",
    "backends",
]


def show(
    what: _What = "methods",
    /,
    diff: Annotated[tuple[str, str] | None, Metavar("METHOD")] = None,
    fidelity: Literal["paper", "released"] = "paper",
    all: bool = False,
    table: bool = False,
) -> None:
    """Print the names of one kind. For methods, --diff compares two of them field by field.

    Args:
        what: what to list
        diff: two methods to compare; NAME@released or NAME@paper sets the fidelity of one
        fidelity: fidelity of the methods
        all: include every combination of pipeline+distance
        table: print all methods as one table with citations
    """
    console = Console(emoji=False)  # Otherwise, Rich replaces the ":ID:" of "gym:ID:" by an emoji.
    if table:
        if what != "methods" or diff is not None:
            raise ConfigError("--table shows methods; it cannot be combined with --diff or another list")
        from pamd.methods.pipelines import family

        console.print(family(fidelity, every=all).text(), highlight=False, soft_wrap=True, markup=False)
    elif diff is not None:
        if what != "methods":
            raise ConfigError(f"--diff compares methods, not {what}")
        _print_difference(console, diff, fidelity)
    elif what == "methods":
        _print_methods(console, fidelity, all)
    else:
        for line in _lines(what):
            console.print(line, highlight=False, soft_wrap=True, markup=False)


def _print_methods(console: Console, fidelity: Literal["paper", "released"], every: bool) -> None:
    table = Table(title=f"fidelity: {fidelity}", title_justify="left", box=None, pad_edge=False)
    for column in ("method", "distance", "operator", "pairs", "latents", "transition"):
        table.add_column(column, no_wrap=True)
    for row in _stored(f"methods {fidelity} {every}", lambda: _method_rows(fidelity, every)):
        table.add_row(*row)
    console.width = max(console.width, _WIDE)  # Wrapped lines are easier to read than wrapped table cells.
    console.print(table)
    if not every:
        console.print("dbc-det, dbc-unit, mico, simsr and rap accept +DISTANCE; --all lists every combination.")


def _method_rows(fidelity: Literal["paper", "released"], every: bool) -> list[list[str]]:
    from pamd.methods import PIPELINES, method, names

    selection = [
        *PIPELINES,
        "dbc-det+pamd",
        "dbc-unit+pamd",
        "simsr+pamd",
        "simsr+mlp",
        "dbc-det+diagonal",
        "simsr+adaptive-diagonal",
        "dbc-det+pamd-lowrank",
    ]
    rows = []
    for name in names() if every else selection:
        config = method(name, fidelity)
        distance, operator, transition = config.distance, config.operator, config.term("transition")
        row = [
            name,
            distance.name if distance else "-",
            operator.name if operator else "-",
            config.metric.pairing if config.metric else "-",
            config.latent_space,
            transition.kind if transition else "-",
        ]
        rows.append(row)
    return rows


def _stored(what: str, compute: Callable[[], Any]) -> Any:
    """Return `compute()`, which is JSON, from an earlier process if nothing has changed since.

    The parts of a method are classes of torch, which takes a second to import. What they are called depends only on the
    source of this package, unless there are plug-ins.
    """
    plug_ins = any(group.startswith("pamd.") for group in entry_points().groups)
    if plug_ins or "torch" in sys.modules:
        return compute()
    package = Path(__file__).parents[1]
    states = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(package.rglob("*.py"))]
    source = hashlib.sha256(repr((sys.version, states)).encode()).hexdigest()
    path = atomic_io.user_cache() / "names" / f"{what.replace(' ', '-')}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        stored = json.loads(atomic_io.read(path))
        if stored["source"] == source:
            return stored["result"]
    result = compute()
    with contextlib.suppress(OSError):  # A home that cannot be written only costs time.
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_io.replace(path, json.dumps({"source": source, "result": result}).encode())
    return result


def _print_difference(console: Console, pair: tuple[str, str], fidelity: Literal["paper", "released"]) -> None:
    from pamd.methods import agent_method
    from pamd.schema import differences

    methods = []
    for text in pair:
        name, _, own_fidelity = text.partition("@")
        methods.append(agent_method(name, own_fidelity or fidelity))  # type: ignore[arg-type]
    table = Table("field", *pair)
    for field, one, other in differences(*methods):
        table.add_row(field, _format(one), _format(other))
    console.print(table)


def _format(value: Any) -> str:
    return "-" if value is None else str(value)


def _lines(what: str) -> list[str]:
    """Return one line per name of a kind, with a description or its options."""
    if what == "tasks":
        from pamd.envs import FAMILIES, default_action_repeat

        lines = []
        for name in FAMILIES.names():
            family = FAMILIES.get(name)
            names = family.tasks() or ([name] if family.bare else [])
            tasks = [f"{task}: action repeat {default_action_repeat(task)}" for task in names]
            summary = (inspect.getdoc(family) or "").partition("\n")[0]
            lines += tasks or [f"{name}:NAME: {summary}"]  # Some families do not know the names of their tasks.
        return lines
    if what == "distractors":
        from pamd.envs.distractors import PRESETS

        return [f"{name}: {preset.what}" for name, preset in PRESETS.items()]
    if what == "experiments":
        from pamd.experiments import EXPERIMENTS

        return [f"{name}: {EXPERIMENTS.get(name).shows}" for name in EXPERIMENTS.names()]
    if what == "scales":
        from pamd.scales import SCALES

        return [f"{name}: {_fields(changes)}" for name, changes in SCALES.items()]
    if what == "noises":
        from pamd.envs.config import NOISES, noise

        return [f"{name}: {_fields(dataclasses.asdict(noise(name)))}" for name in NOISES]
    if what == "backends":
        return list(_stored(what, lambda: importlib.import_module("pamd.sweep").BACKENDS.names()))
    return list(_stored(what, lambda: _part_lines(what)))


def _part_lines(what: str) -> list[str]:
    """Return one line per registered part of a kind, with its options."""
    # Every such kind is a package with a registry of the same name, e.g. DISTANCES in `pamd.distances`.
    registry: Any = getattr(importlib.import_module(f"pamd.{what}"), what.upper())
    lines = []
    for name in registry.names():
        fields = dataclasses.fields(registry.get(name).Config)
        options = ", ".join(f"{field.name}={_default(field)}" for field in fields)
        lines.append(f"{name}: {options or 'no options'}")
    return lines


def _fields(tree: dict[str, Any]) -> str:
    """Format the leaves of a tree as "a=1, b.c=2"."""
    return ", ".join(f"{key}={json.dumps(value)}" for key, value in flatten(tree).items())


def _default(field: Any) -> str:
    """Format the default of a config's field. A part, e.g. a distance, is shown by its name."""
    if field.default_factory is dataclasses.MISSING:
        return repr(field.default)
    default = field.default_factory()
    return str(getattr(default, "name", default))
