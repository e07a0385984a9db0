"""How configs differ, in words: what a label must say so that two things do not share a name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["canonical", "differing", "labelled"]

_SHOWN = 3


def canonical(record: Any) -> str:
    """Equal records, equal text."""
    return json.dumps(record, sort_keys=True)


def differing(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The dotted keys on which records do not all agree."""
    flat = [_flat(record) for record in records]
    keys = dict.fromkeys(key for one in flat for key in one)
    return [key for key in keys if len({one.get(key) for one in flat}) > 1]


def labelled(names: Sequence[str], records: Sequence[Mapping[str, Any]]) -> list[str]:
    """A label for each record: its name, and where others of that name differ from it, in what."""
    alike: dict[str, list[Mapping[str, Any]]] = {}
    for name, record in zip(names, records, strict=True):
        alike.setdefault(name, []).append(record)
    keys = {name: differing(group) for name, group in alike.items()}
    variants = {name: sorted({canonical(record) for record in group}) for name, group in alike.items()}
    labels = []
    for name, record in zip(names, records, strict=True):
        flat = _flat(record)
        words = [f"{key}={flat.get(key, '-')}" for key in keys[name]]
        # Where more differs than can be said, the first few still tell most apart; the number makes sure.
        if len(words) > _SHOWN:
            number = variants[name].index(canonical(record)) + 1
            words = [*words[:_SHOWN], f"and {len(words) - _SHOWN} more: variant {number}"]
        labels.append(f"{name} ({', '.join(words)})" if words else name)
    return labels


def _flat(record: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """{"a": {"b": 1}} as {"a.b": "1"}."""
    flat: dict[str, str] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value if isinstance(value, str) else json.dumps(value)
    return flat
