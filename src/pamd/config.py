"""Convert frozen dataclasses to and from JSON. Parsing is strict: an unknown key or a wrong type is an error."""

from __future__ import annotations

import dataclasses
import functools
import json
import typing
from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pamd.errors import ConfigError, UnknownNameError
from pamd.registry import Registry

if TYPE_CHECKING:
    import pydantic

__all__ = [
    "Part",
    "apply_settings",
    "build",
    "check_choice",
    "check_fraction",
    "check_positive",
    "check_whole",
    "differences",
    "from_json",
    "override",
    "to_json",
    "to_tree",
    "tree_differences",
]

C = TypeVar("C")


@dataclass(frozen=True)
class Part(ABC):
    """A registered component, given by its name and its typed options. A subclass is final and sets `registry`.

    `options` may be a mapping. It is converted to the component's `Config`, which includes every default.
    """

    name: str
    options: Any = dataclasses.field(default_factory=dict)

    registry: ClassVar[Registry[Any]]
    """The registry that contains the name."""

    def __post_init__(self) -> None:
        record = self.cls.Config
        if not isinstance(self.options, record):
            object.__setattr__(self, "options", build(record, self.options, f"{self.registry.kind} {self.name!r}"))

    @property
    def cls(self) -> Any:
        """The class that is registered under this name."""
        return self.registry.get(self.name)


def build(cls: type[C], options: Mapping[str, Any], what: str) -> C:
    """Build a `cls` from keyword `options`. `what` names the object in error messages ("distance 'pamd'")."""
    try:
        text = json.dumps(options)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"options of {what} must be plain data (numbers, strings, lists): {error}") from None
    return from_json(cls, text, what)


def from_json(cls: type[C], text: str, what: str) -> C:
    """Build a `cls` from a JSON object."""
    import pydantic  # Imported here, because the distances do not need it.

    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{what} is not valid JSON: {error}") from None
    _reject_unknown_keys(cls, data, what)
    try:
        record: C = _adapter(typing.cast("Any", cls)).validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "(top level)"
        if first["type"] == "missing":
            raise ConfigError(f"{what}: option {where!r} is missing") from None
        raise ConfigError(f"{what}: option {where!r} is {first['input']!r}: {first['msg']}") from None
    return record


@functools.cache
def _adapter(cls: Any) -> pydantic.TypeAdapter[Any]:
    """Return the validator of a dataclass. It is cached, because building it takes longer than using it."""
    import pydantic

    return pydantic.TypeAdapter(cls)


def to_tree(config: Any) -> dict[str, Any]:
    """Convert a frozen dataclass to nested dicts of plain data."""
    tree: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return tree


def to_json(config: Any) -> str:
    """Convert a frozen dataclass to JSON text. Keys are sorted, so equal configs give equal text."""
    return json.dumps(dataclasses.asdict(config), indent=2, sort_keys=True)


def apply_settings(cls: type[Any], tree: dict[str, Any], settings: Sequence[str]) -> None:
    """Change the tree of a `cls` in place with settings such as "method.objective.pairing=all".

    Keys are dotted. Values are JSON or plain words. `options` may be omitted from a key: `learner.batch` is
    `learner.options.batch`. A new name of a part also sets the default options of that name. Names are set first,
    regardless of the order of the settings.
    """
    if isinstance(settings, str):
        raise ConfigError(f"settings must be a list such as [{settings!r}], got the text alone")
    pairs = [setting.partition("=") for setting in settings]
    for key, equals, _ in pairs:
        if not equals:
            raise ConfigError(f"--set takes KEY=VALUE, got {key!r}")
    for key, _, text in sorted(pairs, key=lambda pair: (not pair[0].endswith(".name"), pair[0].count("."))):
        _apply(cls, tree, key, _value(text))


def _apply(cls: Any, tree: dict[str, Any], key: str, value: Any) -> None:
    branch, kind = tree, cls
    *parents, leaf = key.split(".")
    for depth, name in enumerate(parents):
        here = ".".join(parents[: depth + 1])
        branch, kind = _options_of(branch, kind, name)
        if name not in branch:
            raise _unknown_option(tree, key, here, [".".join([*parents[:depth], known]) for known in branch])
        if not isinstance(branch[name], dict):
            raise ConfigError(f"--set {key}: {here} is {branch[name]!r} and has no fields")
        branch, kind = branch[name], _field_type(kind, name)
    branch, kind = _options_of(branch, kind, leaf)
    if leaf not in branch:
        raise _unknown_option(tree, key, key, [".".join([*parents, known]) for known in branch])
    if _is_part(kind) and leaf == "name" and value != branch["name"]:
        branch["options"] = to_tree(kind(value))["options"]
    branch[leaf] = value


