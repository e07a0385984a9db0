"""Options of a command from the signature of its function, and the parser of its words.

A parameter is an option, a positional-only one an argument; the fields of a dataclass are options as well. Help texts
are taken from the `Args` section of the docstring and from the strings below the fields of dataclasses. Errors are one
line and suggest the closest option.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from pamd.errors import ConfigError, UnknownNameError, nearest
from pamd.schema import Default, field_docs

_RENAMED = {
    "root": "runs",
    "output": "out",
    "out-dir": "out",
    "run-dir": "runs",
    "steps": "decisions",
    "env-steps": "decisions",
    "agent": "method",
    "neighbours": "neighbors",
    "artefact-only": "report-only",
}
"""Option names of earlier versions and other packages, and their names here. They are used to suggest corrections."""
_REMOVED = {
    "verify --repair": "`pamd resume RUN` cleans up after a kill by itself; restore a damaged file from a copy, or"
    " train the run again",
    "diagnose exact --distortion": "use `pamd diagnose dimension --within X`",
    "--storage compressed": "use --storage mmap, which takes less memory, or auto",
}
"""Options and values of earlier versions that have no successor of the same kind, and what to do instead."""

_MISSING = inspect.Parameter.empty


# -- Options from the signature of a function --------------------------------------------------------------------------


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
        return self.default is _MISSING

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
    meaning += "".join(f" (default: {extra.text})" for extra in extras if isinstance(extra, Default))
    yield Option(path, kind, count, default, meaning, group, positional, metavar, container)


def _read_fields(path: tuple[str, ...], record: Any, left_out: set[str]) -> Iterator[Option]:
    hints, meanings = typing.get_type_hints(record, include_extras=True), field_docs(record)
    group = re.sub(r"(?<!^)(?=[A-Z])", " ", record.__name__).lower()
    for field in dataclasses.fields(record):
        if field.name not in left_out:
            default = _MISSING if field.default is dataclasses.MISSING else field.default
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


# -- Parsing -----------------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """An argparse parser that raises ConfigError."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.command}: {message.removeprefix('argument ')}; see `{self.prog} --help`")

    @property
    def command(self) -> str:
        return self.prog.removeprefix("pamd ")


def parser(prog: str, function: Callable[..., Any], groups: Mapping[str, Sequence[str]] | None = None) -> _Parser:
    """Return the parser of a command, with options by group and their meanings and defaults."""
    known = options(function, groups)
    arguments = [_usage(option) for option in known if option.positional]
    made = _Parser(
        prog=prog,
        usage=" ".join([prog, *arguments, "[options]"]),
        description=description(function),
        allow_abbrev=False,
        add_help=False,
        formatter_class=_Help,
    )
    for title, members in grouped(known, groups).items():
        box = made.add_argument_group(title)
        for option in members:
            _add(box, option)
    return made


def grouped(known: Sequence[Option], groups: Mapping[str, Sequence[str]] | None = None) -> dict[str, list[Option]]:
    """Return the options by group title, in the order of the help text."""
    found: dict[str, list[Option]] = {}
    for option in sorted(known, key=lambda one: _rank(one, groups or {})):
        found.setdefault("arguments" if option.positional else option.group, []).append(option)
    return found


def bind(
    prog: str, function: Callable[..., Any], words: Sequence[str], groups: Mapping[str, Sequence[str]] | None = None
) -> Callable[[], Any]:
    """Parse `words` and return a callable that calls `function` with the parsed arguments."""
    reader, known = parser(prog, function, groups), options(function, groups)
    words = [re.sub(r"^--[\w-]+", lambda flag: flag[0].replace("_", "-"), word) for word in words]
    _check_flags(reader, known, words)
    namespace, rest = reader.parse_known_args(words)
    if rest:
        raise ConfigError(f"{reader.command}: unexpected argument {rest[0]!r}; see `{prog} --help`")
    given = {option.path: _value(option, namespace) for option in known if _is_given(option, namespace)}
    missing = [option.label for option in known if option.required and option.path not in given]
    if missing:
        plural = "are" if len(missing) > 1 else "is"
        raise ConfigError(f"{reader.command}: {' and '.join(missing)} {plural} required; see `{prog} --help`")
    return _call(function, given)


def _call(function: Callable[..., Any], given: Mapping[tuple[str, ...], Any]) -> Callable[[], Any]:
    first: list[Any] = []
    rest: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        within = {path[1:]: value for path, value in given.items() if path[0] == name}
        value = within[()] if () in within else _replace_fields(parameter.default, within)
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            first.append(value)
        else:
            rest[name] = value
    return lambda: function(*first, **rest)


