"""Write docs/reference.md, docs/cli.md, docs/api.md and a table of docs/family.md anew from the code: `make docs`."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import pamd
from pamd import errors
from pamd.cli.main import COMMANDS
from pamd.cli.parser import Option, description, grouped, options
from pamd.envs import FAMILIES
from pamd.envs.dmc import ACTION_REPEATS, OTHER_ACTION_REPEAT
from pamd.errors import PamdError
from pamd.learners.dormancy import DrmOptions
from pamd.methods import TargetCopies
from pamd.methods.pipelines import family
from pamd.scales import SCALES
from pamd.schema import field_docs
from pamd.table import NONE

DOCS = Path(__file__).parents[1] / "docs"
BENCH = DOCS.parent / "results" / "bench" / "distances.json"
DIMENSION = 50
NESTED = {
    "env": "See [environments](#environments).",
    "encoder": "See [encoders](#encoders).",
    "method": "See [methods](#methods).",
    "learner": "See [learners](#learners).",
    "replay": "See [the replay](#the-replay).",
    "runtime": "See [the runtime](#the-runtime).",
}
"""The fields of a run that are records themselves."""

API = {
    "Distances, operators, objective": (
        *("distances.distance", "distances.Distance", "operators.operator", "operators.Operator"),
        *("terms.metric_loss", "terms.Objective", "terms.Term"),
    ),
    "Records": (
        *(f"types.{name}" for name in ("Latents", "Pairs", "Measurement", "Loss", "OperatorInputs", "Batch")),
        "latents.BatchLatents",
    ),
    "Representation": (
        *("representation.Representation", "representation.Losses", "methods.method", "methods.Method"),
    ),
    "Encoders, learners, agent": ("encoders.encoder", "encoders.Encoder", "learners.Learner", "agent.Agent"),
    "Environments": ("envs.make_env", "envs.Task", "envs.Outcome"),
    "Training": (
        "configuration.configure",
        *(f"training.{name}" for name in ("train", "resume", "load", "Trained", "Runtime")),
    ),
    "Exact metrics": tuple(
        f"exact.{name}"
        for name in (
            *("FiniteMDP", "MDPBuilder", "garnet", "grid_world", "duplicated", "uniform_policy", "metric"),
            *("bisimulation", "policy_bisimulation", "mico", "reduced", "wasserstein", "covering"),
            *("effective_dimension", "doubling_dimension"),
        )
    ),
    "Diagnostics": tuple(
        f"diagnostics.{name}"
        for name in (
            *("residual", "geometry", "latents", "exact", "dimension", "match", "save"),
            *("denoising_factor", "absorption_ratio"),
        )
    ),
    "Stable-Baselines3": ("integrations.sb3.with_metric",),
    "Errors": tuple(
        f"errors.{name}"
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, (PamdError, Warning))
    ),
}
"""The names of the Python API, by section, in the order of the page."""


def api() -> str:
    """The page of the Python API: each name with its source and its first sentence. The site shows it in full."""
    lines = [
        "# Python API",
        "",
        "`make docs` writes this page. Each name leads to its source, and `help(pamd.NAME)` explains it in full. On",
        "the site that `make site` builds, this page has all signatures and docstrings.",
        "",
        "Import each name from the module shown with it. The most common names can also be imported from `pamd`.",
        "Importing `pamd` does not import torch. Names are loaded on first use.",
        "",
    ]
    for title, names in API.items():
        lines += [f"## {title}", ""]
        for name in names:
            module, _, leaf = f"pamd.{name}".rpartition(".")
            value = getattr(importlib.import_module(module), leaf)
            source = Path(inspect.getsourcefile(inspect.unwrap(value)) or "").relative_to(DOCS.parent)
            lines.append(f"- [`pamd.{name}`](../{source}): {_first_line(value)}")
        lines.append("")
    return "\n".join(lines)


def reference() -> str:
    """The page of names and options, from the registries."""
    lines = ["# Reference of names and options", "", "`make docs` writes this page from the registries.", ""]
    lines += ["Set an option of a run on the command line with `--set`, for example"]
    lines += ["`--set method.metric.distance.hidden=256 learner.batch=256`."]
    lines += ["In Python, pass the same strings as `settings=`:"]
    lines += [
        '`pamd.configure("toy", settings=("method.metric.distance.hidden=256", "learner.batch=256"))`.',
        "",
    ]
    return "\n".join([*lines, *_distances(), *_operators(), *_methods(), *_parts(), *_records()]) + "\n"


def _distances() -> list[str]:
    lines = [
        "## Distances",
        "",
        f"`pamd.distance(name, latent_dim=…, preset=…, **options)`. Parameters at d = {DIMENSION}.",
    ]
    lines += ["", "| name | what it is | parameters | properties | presets |", "|---|---|---|---|---|"]
    for name in pamd.DISTANCES.names():
        made = pamd.distance(name, latent_dim=DIMENSION)
        count = sum(p.numel() for p in made.parameters())
        held = [key.replace("_", "-") for key, holds in dataclasses.asdict(made.properties).items() if holds]
        what, presets = _first_line(type(made)), ", ".join(made.presets)
        lines.append(f"| `{name}` | {what} | {count:,} | {', '.join(held) or 'none'} | {presets or 'none'} |")
    lines += ["", "A distance with the option `root_epsilon` is self-zero up to the square root of `root_epsilon`:"]
    lines += ["d(z, z) = 1e-4 by default. `pamd-scaled` multiplies it by its scale."]
    lines += ["", "### Options of distances", ""]
    return lines + _options(pamd.DISTANCES)


def family_page(page: str) -> str:
    """The page of the family with its table of distances, from the registry and results/bench/distances.json."""
    start, end = "<!-- distances -->\n", "<!-- end of distances -->"
    before, _, rest = page.partition(start)
    return before + start + "\n".join(_family_of_distances()) + "\n" + end + rest.partition(end)[2]


def _family_of_distances() -> list[str]:
    measured = {row["distance"]: row for row in json.loads(BENCH.read_text())["rows"]}
    lines = [
        "| distance | parameters | MFLOP | head | update, `cpu` | update, `state` | symmetric | triangle | reach |"
    ]
    lines.append("|---" * 9 + "|")
    for name in pamd.DISTANCES.names():
        made, row = pamd.distance(name, latent_dim=DIMENSION), measured.get(name)
        count = f"{sum(p.numel() for p in made.parameters()):,}"
        times = [row[key] for key in ("MFLOP", "head", "update, cpu", "update, state")] if row else ["not measured"] * 4
        held = ["yes" if holds else "no" for holds in (made.properties.symmetric, made.properties.triangle)]
        lines.append(f"| `{name}` | " + " | ".join([count, *map(str, times), *held, _reach(made)]) + " |")
    return lines


def _reach(distance: Any) -> str:
    """What limits the largest value of a distance: tried out on longer latents and on other weights."""
    value = distance.max_value(1.0)
    if math.isinf(value):
        return "no bound"
    limits = ["latents"] if distance.max_value(2.0) > value else []
    with torch.no_grad():
        for parameter in distance.parameters():
            parameter += 1
    limits += ["weights"] if not math.isclose(distance.max_value(1.0), value) else []
    return " and ".join(limits) or "constant"


def _operators() -> list[str]:
    lines = ["", "## Operators", "", "`pamd.operator(name, **options)`.", ""]
    lines += ["| name | what it is |", "|---|---|"]
    lines += [f"| `{name}` | {_first_line(pamd.OPERATORS.get(name))} |" for name in pamd.OPERATORS.names()]
    return [*lines, "", "### Options of operators", "", *_options(pamd.OPERATORS)]


def _methods() -> list[str]:
    """The table of the family (`pamd list methods --table`), and the fields of a method."""
    table = family()
    lines = ["", "## Methods", "", "`pamd.method(name, fidelity=…)`; [the family](family.md) explains the table.", ""]
    lines += ["| " + " | ".join(table.columns) + " |", "|---" * len(table.columns) + "|"]
    for name, *cells in table.rows:
        lines.append(f"| `{name}` | " + " | ".join(str(cell or NONE) for cell in cells) + " |")
    lines += ["", "### Fields of a method", "", "`--set method.FIELD=…`. A named method sets many of them."]
    lines += ["", *_table(pamd.Method), "", "### Target copies (`method.targets`)", "", *_table(TargetCopies)]
    return [*lines, "", "### Options of `pamd.metric_loss`", "", *_table(pamd.Objective)]


def _parts() -> list[str]:
    """Terms, encoders, learners, augmentations."""
    lines: list[str] = []
    for title, registry in (
        ("Terms", pamd.TERMS),
        ("Encoders", pamd.ENCODERS),
        ("Learners", pamd.LEARNERS),
        ("Augmentations", pamd.augmentations.AUGMENTATIONS),
    ):
        lines += ["", f"## {title}", ""]
        for name in registry.names():
            cls = registry.get(name)
            lines += [f"### `{name}`", "", _first_line(cls), ""]
            if dataclasses.fields(cls.Config):
                lines += [*_table(cls.Config), ""]
        if title == "Learners":
            lines += ["### Dormant units (`learner.drm`)", "", "Null is off.", "", *_table(DrmOptions), ""]
    return lines[:-1]


def _records() -> list[str]:
    """Environments, scales, and everything else that a run's config holds."""
    from pamd.envs import EnvConfig
    from pamd.replay import ReplayConfig
    from pamd.training import Runtime, TrainConfig

    families = ", ".join(f"`{name}`" for name in FAMILIES.names())
    lines = [
        "",
        "## Environments",
        "",
        f"`pamd.make_env(task, **options)`. Families: {families}.",
        "",
        *_table(EnvConfig),
    ]
    lines += [
        "",
        "### Default action repeats",
        "",
        f"Other tasks of the suite have {OTHER_ACTION_REPEAT}, all other tasks 1.",
        "",
    ]
    lines += ["| task | simulator frames per decision |", "|---|---|"]
    lines += [f"| `{task}` | {repeat} |" for task, repeat in ACTION_REPEATS.items()]
    lines += [
        "",
        "## Scales",
        "",
        "`--scale`. A scale changes these values and no others.",
        "",
        "| scale | values |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {', '.join(f'`{k}={v}`' for k, v in _flat(tree))} |" for name, tree in SCALES.items()]
    for title, cls in (("A run", TrainConfig), ("The replay", ReplayConfig), ("The runtime", Runtime)):
        lines += ["", f"## {title}", "", *_table(cls)]
    return lines


