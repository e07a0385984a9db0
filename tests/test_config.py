"""Configs are strict: what is unknown, of the wrong type or not plain data is an error that says so."""

import json
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pytest
import torch

import pamd
from pamd.config import build, check_choice, check_positive, from_json, to_json
from pamd.errors import ConfigError, UnknownNameError
from pamd.objective import Objective


@dataclass(frozen=True)
class Inner:
    width: int = 8


@dataclass(frozen=True)
class Outer:
    rate: float = 0.1
    kind: Literal["fast", "slow"] = "fast"
    sizes: tuple[int, ...] = ()
    on: bool = False
    inner: Inner = field(default_factory=Inner)
    spare: Inner | None = None


FULL = Outer(rate=0.5, kind="slow", sizes=(3, 4), on=True, inner=Inner(2), spare=Inner(5))


@pytest.mark.parametrize("config", [Outer(), FULL])
def test_round_trip(config):
    assert from_json(Outer, to_json(config), "it") == config
    assert build(Outer, json.loads(to_json(config)), "it") == config


@pytest.mark.parametrize("name", pamd.OPERATORS.names())
def test_every_operators_config_round_trips(name):
    changed = pamd.operator(name, gamma=0.25, c_R="1-gamma", reward_gap="smooth-l1").config
    assert pamd.operator(name, **json.loads(to_json(changed))).config == changed


def test_equal_configs_give_equal_text():
    assert to_json(build(Outer, {"on": True, "rate": 1}, "it")) == to_json(
        build(Outer, {"rate": 1.0, "on": True}, "it")
    )
    assert list(json.loads(to_json(FULL))) == sorted(json.loads(to_json(FULL)))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"rat": 0.5}, r"unknown option of it 'rat'\. Did you mean 'rate'"),
        ({"inner": {"widht": 3}}, r"unknown option of it: inner 'widht'\. Did you mean 'width'"),
        ({"spare": {"widht": 3}}, r"unknown option of it: spare 'widht'\. Did you mean 'width'"),
        ({"zzz": 1}, r"unknown option of it 'zzz'\. Valid: inner, kind, on, rate, sizes, spare"),
    ],
)
def test_unknown_key_gets_the_nearest_valid_one(options, says):
    with pytest.raises(UnknownNameError, match=says):
        build(Outer, options, "it")


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"rate": "0.5"}, "'rate' is '0.5'"),
        ({"rate": True}, "'rate' is True"),
        ({"rate": None}, "'rate' is None"),
        ({"on": 1}, "'on' is 1"),
        ({"kind": "slwo"}, "'kind' is 'slwo': Input should be 'fast' or 'slow'"),
        ({"sizes": [1, 2.5]}, r"'sizes\.1' is 2\.5"),
        ({"inner": {"width": "wide"}}, r"'inner\.width' is 'wide'"),
        ({"inner": 3}, "'inner' is 3"),
    ],
)
def test_wrong_type_says_where_and_what(options, where):
    with pytest.raises(ConfigError, match=f"it: option {where}"):
        build(Outer, options, "it")


@pytest.mark.parametrize("value", [torch.tensor(0.5), np.float32(0.5), {1, 2}, 1j, object()])
def test_options_must_be_plain_data(value):
    with pytest.raises(ConfigError, match="options of it must be plain data"):
        build(Outer, {"rate": value}, "it")


def test_option_that_contains_itself_is_no_plain_data():
    loop = []
    loop.append(loop)
    with pytest.raises(ConfigError, match="options of it must be plain data"):
        build(Outer, {"sizes": loop}, "it")


@pytest.mark.parametrize(("text", "says"), [("{", "it is not valid JSON"), ("[1]", r"it: .* is \[1\]")])
def test_text_that_is_no_config(text, says):
    with pytest.raises(ConfigError, match=says):
        from_json(Outer, text, "it")


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_positive_means_finite_and_above_zero(value):
    with pytest.raises(ConfigError, match=f"it: width must be a finite number above 0, got {value}"):
        check_positive("it", fine=1.0, absent=None, width=value)


def test_positive_passes_over_what_is_positive_or_absent():
    check_positive("it", tiny=1e-300, absent=None)


@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_options_that_must_be_positive_are(value):
    # Through the public door: json carries NaN and Infinity, so the config itself has to refuse them.
    with pytest.raises(ConfigError, match=f"beta must be a finite number above 0, got {value}"):
        pamd.distance("mico", latent_dim=2, beta=value)


def test_choice_gets_the_nearest_valid_one():
    check_choice("it", "kind", "fast", ("fast", "slow"))
    with pytest.raises(UnknownNameError, match=r"unknown kind of it 'fsat'\. Did you mean 'fast'\? Valid: fast, slow"):
        check_choice("it", "kind", "fsat", ("fast", "slow"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"pairing": "al"}, r"pairing of the objective 'al'\. Did you mean 'all'"),
        ({"right": "targt"}, r"right of the objective 'targt'\. Did you mean 'target'"),
        ({"regression": "mae"}, r"regression of the objective 'mae'\. .*Valid: mse, smooth-l1"),
        ({"penalty_sign": 0}, "penalty_sign must be 1 or -1, got 0"),
        ({"weight": -1.0}, "weight must be finite and at least 0, got -1"),
        ({"weight": float("nan")}, "weight must be finite and at least 0, got nan"),
        ({"weight": float("inf")}, "weight must be finite and at least 0, got inf"),
    ],
)
def test_objective_checks_its_options_however_it_is_made(options, says):
    with pytest.raises(ConfigError, match=says):
        Objective(**options)
    with pytest.raises(ConfigError, match=next(iter(options))):
        build(Objective, options, "the objective")


def test_objective_round_trips():
    objective = Objective(pairing="all", right="target", regression="smooth-l1", weight=0.5, penalty_sign=-1)
    assert from_json(Objective, to_json(objective), "the objective") == objective