def _replace_fields(record: Any, given: Mapping[tuple[str, ...], Any]) -> Any:
    """Return `record` with the fields at the given paths replaced."""
    if not given:
        return record
    changes = {}
    for name in dict.fromkeys(path[0] for path in given):
        within = {path[1:]: value for path, value in given.items() if path[0] == name}
        changes[name] = within[()] if () in within else _replace_fields(getattr(record, name), within)
    return dataclasses.replace(record, **changes)


def _value(option: Option, namespace: argparse.Namespace) -> Any:
    value = getattr(namespace, ".".join(option.path))
    return option.container(value) if option.count is not None else value


def _is_given(option: Option, namespace: argparse.Namespace) -> bool:
    value = getattr(namespace, ".".join(option.path), None)
    return value is not None and not (value == [] and (option.positional or option.required))


def _check_flags(reader: _Parser, known: Sequence[Option], words: Sequence[str]) -> None:
    flags = [*(option.flag for option in known if not option.positional), "--help"]
    hidden = [f"--{option.name}" for option in known if not option.positional]
    for word in words:
        flag = word.partition("=")[0]
        if not re.match(r"--?[A-Za-z]", flag) or flag in (*flags, *hidden, "-h"):
            continue
        if removed := _REMOVED.get(f"{reader.command} {flag}"):
            raise ConfigError(f"{reader.command}: {flag} was removed: {removed}")
        new, near = f"--{_RENAMED.get(flag[2:])}", nearest(flag[2:], [one[2:] for one in flags])
        if new in flags:
            raise ConfigError(f"{reader.command}: unknown option {flag}; use {new}")
        meant = f"Did you mean --{near}?" if near else f"See `{reader.prog} --help`."
        raise ConfigError(f"{reader.command}: unknown option {flag}. {meant}")


def _add(box: Any, option: Option) -> None:
    text = option.help + (f" (default: {option.shown_default})" if option.shown_default else "")
    text = text.replace("%", "%%")
    common: dict[str, Any] = {"default": argparse.SUPPRESS, "dest": ".".join(option.path)}
    if option.kind is bool:
        if option.default:
            box.add_argument(option.flag, action="store_false", help=text, **common)
            box.add_argument(f"--{option.name}", action="store_true", help=argparse.SUPPRESS, **common)
        else:
            box.add_argument(option.flag, action="store_true", help=text, **common)
        return
    common |= {"type": _reader(option), "metavar": option.metavar}
    if option.positional:
        # Missing arguments are reported by `bind`, so argparse must accept none.
        common |= {"default": None, "nargs": "*" if option.count == "*" else "?"}
        box.add_argument(common.pop("dest"), help=text, **common)
    else:
        text += " (required)" if option.required else ""
        # `--set a=1 --set b=2` means the same as `--set a=1 b=2`.
        action = "extend" if option.count == "*" else "store"
        box.add_argument(option.flag, action=action, nargs=option.count, help=text, **common)


def _usage(option: Option) -> str:
    word = f"{option.metavar} ..." if option.count == "*" else option.metavar
    return word if option.required else f"[{word}]"


def _reader(option: Option) -> Callable[[str], Any]:
    """Return the function that parses one value. It raises ConfigError, which argparse does not catch."""
    kind, label = option.kind, option.label
    if typing.get_origin(kind) is Literal:
        return lambda text: _choice(text, "argument" if option.positional else label, typing.get_args(kind))
    if kind is int:
        return lambda text: _whole_number(text, label)
    if kind is float:
        return lambda text: _number(text, label)
    if kind in (str, Path):
        return typing.cast("Callable[[str], Any]", kind)
    raise TypeError(f"{label}: an option cannot be of type {kind!r}")


def _choice(text: str, label: str, choices: tuple[str, ...]) -> str:
    if removed := _REMOVED.get(f"{label} {text}"):
        raise ConfigError(f"{label} {text} was removed: {removed}")
    if text not in choices:
        raise UnknownNameError(label, text, choices)
    return text


def _whole_number(text: str, label: str) -> int:
    """Parse a whole number such as 100000, 100_000 or 1e5."""
    try:
        return int(text)
    except ValueError:
        value = _number(text, label, "a whole number, e.g. 50000 or 5e4")
    if not value.is_integer():
        raise ConfigError(f"{label} must be a whole number, e.g. 50000 or 5e4, got {text!r}")
    return int(value)


def _number(text: str, label: str, what: str = "a number") -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{label} must be {what}, got {text!r}") from None


def _rank(option: Option, groups: Mapping[str, Sequence[str]]) -> int:
    """Sort positional arguments first, then the given groups in order, then all other groups."""
    order = [name for names in groups.values() for name in names]
    if option.positional:
        return -1
    return order.index(option.path[-1]) if option.path[-1] in order else len(order)


class _Help(argparse.RawDescriptionHelpFormatter):
    """Wraps each paragraph of the description and shows options as `--name VALUE`."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, max_help_position=30, **options)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
        return "\n\n".join(textwrap.fill(part, width, break_on_hyphens=False) for part in paragraphs)
