"""Derive the options of a command from its signature and docstring.

A parameter before `/` is a positional argument; every other one is an option. A dataclass is replaced by its fields.
Help texts are taken from the `Args` section of the docstring and from the docstrings of dataclass fields.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pamd.schema import field_docs

__all__ = ["Metavar", "Option", "Without", "description", "options"]

MISSING = inspect.Parameter.empty


@dataclass(frozen=True)
class Metavar:
    """For `Annotated`: the placeholder for the value of an option in the help text."""

    text: str


@dataclass(frozen=True)
class Without:
    """For `Annotated`: fields of a dataclass that are not options of this command."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Option:
    """One option or positional argument."""

    path: tuple[str, ...]
    """The parameter, followed by nested field names: ("execution", "resources", "workers")."""
    kind: Any
    """The type of one value: str, int, float, bool, Path or a Literal."""
    count: int | Literal["*"] | None
    """The number of values. None is a single value without a container."""
    default: Any
    meaning: str
    group: str
    positional: bool = False
    metavar: str = ""
    container: type = tuple
    """The container for multiple values."""

    @property
    def name(self) -> str:
        return self.path[-1].strip("_").replace("_", "-")

    @property
    def flag(self) -> str:
        """`--name`, or `--no-name` if the option is on by default."""
        return f"--no-{self.name}" if self.kind is bool and self.default else f"--{self.name}"

    @property
    def label(self) -> str:
        """The name in error messages."""
        return self.metavar if self.positional else self.flag

    @property
    def help(self) -> str:
        """The help text of the flag. A `--no-` flag has the opposite meaning of its parameter."""
        return f"do not {self.meaning}" if self.kind is bool and self.default else self.meaning

    @property
    def required(self) -> bool:
        return self.default is MISSING

    @property
    def shown_default(self) -> str:
        """The default as a user would type it; "" if there is none or the help text already states it."""
        if self.required or self.default is None or self.default == () or self.default == [] or self.kind is bool:
            return ""
        values = self.default if isinstance(self.default, tuple | list) else (self.default,)
        texts = (f"{value:g}" if isinstance(value, float) else str(value) for value in values)
        return "" if "default" in self.meaning else " ".join(texts)


def options(function: Callable[..., Any], groups: Mapping[str, Sequence[str]] | None = None) -> list[Option]:
    """Return the options of `function`. `groups` maps titles to names; other options keep their dataclass's group."""
    titles = {name: title for title, names in (groups or {}).items() for name in names}
    found = []
    hints, meanings = typing.get_type_hints(function, include_extras=True), _argument_meanings(function)
    for name, parameter in inspect.signature(function).parameters.items():
        positional = parameter.kind is inspect.Parameter.POSITIONAL_ONLY
        made = _read((name,), hints[name], parameter.default, meanings.get(name, ""), "options", positional)
        found += [dataclasses.replace(one, group=titles.get(one.path[-1], one.group)) for one in made]
    return found


def description(function: Callable[..., Any]) -> str:
    """Return the docstring without its `Args` section."""
    return inspect.cleandoc(function.__doc__ or "").partition("\nArgs:")[0].strip()


def _read(
    path: tuple[str, ...], hint: Any, default: Any, meaning: str, group: str, positional: bool
) -> Iterator[Option]:
    kind, extras = (hint.__origin__, hint.__metadata__) if typing.get_origin(hint) is typing.Annotated else (hint, ())
    kind = _without_none(kind)
    if dataclasses.is_dataclass(kind):
        left_out = {name for extra in extras if isinstance(extra, Without) for name in extra.names}
        yield from _read_fields(path, kind, left_out)
        return
    container = list if typing.get_origin(kind) is list else tuple
    kind, count = _item(kind)
    metavar = next((extra.text for extra in extras if isinstance(extra, Metavar)), None)
    metavar = metavar or _metavar(path[-1], kind, positional, plural=count == "*")
    if positional and typing.get_origin(kind) is Literal:
        meaning = f"{meaning}: {', '.join(typing.get_args(kind))}"
    yield Option(path, kind, count, default, meaning, group, positional, metavar, container)


def _read_fields(path: tuple[str, ...], record: Any, left_out: set[str]) -> Iterator[Option]:
    hints, meanings = typing.get_type_hints(record, include_extras=True), field_docs(record)
    group = re.sub(r"(?<!^)(?=[A-Z])", " ", record.__name__).lower()
    for field in dataclasses.fields(record):
        if field.name not in left_out:
            default = MISSING if field.default is dataclasses.MISSING else field.default
            meaning = _sentence(meanings[field.name])
            yield from _read((*path, field.name), hints[field.name], default, meaning, group, positional=False)


def _without_none(hint: Any) -> Any:
    """Return T for `T | None`, without the bounds of a record's field. An omitted option is None."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        (hint,) = [part for part in typing.get_args(hint) if part is not types.NoneType]
    return hint.__origin__ if typing.get_origin(hint) is typing.Annotated else hint


def _item(hint: Any) -> tuple[Any, int | Literal["*"] | None]:
    """Return the type of one value and the number of values."""
    if typing.get_origin(hint) not in (tuple, list):
        return hint, None
    parts = typing.get_args(hint)
    many = typing.get_origin(hint) is list or parts[-1] is Ellipsis
    return parts[0], "*" if many else len(parts)


def _metavar(name: str, kind: Any, positional: bool, plural: bool) -> str:
    if typing.get_origin(kind) is Literal and (not positional or len(typing.get_args(kind)) == 1):
        return "|".join(typing.get_args(kind))
    if not positional and kind in (int, float, Path):
        return {int: "N", float: "X", Path: "PATH"}[kind]
    word = name.strip("_").replace("_", "-").upper()
    return word.removesuffix("S") if plural else word


def _argument_meanings(function: Callable[..., Any]) -> dict[str, str]:
    """Return the entries of the `Args` section of a docstring."""
    section = inspect.cleandoc(function.__doc__ or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    entries = re.split(r"^(\w+):", textwrap.dedent(section), flags=re.MULTILINE)
    return {name: _sentence(text) for name, text in zip(entries[1::2], entries[2::2], strict=True)}


def _sentence(text: str) -> str:
    """Return `text` as one line without a final period."""
    return " ".join(text.split()).removesuffix(".")
