"""Frozen records with checked fields, and their form as JSON.

A record is a frozen dataclass whose types are the rules: `batch: Count = 128` refuses 0, 1.5, True and "128". Rules
that a type cannot express stand in `__post_init__`. Every error is a ConfigError that names the option, the value and
what was expected. Pydantic does the checking. It is imported when the first record is built, not when one is defined.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import json
import textwrap
import types
import typing
from abc import ABC
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, cast, dataclass_transform, overload

from annotated_types import Ge, Gt, Le, Lt

from pamd.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    import pydantic

_C = TypeVar("_C")
_ClassT = TypeVar("_ClassT", bound=type[Any])

Positive = Annotated[float, Gt(0)]
"""A finite number above 0. (No number of a record may be infinite or NaN.)"""
NonNegative = Annotated[float, Ge(0)]
"""A finite number of at least 0."""
Fraction = Annotated[float, Gt(0), Le(1)]
"""A number in (0, 1]."""
Discount = Annotated[float, Ge(0), Lt(1)]
"""A number in [0, 1)."""
Level = Annotated[float, Gt(0), Lt(1)]
"""A number in (0, 1), such as the level of an expectile."""
Count = Annotated[int, Ge(1)]
"""A whole number of at least 1."""
Index = Annotated[int, Ge(0)]
"""A whole number of at least 0."""

LARGEST_RETURN = 1e30
"""The largest valid return of an episode. Sums and squares of smaller values are finite."""

_STRICT = {"strict": True, "extra": "forbid", "allow_inf_nan": False}
"""Pydantic's settings: no conversion of types, no unknown fields, no infinity and no NaN."""


@dataclasses.dataclass(frozen=True)
class Default:
    """For `Annotated`: what stands in for an option that is None. The command line shows it."""

    text: str


# -- Field documentation ---------------------------------------------------------------------------------------------


def explained(cls: _ClassT) -> _ClassT:
    """Decorate a dataclass so that `help` also shows the string below each field.

    Python discards these strings. They are read from the source when the docstring is requested, not at import.
    """
    if not isinstance(vars(cls).get("__doc__"), _Doc):
        cls.__doc__ = cast(str, _Doc(vars(cls).get("__doc__")))
    return cls


def field_docs(cls: type[Any]) -> dict[str, str]:
    """Return the string below each field of a dataclass, including inherited fields; "" if there is none."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            texts |= _strings_below(base)
    return {field.name: texts.get(field.name, "") for field in dataclasses.fields(cls)}


def _strings_below(cls: type[Any]) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # The class has no source: typed into a shell, or built by a function.
        return {}
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.ClassDef)
    texts = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = getattr(below.value, "value", None)
            if isinstance(text, str):
                texts[field.target.id] = " ".join(text.split())
    return texts


class _Doc:
    """The docstring of a dataclass, followed by its fields. It is computed at each access."""

    def __init__(self, docstring: str | None) -> None:
        self._docstring = docstring

    def __get__(self, instance: object, owner: type[Any]) -> str:
        lines = [f"    {name}: {text}" for name, text in field_docs(owner).items() if text]
        docstring = inspect.cleandoc(self._docstring or "")
        return "\n".join([docstring, "", "Fields:", *lines]) if lines else docstring


# -- Names of earlier versions ---------------------------------------------------------------------------------------

RENAMED: dict[str, dict[str, str]] = {
    "Method": {
        "distance": "metric.distance",
        "operator": "metric.operator",
        "objective": "metric",
        "target_distance": "metric.target_distance",
        "target_encoder": "metric.target_encoder",
        "metric_in": "metric.in_step",
        "ensemble": "transition.members",
        "transition_std": "transition.std",
        "transition_weight": "transition.weight",
        "next_latent_encoder": "transition.next_encoder",
        "project_predictions": "transition.project",
        "model_init": "transition.init",
        "weight_decay": "transition.weight_decay",
        "reward_weight": "reward.weight",
        "encoder_tau": "targets.tau",
        "follow_every": "targets.every",
        "follow_offset": "targets.offset",
        "target_period": "targets.period",
        "target_offset": "targets.period_offset",
    },
    "SacConfig": {"follow_every": "targets_every"},
    "ConvConfig": {"reads": "input"},
    "CosineConfig": {"normalised": "normalized"},
    "QuadraticConfig": {"trace_normalised": "trace_normalized"},
    "BisimulationConfig": {"reading": "per_coordinate"},
    "KernelConfig": {"reading": "squared"},
}
"""Option names of earlier versions: record -> {old key: new key}. Both keys start at the record and may be dotted.