def _unknown_option(tree: dict[str, Any], key: str, here: str, choices: list[str]) -> UnknownNameError:
    """Return the error for `here`, the unknown prefix of `key`. If a part has this field, suggest `part.key`."""
    for part, fields in tree.items():
        if isinstance(fields, dict) and here in {*fields, *(fields.get("options") or ())}:
            return UnknownNameError("option", key, choices, meant=f"{part}.{key}")
    return UnknownNameError("option", here, choices)


def _options_of(branch: dict[str, Any], kind: Any, name: str) -> tuple[dict[str, Any], Any]:
    """Return the branch and dataclass with the field `name`: a part's options, unless the part itself has the field."""
    if _is_part(kind) and name not in ("name", "options"):
        return branch["options"], kind.registry.get(branch["name"]).Config
    return branch, kind


def _is_part(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Part)


def _field_type(kind: Any, name: str) -> Any:
    """Return the dataclass that a field holds, or None if it holds something else."""
    if not dataclasses.is_dataclass(kind):
        return None
    hint = _type_hints(kind)[name]
    found = [part for part in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(part)]
    return found[0] if found else None


def override(config: C, settings: Sequence[str], what: str = "the config") -> C:
    """Return `config` with the fields changed by settings of the form "dotted.key=value"."""
    if not settings:
        return config
    tree = to_tree(config)
    apply_settings(type(config), tree, settings)
    return build(type(config), tree, what)


def _value(text: str) -> Any:
    """Parse JSON. Other text is returned unchanged. 1e5 is an integer, so that counts can be written this way."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    written_short = isinstance(value, float) and "e" in text.lower() and value.is_integer()
    return int(value) if written_short else value


def differences(one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the key and both values of each field in which two dataclasses differ. Nested keys are dotted."""
    return tree_differences(to_tree(one), to_tree(other))


def tree_differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted key and both values of each leaf in which two trees differ."""
    left, right = _flat(one), _flat(other)
    for key in sorted(left.keys() | right.keys()):
        if left.get(key) != right.get(key):
            yield key, left.get(key), right.get(key)


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def check_positive(what: str, **values: float | None) -> None:
    """Raise ConfigError unless every value is a finite number above zero or None."""
    for name, value in values.items():
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"{what}: {name} must be a finite number above 0, got {value!r}")


def check_fraction(what: str, name: str, value: float) -> None:
    """Raise ConfigError unless `value` is in (0, 1]."""
    if not 0 < value <= 1:
        raise ConfigError(f"{what}: {name} must lie in (0, 1], got {value!r}")


def check_whole(what: str, name: str, value: Any, minimum: int) -> None:
    """Raise ConfigError unless `value` is an integer of at least `minimum`."""
    # A bool is an int in Python, but it is never a valid value here.
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ConfigError(f"{what}: {name} must be a whole number of at least {minimum}, got {value!r}")


def check_choice(what: str, name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise ConfigError unless `value` is one of `choices`."""
    if value not in choices:
        raise UnknownNameError(f"{name} of {what}", value, choices)


def _reject_unknown_keys(cls: Any, data: Any, what: str) -> None:
    """Walk types and data together and reject unknown keys. Pydantic ignores unknown keys of plain dataclasses."""
    if isinstance(data, list):
        for item in data:
            for part in typing.get_args(cls):
                _reject_unknown_keys(part, item, what)
        return
    if not isinstance(data, dict):
        return
    if not dataclasses.is_dataclass(cls):
        # `Inner | None`, or a mapping with Inner values. The keys of the mapping itself are not checked.
        mapping = typing.get_origin(cls) in (dict, Mapping)
        for part in typing.get_args(cls):
            for item in data.values() if mapping else (data,):
                _reject_unknown_keys(part, item, what)
        return
    hints = _type_hints(cls)
    names = {field.name for field in dataclasses.fields(cls)}
    for key, value in data.items():
        if key not in names:
            raise UnknownNameError(f"option of {what}", key, names)
        _reject_unknown_keys(hints[key], value, f"{what}: {key}")


def _type_hints(cls: Any) -> dict[str, Any]:
    """Return the types of the fields. They are cached, because evaluating them dominates the time to build a config."""
    if cls not in _KNOWN_HINTS:
        _KNOWN_HINTS[cls] = typing.get_type_hints(cls)
    return _KNOWN_HINTS[cls]


_KNOWN_HINTS: dict[Any, dict[str, Any]] = {}
