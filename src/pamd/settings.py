"""Changes of single options: `--set method.operator.gamma=0.9`, and option names of earlier versions."""

from __future__ import annotations

import dataclasses
import json
import typing
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from pamd.errors import ConfigError, UnknownNameError, nearest
from pamd.schema import Part, build, field_types, new_names, records_in, to_tree

_C = TypeVar("_C")


def override(config: _C, settings: Sequence[str], what: str = "the config") -> _C:
    """Return `config` with the fields changed by settings of the form "dotted.key=value"."""
    if not settings:
        return config
    tree = to_tree(config)
    apply_settings(type(config), tree, settings)
    return build(type(config), tree, what)


def apply_settings(cls: type[Any], tree: dict[str, Any], settings: Sequence[str]) -> None:
    """Change the tree of a `cls` in place with settings such as "method.operator.gamma=0.9".

    Keys are dotted. Values are JSON or plain words; `none` is null where no text is valid. `options` may be omitted
    from a key: `learner.batch` is `learner.options.batch`. A new name of a part also sets the default options of that
    name. Names are set first, regardless of the order of the settings.

    A part in a list of parts is addressed by its name: `method.metric.weight=0.5` changes the term "metric" of
    `method.terms`, `method.metric=null` removes it, `method.metric={}` adds it with its default options. If it is there
    already, such an object changes only the options that it has. A bare name stands for a part with its default
    options: `method.metric.operator=independent`. A field of a record that is null turns the record on:
    `learner.drm.perturb_every=1000`.
    """
    if isinstance(settings, str):
        raise ConfigError(f"settings must be a list such as [{settings!r}], got the text alone")
    pairs = [setting.partition("=") for setting in settings]
    for key, equals, _ in pairs:
        if not equals:
            raise ConfigError(f"--set takes KEY=VALUE, got {key!r}")
    for key, _, text in sorted(pairs, key=lambda pair: (not pair[0].endswith(".name"), pair[0].count("."))):
        _apply(cls, tree, key, _value(text))


def rename_old_keys(cls: type[Any], tree: dict[str, Any]) -> None:
    """Replace the option names of earlier versions in the tree of a `cls`, such as an old config.json, in place."""
    for key, value in list(_pop_old_keys(cls, tree, "")):
        _apply(cls, tree, key, value)


def _value(text: str) -> Any:
    """Parse JSON. Other text is returned unchanged. 1e5 is an integer, so that counts can be written this way."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    written_short = isinstance(value, float) and "e" in text.lower() and value.is_integer()
    return int(value) if written_short else value


def _apply(cls: Any, tree: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of `key`. A `cls` describes the tree, so that the key can be followed through parts."""
    branch, kind, done, rest = tree, cls, "", key
    while True:
        branch, kind = _options_of(branch, kind, rest)
        rest = _new_name(kind, rest, done)
        name, _, rest = rest.partition(".")
        here = done + name
        target = _find(branch, kind, name)
        if target is None:
            registries = [part.registry for _, part in _part_lists(kind)]
            choices = [done + known for known in (*branch, *(n for registry in registries for n in registry.names()))]
            advice = " ".join(registry.advice(name) for registry in registries)  # It may be the name of a plug-in.
            raise _unknown_option(tree, key, here, choices, advice)
        if not rest:
            break
        inside = target.value
        if inside is None and target.part is not None:
            raise ConfigError(f"--set {key}: there is no {here}; --set {here}={{}} adds it with its default options")
        if inside is None and _has_defaults(target.kind):  # null becomes the record with its defaults
            inside = branch[name] = {}
        if not isinstance(inside, dict):
            raise ConfigError(f"--set {key}: {here} is {inside!r} and has no fields")
        branch, kind, done = inside, target.kind, here + "."
    if target.part is not None:
        _set_part(target, name, value, key)
        return
    if _is_part(kind) and name == "name" and value != branch.get("name"):
        branch["options"] = to_tree(kind(value))["options"]
    if _means_null(kind, name, value):
        value = None
    elif _is_part(target.kind) and isinstance(value, str):  # a bare name; the same name keeps its options
        known = _is_part_tree(target.value) and target.value["name"] == value
        value = target.value if known else to_tree(target.kind(value))
    branch[name] = value


def _has_defaults(kind: Any) -> bool:
    """Return whether `kind` is a record that can be built without any value."""
    missing = dataclasses.MISSING
    return dataclasses.is_dataclass(kind) and not any(
        field.default is missing and field.default_factory is missing for field in dataclasses.fields(kind)
    )


def _means_null(kind: Any, name: str, value: Any) -> bool:
    """Return whether `value` is the word none for a field that may be null. Where text is valid, it is the text."""
    if not isinstance(value, str) or value.lower() != "none" or not dataclasses.is_dataclass(kind):
        return False
    allowed = typing.get_args(field_types(kind).get(name))
    # A field of text, or of words such as Literal["none", "shift"], has the word itself.
    takes_text = any(hint is str or typing.get_origin(hint) is typing.Literal for hint in allowed)
    return type(None) in allowed and not takes_text


class _Target(NamedTuple):
    """What a name stands for: a field of a record, or a part in a list of parts."""

    value: Any
    """The value in the tree. None: there is no such part in the list."""
    kind: Any
    """The dataclass of the value, `dict` for a mapping with any names, or None."""
    part: list[Any] | None = None
    """The list that holds the part, or None for a field."""