{"Method": {"objective": "metric"}} turns `method.objective.pairing` into `method.metric.pairing`.
"""


def new_names(cls: Any) -> dict[str, str]:
    """Return the old and new keys of a record, including those of the records that it extends."""
    return {old: new for base in getattr(cls, "__mro__", ()) for old, new in RENAMED.get(base.__name__, {}).items()}


# -- Definition ------------------------------------------------------------------------------------------------------


@overload
def record(cls: type[_C]) -> type[_C]: ...
@overload
def record(*, what: str) -> Callable[[type[_C]], type[_C]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(cls: type[Any] | None = None, *, what: str | None = None) -> Any:
    """Make a frozen dataclass whose constructor checks the types and bounds of its fields.

    `what` names the record in error messages. Without it, the name under which a class is registered is used
    ("distance 'pamd'"), or the name of the class. `help` shows the string below each field.
    """
    if cls is None:
        return functools.partial(_define, what=what)
    return _define(cls, what)


def _define(cls: type[Any], what: str | None) -> type[Any]:
    made: Any = dataclasses.dataclass(frozen=True)(cls)
    made.__pydantic_config__ = _STRICT
    if what is not None:
        made.__what__ = what

    @functools.wraps(made.__init__)
    def check_and_set(self: Any, *args: Any, **options: Any) -> None:
        import pydantic
        from pydantic_core import ArgsKwargs

        try:
            _adapter(made).validator.validate_python(ArgsKwargs(args, options), self_instance=self)
        except pydantic.ValidationError as error:
            raise _explain(error, made, getattr(made, "__what__", made.__qualname__)) from None

    made.__init__ = check_and_set
    return cast(type[Any], explained(made))


@record
class Part(ABC):
    """A registered component, given by its name and its typed options. A subclass is final and sets `registry`.

    `options` may be a mapping. It is converted to the component's `Config`, which includes every default. In a record,
    a bare name stands for a part with its default options.
    """

    name: str
    options: Any = dataclasses.field(default_factory=dict)

    registry: ClassVar[Any]
    """The registry that contains the name."""

    def __post_init__(self) -> None:
        config, options = self.cls.Config, self.options
        # A plug-in's plain dataclass has checked nothing yet, so an instance is checked like a mapping.
        options = dataclasses.asdict(options) if isinstance(options, config) else options
        object.__setattr__(self, "options", build(config, options, f"{self.registry.kind} {self.name!r}"))

    @property
    def cls(self) -> Any:
        """The class that is registered under this name."""
        return self.registry.get(self.name)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        def named(value: Any) -> Any:
            return cls(value) if isinstance(value, str) else value

        return core_schema.no_info_before_validator_function(named, handler(source))


# -- JSON ------------------------------------------------------------------------------------------------------------


def build(cls: type[_C], options: Mapping[str, Any], what: str) -> _C:
    """Build a `cls` from keyword `options`. `what` names the object in error messages ("distance 'pamd'")."""
    try:
        text = json.dumps(options)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"options of {what} must be plain data (numbers, strings, lists): {error}") from None
    return from_json(cls, text, what)


def from_json(cls: type[_C], text: str, what: str) -> _C:
    """Build a `cls` from a JSON object."""
    import pydantic

    try:
        json.loads(text)  # Its message says where the text is wrong. It also refuses what is nested too deeply.
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{what} is not valid JSON: {error}") from None
    try:
        made: _C = _adapter(cast("Any", cls)).validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        raise _explain(error, cls, what) from None
    return made


def to_tree(config: Any) -> dict[str, Any]:
    """Convert a frozen dataclass to nested dicts of plain data."""
    tree: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return tree


def to_json(config: Any) -> str:
    """Convert a frozen dataclass to JSON text. Keys are sorted, so equal configs give equal text."""
    return json.dumps(dataclasses.asdict(config), indent=2, sort_keys=True)


def differences(one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the key and both values of each field in which two dataclasses differ. Nested keys are dotted."""
    return tree_differences(to_tree(one), to_tree(other))


