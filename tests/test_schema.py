"""Records are strict: what is unknown, of the wrong type, out of bounds or not plain data is an error that says so."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import pydoc
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch

import pamd
from pamd.errors import ConfigError, UnknownNameError
from pamd.registry import Registry
from pamd.schema import (
    Count,
    Discount,
    Fraction,
    Index,
    NonNegative,
    Part,
    Positive,
    build,
    check_values,
    explained,
    field_docs,
    from_json,
    record,
    to_json,
)
from pamd.terms import Objective
from pamd.types import Batch, NStep, OperatorInputs, Pairs, Window


@record
class Inner:
    width: Count = 8


@record(what="it")
class Outer:
    rate: float = 0.1
    kind: Literal["fast", "slow"] = "fast"
    sizes: tuple[int, ...] = ()
    on: bool = False
    inner: Inner = field(default_factory=Inner)
    spare: Inner | None = None


@dataclass(frozen=True)
class PlainInner:
    width: int = 8


@dataclass(frozen=True)
class Plain:
    """What a plug-in may write instead of a record."""

    rate: float = 0.1
    kind: Literal["fast", "slow"] = "fast"
    sizes: tuple[int, ...] = ()
    on: bool = False
    inner: PlainInner = field(default_factory=PlainInner)
    spare: PlainInner | None = None


@record(what="bounds")
class Bounds:
    positive: Positive = 1
    non_negative: NonNegative = 0
    fraction: Fraction = 1
    discount: Discount = 0
    count: Count = 1
    index: Index = 0
    choice: Positive | Literal["auto"] = "auto"
    sign: Literal[1, -1] = 1
    pair: tuple[NonNegative, NonNegative] = (1.0, 0.0)


FULL = Outer(rate=0.5, kind="slow", sizes=(3, 4), on=True, inner=Inner(2), spare=Inner(5))


@pytest.mark.parametrize("config", [Outer(), FULL, Plain(), Plain(sizes=(1, 2), spare=PlainInner(3))])
def test_round_trip(config: Any) -> None:
    assert from_json(type(config), to_json(config), "it") == config
    assert build(type(config), json.loads(to_json(config)), "it") == config


@pytest.mark.parametrize("name", pamd.OPERATORS.names())
def test_every_operators_config_round_trips(name: str) -> None:
    changed = pamd.operator(name, gamma=0.25, c_R="1-gamma", reward_gap="smooth-l1").config
    assert pamd.operator(name, **json.loads(to_json(changed))).config == changed


def test_equal_configs_give_equal_text() -> None:
    assert to_json(build(Outer, {"on": True, "rate": 1}, "it")) == to_json(
        build(Outer, {"rate": 1.0, "on": True}, "it")
    )
    assert list(json.loads(to_json(FULL))) == sorted(json.loads(to_json(FULL)))


@pytest.mark.parametrize("cls", [Outer, Plain])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rat": 0.5}, r"unknown option of it 'rat'\. Did you mean 'rate'"),
        ({"inner": {"widht": 3}}, r"unknown option of it: inner 'widht'\. Did you mean 'width'"),
        ({"spare": {"widht": 3}}, r"unknown option of it: spare 'widht'\. Did you mean 'width'"),
        ({"zzz": 1}, r"unknown option of it 'zzz'\. Valid: inner, kind, on, rate, sizes, spare"),
        ({"kind": "slwo"}, r"unknown kind of it 'slwo'\. Did you mean 'slow'\? Valid: fast, slow"),
    ],
)
def test_unknown_name_gets_the_nearest_valid_one(cls: type[Any], options: dict[str, Any], says: str) -> None:
    with pytest.raises(UnknownNameError, match=says):
        build(cls, options, "it")


@pytest.mark.parametrize("cls", [Outer, Plain])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rate": "0.5"}, "rate must be a finite number, got '0.5'"),
        ({"rate": True}, "rate must be a finite number, got True"),
        ({"rate": None}, "rate must be a finite number, got None"),
        ({"rate": float("nan")}, "rate must be a finite number, got nan"),
        ({"on": 1}, "on must be true or false, got 1"),
        ({"kind": 1}, "kind must be 'fast' or 'slow', got 1"),
        ({"sizes": 3}, "sizes must be a list of items, each a whole number, got 3"),
        ({"sizes": [1, 2.5]}, r"sizes\.1 must be a whole number, got 2\.5"),
        ({"inner": {"width": "wide"}}, r"inner\.width must be a whole number.*, got 'wide'"),
        ({"spare": {"width": "wide"}}, r"spare\.width must be a whole number.*, got 'wide'"),
        ({"inner": 3}, r"inner must be of type (Plain)?Inner, got 3"),
    ],
)
def test_wrong_type_says_where_and_what(cls: type[Any], options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=f"it: {says}"):
        build(cls, options, "it")


def test_missing_option() -> None:
    @record(what="it")
    class Needs:
        task: str

    with pytest.raises(ConfigError, match="it: option 'task' is missing"):
        build(Needs, {}, "it")
    with pytest.raises(ConfigError, match="it: option 'task' is missing"):
        Needs()  # type: ignore[call-arg]
    with pytest.raises(UnknownNameError, match=r"unknown option of it 'taks'\. Did you mean 'task'"):
        Needs(taks="walk")  # type: ignore[call-arg]


@pytest.mark.parametrize("value", [torch.tensor(0.5), np.float32(0.5), {1, 2}, 1j, object()])
def test_options_must_be_plain_data(value: object) -> None:
    with pytest.raises(ConfigError, match="options of it must be plain data"):
        build(Outer, {"rate": value}, "it")


def test_option_that_contains_itself_is_no_plain_data() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ConfigError, match="options of it must be plain data"):
        build(Outer, {"sizes": loop}, "it")


@pytest.mark.parametrize(("text", "says"), [("{", "it is not valid JSON"), ("[1]", r"it must be .* object.*\[1\]")])
def test_text_that_is_no_config(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        from_json(Outer, text, "it")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        *(({"positive": x}, f"positive must be a finite number above 0, got {x}") for x in (0, -1)),
        *(({"positive": float(x)}, f"positive must be a finite number above 0, got {x}") for x in ("nan", "inf")),
        ({"non_negative": -1e-9}, "non_negative must be a finite number of at least 0, got -1e-09"),
        ({"fraction": 0}, "fraction must be a finite number above 0 and at most 1, got 0"),
        ({"fraction": 1.5}, r"fraction must be a finite number above 0 and at most 1, got 1\.5"),
        ({"discount": 1}, "discount must be a finite number of at least 0 and below 1, got 1"),
        ({"count": 0}, "count must be a whole number of at least 1, got 0"),
        ({"count": True}, "count must be a whole number of at least 1, got True"),
        ({"count": 2.0}, r"count must be a whole number of at least 1, got 2\.0"),
        ({"index": -1}, "index must be a whole number of at least 0, got -1"),
        ({"choice": 0.0}, r"choice must be a finite number above 0 or 'auto', got 0\.0"),
        ({"choice": "aut"}, r"unknown choice of bounds 'aut'\. Did you mean 'auto'"),
        ({"sign": 0}, "sign must be 1 or -1, got 0"),
        ({"pair": (1.0, -1.0)}, r"pair\.1 must be a finite number of at least 0, got -1"),
        ({"pair": (1.0,)}, r"pair must be a list of 2 items, each a finite number of at least 0, got"),
    ],
)
def test_bounds_hold_for_the_constructor_and_for_json(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Bounds(**options)
    with pytest.raises(ConfigError, match=says):
        build(Bounds, options, "bounds")


def test_constructor_takes_no_unknown_or_superfluous_option() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown option of it 'rat'\. Did you mean 'rate'"):
        Outer(rat=1)  # type: ignore[call-arg]
    with pytest.raises(UnknownNameError, match=r"unknown option of it 'rat'"):
        dataclasses.replace(FULL, rat=1)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"Inner takes 1 options \(width\), got 2 after them"):
        Inner(1, 2)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="Inner: width must be a whole number of at least 1, got 0"):
        Inner(0)
    with pytest.raises(ConfigError, match=r"it: sizes must be a tuple of items, each a whole number, got \[1\]"):
        Outer(sizes=[1])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"it: inner must be of type Inner, got {'width': 1}"):
        Outer(inner={"width": 1})  # type: ignore[arg-type]


def test_a_record_is_a_frozen_dataclass_that_can_be_copied() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        FULL.rate = 1  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(FULL)) == copy.deepcopy(FULL) == dataclasses.replace(FULL) == FULL
    assert dataclasses.replace(FULL, rate=2.0) == Outer(2.0, "slow", (3, 4), True, Inner(2), Inner(5))
    assert dataclasses.asdict(FULL)["inner"] == {"width": 2}
    assert len({FULL, copy.copy(FULL), Outer()}) == 2


def test_rules_beyond_types_run_after_the_types_are_checked() -> None:
    @record(what="range")
    class Range:
        low: float = 0
        high: float = 1

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ConfigError(f"range: low must be at most high, got {self.low} and {self.high}")

    for make in (lambda **options: Range(**options), lambda **options: build(Range, options, "range")):
        with pytest.raises(ConfigError, match=r"low must be at most high, got 3\.0 and 1"):
            make(low=3)
        with pytest.raises(ConfigError, match="low must be a finite number, got 'three'"):
            make(low="three")


def test_a_derived_record_has_the_bounds_of_its_base() -> None:
    @record(what="wide")
    class Wide(Inner):
        depth: Count = 1

    assert Wide(2, 3) == Wide(depth=3, width=2)
    with pytest.raises(ConfigError, match="wide: width must be a whole number of at least 1, got 0"):
        Wide(width=0)


def test_arguments_of_a_function_are_checked_in_the_same_words() -> None:
    check_values("replay", Count, n_step=1, window=3)
    with pytest.raises(ConfigError, match="replay: window must be a whole number of at least 1, got 0"):
        check_values("replay", Count, n_step=1, window=0)
    with pytest.raises(ConfigError, match=r"encoder: shape\.1 must be a whole number of at least 1, got 2\.5"):
        check_values("encoder", tuple[Count, ...], shape=(1, 2.5))
    with pytest.raises(ConfigError, match="distance: rate must be a finite number, got inf"):
        check_values("distance", float, rate=float("inf"))


LIONS: Registry[Any] = Registry("lion", "pamd.operators", with_config=True)


@LIONS.register("simba")
class Simba:
    @record
    class Config:
        teeth: Count = 30


@LIONS.register("plug-in")
class PlugIn:
    @dataclass(frozen=True)
    class Config(Simba.Config):
        tail: float = 1.0


class Lion(Part):
    registry: ClassVar[Any] = LIONS


def test_a_registered_config_is_named_by_its_registration() -> None:
    with pytest.raises(ConfigError, match="lion 'simba': teeth must be a whole number of at least 1, got 0"):
        Simba.Config(teeth=0)


@pytest.mark.parametrize("options", [{"teeth": 0}, PlugIn.Config(teeth=0)])
def test_a_part_checks_the_options_of_a_plain_dataclass(options: Any) -> None:
    assert Lion("plug-in", {"tail": 2}).options == PlugIn.Config(tail=2)
    with pytest.raises(ConfigError, match="lion 'plug-in': teeth must be a whole number of at least 1, got 0"):
        Lion("plug-in", options)


def test_defining_records_does_not_import_pydantic() -> None:
    code = "import sys, pamd, pamd.schema, pamd.settings; assert 'pydantic' not in sys.modules, 'imported'"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_options_that_must_be_positive_are(value: float) -> None:
    # Through the public door: json carries NaN and Infinity, so the config itself has to refuse them.
    with pytest.raises(ConfigError, match=f"beta must be a finite number above 0, got {value}"):
        pamd.distance("mico", latent_dim=2, beta=value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pairing": "al"}, r"pairing of the objective 'al'\. Did you mean 'all'"),
        ({"right": "targt"}, r"right of the objective 'targt'\. Did you mean 'target'"),
        ({"regression": "mae"}, r"regression of the objective 'mae'\. .*Valid: expectile, mse, smooth-l1"),
        ({"expectile": 1.0}, "expectile must be .*above 0 and below 1, got 1.0"),
        ({"expectile": 0.0}, "expectile must be .*above 0 and below 1, got 0.0"),
        ({"penalty_sign": 0}, "penalty_sign must be 1 or -1, got 0"),
        ({"weight": -1.0}, "weight must be .* at least 0, got -1"),
        ({"weight": float("nan")}, "weight must be .*finite.*, got nan"),
        ({"weight": float("inf")}, "weight must be .*finite.*, got inf"),
    ],
)
def test_objective_checks_its_options_however_it_is_made(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Objective(**options)
    with pytest.raises(ConfigError, match=next(iter(options))):
        build(Objective, options, "the objective")


def test_objective_round_trips() -> None:
    objective = Objective(pairing="all", right="target", regression="smooth-l1", weight=0.5, penalty_sign=-1)
    assert from_json(Objective, to_json(objective), "the objective") == objective


# -- Field documentation -----------------------------------------------------------------------------------------------

REGISTRIES = (pamd.DISTANCES, pamd.OPERATORS, pamd.ENCODERS, pamd.LEARNERS, pamd.augmentations.AUGMENTATIONS)
OPTIONS = [registry.get(name).Config for registry in REGISTRIES for name in registry.names()]
RECORDS = [pamd.Latents, pamd.Objective, pamd.Method, Batch, NStep, OperatorInputs, Pairs, Window, *OPTIONS]


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
