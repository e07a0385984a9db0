"""`help` explains every field of the plug-in's records, and every option."""

from __future__ import annotations

import dataclasses
import pydoc
from dataclasses import dataclass
from typing import Any

import pytest

import pamd
from pamd.fields import explained, field_docs
from pamd.types import Batch, Extras, NStep, Pairs, Window

REGISTRIES = (pamd.DISTANCES, pamd.OPERATORS, pamd.ENCODERS, pamd.LEARNERS, pamd.augmentations.AUGMENTATIONS)
OPTIONS = [registry.get(name).Config for registry in REGISTRIES for name in registry.names()]
RECORDS = [pamd.Latents, pamd.Objective, pamd.Method, Batch, Extras, NStep, Pairs, Window, *OPTIONS]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__qualname__)
def test_help_explains_every_field(record: type[Any]) -> None:
    shown = pydoc.render_doc(record, renderer=pydoc.plaintext)
    for name, text in field_docs(record).items():
        assert text, f"{record.__name__}.{name} is not explained"
        assert f"{name}: {text}" in shown
    assert {field.name for field in dataclasses.fields(record)} == set(field_docs(record))


@explained
@dataclass(frozen=True)
class Base:
    """A record."""

    kept: int = 1
    """From the
    base."""
    changed: int = 2
    """Of the base."""


@explained
@dataclass(frozen=True)
class Derived(Base):
    changed: int = 3
    """Of the derived."""
    silent: int = 4


def test_inherited_fields_are_explained_and_the_nearest_wins() -> None:
    assert field_docs(Derived) == {"kept": "From the base.", "changed": "Of the derived.", "silent": ""}
    assert Base.__doc__ == "A record.\n\nFields:\n    kept: From the base.\n    changed: Of the base."
    assert (explained(Base).__doc__ or "").count("Fields:") == 1


def test_a_record_without_source_keeps_its_own_docstring() -> None:
    made = dataclasses.make_dataclass("Made", [("x", int)], namespace={"__doc__": "Made by a function."})
    assert explained(made).__doc__ == "Made by a function."