def tree_differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted key and both values of each leaf in which two trees differ."""
    left, right = flatten(one), flatten(other)
    for key in sorted(left.keys() | right.keys()):
        if left.get(key) != right.get(key):
            yield key, left.get(key), right.get(key)


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a tree: {"a": {"b": 1}} becomes {"a.b": 1}."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and all(map(_is_named_part, value)):
            for item in value:  # parts in a list are addressed by their names, as in settings
                flat |= flatten(item["options"], f"{prefix}{item['name']}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _is_named_part(item: Any) -> bool:
    """Return whether an item of a tree is a part: its name and its options. A damaged file may hold anything."""
    return isinstance(item, dict) and item.keys() == {"name", "options"} and isinstance(item["options"], dict)


# -- Validation ------------------------------------------------------------------------------------------------------


@functools.cache
def _adapter(cls: Any) -> pydantic.TypeAdapter[Any]:
    """Return the validator of a type. It is cached, because building it takes longer than using it."""
    import pydantic

    if dataclasses.is_dataclass(cls):
        _make_strict(cast("Any", cls))
        return pydantic.TypeAdapter(cls)
    return pydantic.TypeAdapter(cls, config=cast("Any", _STRICT))


def check_values(what: str, hint: Any, **values: Any) -> None:
    """Raise ConfigError unless every value has the type, e.g. `check_values("replay", Count, n_step=n_step)`."""
    import pydantic

    for name, value in values.items():
        try:
            _adapter(hint).validate_python(value)
        except pydantic.ValidationError as error:
            raise _explain(error, hint, what, name) from None


def _make_strict(cls: type[Any]) -> None:
    """Make a plug-in's plain dataclass, and those inside it, refuse unknown fields. Pydantic ignores them otherwise."""
    for hint in field_types(cls).values():
        for inner in records_in(hint):
            if not hasattr(inner, "__pydantic_config__"):
                _make_strict(inner)
    if not hasattr(cls, "__pydantic_config__"):
        cls.__pydantic_config__ = _STRICT


