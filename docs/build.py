"""Write docs/reference.md anew from the registries: `make docs`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pamd
from pamd.fields import field_docs
from pamd.methods.family import family
from pamd.table import NONE

HERE = Path(__file__).parent
DIMENSION = 50


def reference() -> str:
    """The whole page."""
    lines = ["# Reference", "", "Written by `make docs` from the registries.", "", "## Distances", ""]
    lines += [
        f"`pamd.distance(name, latent_dim=…, preset=…, **options)`; parameters at d = {DIMENSION}.",
        "",
        "| name | what it is | parameters | laws | presets |",
        "|---|---|---|---|---|",
    ]
    for name in pamd.DISTANCES.names():
        made = pamd.distance(name, latent_dim=DIMENSION)
        count = sum(p.numel() for p in made.parameters())
        laws = ", ".join(law.replace("_", "-") for law, holds in dataclasses.asdict(made.laws).items() if holds)
        what, presets = _first_line(type(made)), ", ".join(made.presets)
        lines.append(f"| `{name}` | {what} | {count:,} | {laws or 'none'} | {presets or 'none'} |")
    lines += ["", "## Options of distances", ""]
    for name in pamd.DISTANCES.names():
        lines.append(f"- `{name}`: {_options(pamd.DISTANCES.get(name).Config)}")
    lines += ["", "## Operators", "", "`pamd.operator(name, **options)`.", ""]
    for name in pamd.OPERATORS.names():
        cls = pamd.OPERATORS.get(name)
        lines.append(f"- `{name}`: {_first_line(cls)} Options: {_options(cls.Config)}")
    lines += _methods()
    for title, registry in (
        ("Encoders", pamd.ENCODERS),
        ("Learners", pamd.LEARNERS),
        ("Augmentations", pamd.augmentations.AUGMENTATIONS),
    ):
        lines += ["", f"## {title}", ""]
        for name in registry.names():
            cls = registry.get(name)
            lines.append(f"- `{name}`: {_first_line(cls)} Options: {_options(cls.Config)}")
    return "\n".join([*lines, *_explanations()]) + "\n"


def _explanations() -> list[str]:
    """What `help` says about every field of the plug-in's records, and about every option."""
    lines = ["", "## What the fields mean", "", "The same lines are in `help(pamd.Latents)`, and so on."]
    for record in (pamd.Latents, pamd.Objective, pamd.Method):
        lines += ["", f"### `{record.__name__}`", ""]
        lines += [f"- `{name}`: {text}" for name, text in field_docs(record).items()]
    for title, registry in (
        ("distances", pamd.DISTANCES),
        ("operators", pamd.OPERATORS),
        ("encoders", pamd.ENCODERS),
        ("learners", pamd.LEARNERS),
        ("augmentations", pamd.augmentations.AUGMENTATIONS),
    ):
        lines += ["", f"### Options of {title}", ""]
        owners: dict[tuple[str, str], list[str]] = {}
        for name in registry.names():
            for option in field_docs(registry.get(name).Config).items():
                owners.setdefault(option, []).append(f"`{name}`")
        lines += [f"- `{option}` of {', '.join(names)}: {text}" for (option, text), names in owners.items()]
    return lines


def _methods() -> list[str]:
    """The table of the family (`pamd list methods --table`)."""
    table = family()
    lines = ["", "## Methods", "", "`pamd.method(name, fidelity=…)`; [the family](family.md) explains the table.", ""]
    lines += ["| " + " | ".join(table.columns) + " |", "|---" * len(table.columns) + "|"]
    for name, *cells in table.rows:
        lines.append(f"| `{name}` | " + " | ".join(str(cell or NONE) for cell in cells) + " |")
    return lines


def _first_line(cls: type[Any]) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0].replace("|", "\\|")


def _options(config: type[Any]) -> str:
    fields = dataclasses.fields(config)
    return ", ".join(f"`{f.name}={_default(f)}`" for f in fields) or "none"


def _default(field: Any) -> str:
    if field.default_factory is dataclasses.MISSING:
        return repr(field.default)
    made = field.default_factory()
    return repr(getattr(made, "name", made))


if __name__ == "__main__":
    (HERE / "reference.md").write_text(reference())
