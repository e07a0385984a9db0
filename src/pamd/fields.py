"""The one-line descriptions of dataclass fields, for `help` and for the reference."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from typing import Any, TypeVar, cast

__all__ = ["explained", "field_docs"]

C = TypeVar("C", bound=type[Any])


def explained(record: C) -> C:
    """Decorate a dataclass so that `help(record)` also shows the string below each field.

    Python discards these strings. They are read from the source when the docstring is requested, not at import.
    """
    if not isinstance(vars(record).get("__doc__"), _Doc):
        record.__doc__ = cast(str, _Doc(vars(record).get("__doc__")))
    return record


def field_docs(record: type[Any]) -> dict[str, str]:
    """Return the string below each field of a dataclass, including inherited fields; "" if there is none."""
    found: dict[str, str] = {}
    for cls in reversed(record.__mro__):
        if dataclasses.is_dataclass(cls):
            found |= _strings_below(cls)
    return {field.name: found.get(field.name, "") for field in dataclasses.fields(record)}


def _strings_below(cls: type[Any]) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # The class has no source: typed into a shell, or built by a function.
        return {}
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = getattr(below.value, "value", None)
            if isinstance(text, str):
                found[field.target.id] = " ".join(text.split())
    return found


class _Doc:
    """The docstring of a dataclass, followed by its fields. It is computed at each access."""

    def __init__(self, docstring: str | None) -> None:
        self._docstring = docstring

    def __get__(self, instance: object, owner: type[Any]) -> str:
        lines = [f"    {name}: {text}" for name, text in field_docs(owner).items() if text]
        docstring = inspect.cleandoc(self._docstring or "")
        return "\n".join([docstring, "", "Fields:", *lines]) if lines else docstring