def field_types(cls: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields. They are cached, because evaluating them takes most of the time."""
    if cls not in _FIELD_TYPES:
        hints = typing.get_type_hints(cls, include_extras=True)
        _FIELD_TYPES[cls] = {field.name: hints[field.name] for field in dataclasses.fields(cls)}
    return _FIELD_TYPES[cls]


_FIELD_TYPES: dict[Any, dict[str, Any]] = {}


def records_in(hint: Any) -> list[Any]:
    """Return the dataclasses in a type: `Inner` in `Inner`, `Inner | None`, `tuple[Inner, ...]`, `dict[str, Inner]`."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return [hint]
    return [inner for part in typing.get_args(hint) for inner in records_in(part)]


def _explain(error: pydantic.ValidationError, cls: Any, what: str, name: str = "") -> ConfigError:
    """Return our error for the first mistake that pydantic found in a `cls`. `name` is the name of the whole value."""
    mistakes = error.errors(include_url=False, include_context=False)
    # A misspelled option is also a missing one. The name that was written says more.
    first = next((one for one in mistakes if one["type"].startswith("unexpected_")), mistakes[0])
    steps, value = first["loc"], first["input"]
    if dataclasses.is_dataclass(cls) and steps and isinstance(steps[0], int):  # A positional argument.
        steps = (*(field.name for field in dataclasses.fields(cls)[steps[0] :][:1]), *steps[1:])
    if first["type"] in ("unexpected_keyword_argument", "unexpected_positional_argument"):
        owner, where = _follow(cls, steps[:-1])
        choices = [field.name for inner in records_in(owner)[:1] for field in dataclasses.fields(inner)]
        if first["type"] == "unexpected_positional_argument":
            return ConfigError(f"{what} takes {len(choices)} options ({', '.join(choices)}), got {value!r} after them")
        new_name = next((new_names(inner).get(str(steps[-1])) for inner in records_in(owner)[:1]), None)
        return UnknownNameError(f"option of {what}{where and ': ' + where}", steps[-1], choices, meant=new_name)
    if first["type"] == "missing" and isinstance(steps[-1], int):  # The list is too short; its value is the input.
        steps = steps[:-1]
    hint, inside = _follow(cls, steps)
    where = ".".join(filter(None, (name, inside)))
    if first["type"] == "missing" and where.endswith(str(first["loc"][-1])):
        return ConfigError(f"{what}: option {where!r} is missing")
    if not where:
        return ConfigError(f"{what} must be a JSON object of options, got {value!r}")
    choices = _choices(hint)
    if isinstance(value, str) and choices:
        return UnknownNameError(f"{where} of {what}", value, choices)
    expected = _expected(hint)
    if first["type"] == "tuple_type" and isinstance(value, list):  # JSON has lists only, but Python has both.
        expected = expected.replace("a list", "a tuple", 1)
    got = f"a {type(value).__name__}" if dataclasses.is_dataclass(value) else repr(value)  # The type is shorter.
    return ConfigError(f"{what}: {where} must be {expected or first['msg']}, got {got}")


def _follow(hint: Any, steps: tuple[int | str, ...]) -> tuple[Any, str]:
    """Return the type at the end of a path through fields and items, and the path as dotted text."""
    names: list[str] = []
    for step in steps:
        inside = _inside(hint, step)
        if inside is not None:  # Otherwise the step is pydantic's label of one type in a union.
            hint, names = inside, [*names, str(step)]
    return hint, ".".join(names)


def _inside(hint: Any, step: int | str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _inside(args[0], step)
    if origin in (typing.Union, types.UnionType):
        return next((inside for arg in args if (inside := _inside(arg, step)) is not None), None)
    if origin in (tuple, list) and isinstance(step, int):
        return args[0] if origin is list or args[-1] is ... else args[step]
    if origin in (dict, Mapping) and isinstance(step, str):
        return args[1]
    return field_types(hint).get(str(step)) if dataclasses.is_dataclass(hint) else None


def _choices(hint: Any) -> list[str]:
    """Return the words that a type allows."""
    if typing.get_origin(hint) is Literal:
        return [choice for choice in typing.get_args(hint) if isinstance(choice, str)]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [choice for arg in typing.get_args(hint) for choice in _choices(arg)]
    return []


_KINDS = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false", type(None): "None"}
_BOUNDS = {Gt: "above {.gt}", Ge: "of at least {.ge}", Lt: "below {.lt}", Le: "at most {.le}"}


def _expected(hint: Any) -> str:
    """Describe the values of a type: "a finite number above 0 or 'd'". Empty if there are no words for it."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        bounds = [_BOUNDS[type(bound)].format(bound) for bound in args[1:] if type(bound) in _BOUNDS]
        return f"{_expected(args[0])} {' and '.join(bounds)}".strip()
    if origin in (typing.Union, types.UnionType):
        return " or ".join(filter(None, map(_expected, args)))
    if origin is Literal:
        return " or ".join(map(repr, args))
    if origin in (tuple, list):
        size = "" if origin is list or args[-1] is ... else f"{len(args)} "
        return f"a list of {size}items, each {_expected(args[0])}" if args and _expected(args[0]) else "a list"
    if dataclasses.is_dataclass(hint):
        name = cast("type[Any]", hint).__name__
        return f"a name or of type {name}" if issubclass(cast("type[Any]", hint), Part) else f"of type {name}"
    return _KINDS.get(hint, "")