def _options(registry: Any) -> list[str]:
    """The options of every entry. Entries with the same options share a table."""
    shared: dict[tuple[str, ...], list[str]] = {}
    for name in registry.names():
        shared.setdefault(tuple(_table(registry.get(name).Config)), []).append(f"`{name}`")
    lines: list[str] = []
    for table, names in shared.items():
        lines += [f"**{', '.join(names)}**", "", *(table or ("No options.",)), ""]
    return lines[:-1]


def _table(config: type[Any]) -> list[str]:
    """One row for each field: its default and the sentence below it in the source."""
    meanings = NESTED | field_docs(config)
    rows = [f"| `{f.name}` | {_default(f)} | {_cell(meanings.get(f.name, ''))} |" for f in dataclasses.fields(config)]
    return ["| option | default | meaning |", "|---|---|---|", *rows] if rows else []


def _flat(tree: dict[str, Any], path: str = "") -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for key, value in tree.items():
        leaves += _flat(value, f"{path}{key}.") if isinstance(value, dict) else [(path + key, value)]
    return leaves


def _first_line(cls: type[Any]) -> str:
    return _cell((cls.__doc__ or "").strip().splitlines()[0])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _default(field: Any) -> str:
    if field.default_factory is not dataclasses.MISSING:
        made = field.default_factory()
        plain = not dataclasses.is_dataclass(made)
        return f"`{made!r}`" if plain else f"`{made.name!r}`" if hasattr(made, "name") else "its own defaults"
    return "required" if field.default is dataclasses.MISSING else f"`{field.default!r}`"


