"""Generators of invalid inputs: trees with one wrong value, files with damaged bytes, and odd settings."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

ODD_TEXT = ("", " ", "nan", "null", "../up", "a" * 5000, "\0", "\ud800", "<script>", "é", "-1", "1e999", "²")
ODD_NUMBERS = (-1, 0, 1, 2**31, 2**53 + 1, 2**63, -(2**63), 10**40, 0.5, -0.0, 1e-320, 1e308)
NOT_FINITE = (float("nan"), float("inf"), float("-inf"))


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from((*ODD_NUMBERS, *NOT_FINITE)),
    st.sampled_from(ODD_TEXT),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
)
JSON = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(st.text(max_size=6), SCALARS, max_size=3),
    st.sampled_from((20, 40, 300)).map(_deep),
)
"""Any value that a JSON file can hold."""


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a tree, the root excepted."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


@st.composite
def changed_trees(draw: st.DrawFn, tree: Any) -> Any:
    """`tree` with one or two values replaced, removed, renamed or added."""
    made = copy.deepcopy(tree)
    for _ in range(draw(st.integers(1, 2))):
        found = list(places(made))
        if not found:
            return made
        *parents, leaf = draw(st.sampled_from(found))
        branch = made
        for parent in parents:
            branch = branch[parent]
        kind = draw(st.sampled_from(("replace", "replace", "replace", "remove", "rename", "add")))
        if kind == "replace" or (kind != "remove" and isinstance(branch, list)):
            branch[leaf] = draw(JSON)
        else:
            value = branch[leaf] if kind == "add" else branch.pop(leaf)
            if kind != "remove":
                branch[f"{leaf}{draw(st.text(min_size=1, max_size=3))}"] = value
    return made


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """`data` cut, with bytes flipped, removed, repeated or inserted, or replaced as a whole."""
    kind = draw(st.sampled_from(("cut", "flip", "flip", "remove", "repeat", "insert", "replace")))
    if kind == "replace":
        return draw(st.sampled_from((b"", b"\0" * 64, b"[" * 100_000, b"9" * 6000, b"\xff\xfe{", b"null"))) or draw(
            st.binary(max_size=64)
        )
    at = draw(st.integers(0, max(len(data) - 1, 0)))
    if kind == "cut":
        return data[:at]
    if kind == "flip":
        return data[:at] + bytes([data[at] ^ draw(st.integers(1, 255))]) + data[at + 1 :]
    end = min(len(data), at + draw(st.integers(1, 64)))
    if kind == "remove":
        return data[:at] + data[end:]
    middle = data[at:end] * 2 if kind == "repeat" else draw(st.binary(min_size=1, max_size=16))
    return data[:at] + middle + data[end if kind == "repeat" else at :]


def as_json(tree: Any) -> bytes:
    """The bytes of a tree in a file; JSON of Python, so NaN and lone surrogates can be in it."""
    return json.dumps(tree).encode()