def _find(branch: dict[str, Any], kind: Any, name: str) -> _Target | None:
    types = field_types(kind) if dataclasses.is_dataclass(kind) else {}
    if kind is dict:  # Options of somebody else's, such as `env.options`: every name is valid.
        return _Target(branch.get(name), dict)
    if name in branch or name in types:  # An old file has no value for a new name.
        inner = dict if typing.get_origin(types.get(name)) is dict else next(iter(records_in(types.get(name))), None)
        return _Target(branch.get(name), inner)
    for field, part in _part_lists(kind):
        parts = branch.setdefault(field, [])
        if not isinstance(parts, list) or not all(map(_is_part_tree, parts)):
            raise ConfigError(f"{field} must be a list of parts, each with a name and options, got {parts!r}")
        value = next((item for item in parts if item["name"] == name), None)
        if value is not None or name in part.registry.names():
            return _Target(value, part, parts)
    return None


def _set_part(target: _Target, name: str, value: Any, key: str) -> None:
    """Add a part to its list, change its options, or remove it."""
    assert target.part is not None
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"--set {key} takes null or the part's options, such as {{}}, got {value!r}")
    names = [item["name"] for item in target.part]
    if value is None and name not in names:
        raise ConfigError(
            f"--set {key}=null: there is no {name!r} to remove; there are: {', '.join(names) or '(none)'}"
        )
    index = names.index(name) if name in names else len(names)
    before = {} if target.value is None else target.value["options"]
    target.part[index : index + 1] = [] if value is None else [to_tree(target.kind(name, {**before, **value}))]


def _options_of(branch: dict[str, Any], kind: Any, key: str) -> tuple[dict[str, Any], Any]:
    """Return the branch and dataclass with the field `key`: a part's options, unless the part itself has the field."""
    if _is_part(kind) and key.partition(".")[0] not in ("name", "options"):
        if not _is_part_tree(branch):
            raise ConfigError(f"a {kind.registry.kind} must have a name and options, got {branch!r}")
        return branch["options"], kind.registry.get(branch["name"]).Config
    return branch, kind


def _is_part(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Part)


def _is_part_tree(tree: Any) -> bool:
    """Return whether a tree can be that of a part. A file may contain anything."""
    return isinstance(tree, dict) and isinstance(tree.get("name"), str) and isinstance(tree.get("options"), dict)


def _part_lists(kind: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name of each field that is a list of parts, such as `tuple[TermPart, ...]`, and the class of a part."""
    for name, hint in field_types(kind).items() if dataclasses.is_dataclass(kind) else ():
        if typing.get_origin(hint) is tuple and _is_part(typing.get_args(hint)[0]):
            yield name, typing.get_args(hint)[0]


def _unknown_option(tree: dict[str, Any], key: str, here: str, choices: list[str], advice: str) -> UnknownNameError:
    """Return the error for `here`, the unknown prefix of `key`. If a part has this field, suggest `part.key`."""
    for part, fields in tree.items():
        if not isinstance(fields, dict):
            continue
        lists = (value for value in fields.values() if isinstance(value, list))
        in_lists = (item["name"] for items in lists for item in items if _is_part_tree(item))
        if here in {*fields, *(fields.get("options") or ()), *in_lists}:
            return UnknownNameError("option", key, choices, meant=f"{part}.{key}")
    if "." not in key and nearest(key, choices) is None:
        inside = {name: part for part, fields in tree.items() if _is_part_tree(fields) for name in fields["options"]}
        if (name := nearest(key, inside)) is not None:
            return UnknownNameError("option", key, choices, meant=f"{inside[name]}.{name}")
    misspelled = nearest(here.rpartition(".")[2], [choice.rpartition(".")[2] for choice in choices])
    return UnknownNameError("option", here, choices, advice="" if misspelled else advice)


def _new_name(kind: Any, key: str, done: str) -> str:
    """Return a key below a `kind` with the present names. `done` is the part of the key before it."""
    for old, new in new_names(kind).items():
        if key == old or key.startswith(old + "."):
            message = f"the option {done + old!r} is now called {done + new!r}; the old name will be removed"
            warnings.warn(message, DeprecationWarning, stacklevel=4)
            return new + key.removeprefix(old)
    return key


def _pop_old_keys(kind: Any, tree: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Remove the old keys from the tree of a `kind`. Yield each key with its value."""
    if _is_part(kind):
        if _is_part_tree(tree):
            yield from _pop_old_keys(kind.registry.get(tree["name"]).Config, tree["options"], prefix)
        return
    for old in new_names(kind):
        *parents, leaf = old.split(".")
        branch: Any = tree
        for name in parents:
            branch = branch.get(name) if isinstance(branch, dict) else None
        if isinstance(branch, dict) and leaf in branch:
            yield prefix + old, branch.pop(leaf)
            if not branch and parents:
                tree.pop(parents[0])  # `a` of the old key `a.b`, which a new record does not know.
    for name, hint in field_types(kind).items():
        inner, value = next(iter(records_in(hint)), None), tree.get(name)
        if inner is not None and isinstance(value, dict):
            yield from _pop_old_keys(inner, value, f"{prefix}{name}.")
        elif _is_part(inner) and isinstance(value, list):
            for item in filter(_is_part_tree, value):
                yield from _pop_old_keys(inner, item, f"{prefix}{item['name']}.")