def command_line() -> str:
    """The page of the command line, from the signatures that the commands read their options from."""
    lines = ["# Command line", "", "`make docs` writes this page from the commands. `pamd COMMAND --help` prints"]
    lines += ["the same text.", "", "| command | what it does |", "|---|---|"]
    lines += [f"| [`pamd {name}`](#pamd-{name}) | {_cell(what)} |" for name, (_, _, what) in COMMANDS.items()]
    lines += [
        "",
        "Exit codes: 0 success, 1 a check or a run failed, 2 wrong input, 70 an unexpected error, 130 interrupted.",
    ]
    for command, (module, name, _) in COMMANDS.items():
        commands = importlib.import_module(module)
        function, groups = getattr(commands, name), getattr(commands, "GROUPS", {}).get(name)
        lines += ["", f"## pamd {command}"]
        if isinstance(function, dict):
            for sub, one in function.items():
                lines += ["", f"### pamd {command} {sub}", "", *_command(one)]
        else:
            lines += ["", *_command(function, groups)]
    return "\n".join(lines) + "\n"


def _command(function: Callable[..., Any], groups: Mapping[str, Sequence[str]] | None = None) -> list[str]:
    """The description, and one table for each group of options."""
    lines = [description(function)]
    for title, found in grouped(options(function, groups), groups).items():
        lines += ["", f"**{title.capitalize()}**", "", "| option | default | meaning |", "|---|---|---|"]
        lines += [_row(option) for option in found]
    return lines


def _row(option: Option) -> str:
    meaning, default = option.help, "off" if option.kind is bool else option.shown_default
    if stated := re.fullmatch(r"(.*) \(default: (.*)\)", meaning):  # a default that is a phrase, not a value
        meaning, default = stated[1], stated[2]
    elif default and option.kind is not bool:
        default = f"`{default}`"
    return f"| `{_cell(_name(option))}` | {'required' if option.required else _cell(default)} | {_cell(meaning)} |"


def _name(option: Option) -> str:
    """`--render standard|fast`, or the upper-case name of a positional argument."""
    if option.positional or option.kind is bool:
        return option.label
    return f"{option.flag} {option.metavar}{' ...' if option.count == '*' else ''}"


if __name__ == "__main__":
    (DOCS / "reference.md").write_text(reference())
    (DOCS / "cli.md").write_text(command_line())
    (DOCS / "api.md").write_text(api())
    (DOCS / "family.md").write_text(family_page((DOCS / "family.md").read_text()))
