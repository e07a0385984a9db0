"""Labels that show how configs differ, so that different configs have different labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pamd.schema import flatten

__all__ = ["canonical", "differing", "make_labels"]

_SHOWN = 3


def canonical(record: Any) -> str:
    """Return a string that is equal for equal records."""
    return json.dumps(record, sort_keys=True)


def differing(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the dotted keys whose values differ between records."""
    flat = [_flat(record) for record in records]
    keys = dict.fromkeys(key for one in flat for key in one)
    return [key for key in keys if len({one.get(key) for one in flat}) > 1]


def make_labels(names: Sequence[str], records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a label for each record: its name and its differences from other records with that name."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for name, record in zip(names, records, strict=True):
        by_name.setdefault(name, []).append(record)
    keys = {name: differing(group) for name, group in by_name.items()}
    variants = {name: sorted({canonical(record) for record in group}) for name, group in by_name.items()}
    labels = []
    for name, record in zip(names, records, strict=True):
        flat = _flat(record)
        words = [f"{key}={flat.get(key, '-')}" for key in keys[name]]
        # A label shows the first few differences. The number distinguishes the remaining variants.
        if len(words) > _SHOWN:
            number = variants[name].index(canonical(record)) + 1
            words = [*words[:_SHOWN], f"and {len(words) - _SHOWN} more: variant {number}"]
        labels.append(f"{name} ({', '.join(words)})" if words else name)
    return labels


def _flat(record: Mapping[str, Any]) -> dict[str, str]:
    """Flatten a record to text: {"a": {"b": 1}} becomes {"a.b": "1"}."""
    leaves = flatten(record)
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in leaves.items()}
