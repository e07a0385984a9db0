"""Methods are data: every name builds, `+distance` changes the comparator alone, presets say what facts say."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pamd.config import differences, from_json, to_json
from pamd.configuration import configure
from pamd.errors import ConfigError, UnknownNameError
from pamd.methods import PIPELINES, Method, method, names

ALL = names()


@pytest.mark.parametrize("fidelity", ["paper", "released"])
@pytest.mark.parametrize("name", ALL)
def test_every_method_updates_and_survives_json(name: str, fidelity: Any) -> None:
    made = method(name, fidelity)
    assert from_json(Method, to_json(made), "method") == made


@pytest.mark.parametrize("name", [n for n in ALL if "+" in n and not n.startswith("dbc+")])
def test_plus_distance_replaces_the_comparator_and_nothing_else(name: str) -> None:
    base = name.split("+")[0]
    differing = {field: (a, b) for field, a, b in differences(method(base), method(name))}
    if name == "simsr+mlp":  # the paper's text says so, for this distance alone
        assert differing.pop("objective.regression") == ("mse", "smooth-l1")
    assert {field.split(".")[0] for field in differing} <= {"name", "distance"}


def test_released_simsr_pamd_also_differs_in_its_pairs_and_says_so() -> None:
    pair = method("simsr", "released"), method("simsr+pamd", "released")
    differing = {field: (a, b) for field, a, b in differences(*pair)}
    assert differing.pop("objective.pairing") == ("all", "permutation")
    assert {field.split(".")[0] for field in differing} == {"name", "distance"}


@pytest.mark.parametrize(
    ("name", "fidelity", "field", "value"),
    [
        ("dbc-det", "released", "distance.name", "coordinate"),
        ("dbc-det", "paper", "distance.name", "l1"),
        ("dbc-det", "released", "operator.options.reward_gap", "smooth-l1"),
        ("dbc-det+pamd", "released", "distance.options.root", "clamp"),
        ("simsr+pamd", "released", "distance.options.root_epsilon", 1e-12),
        ("dbc-det", "released", "objective.weight", 0.5),
        ("dbc-det", "released", "target_encoder", "online"),
        ("dbc-det", "released", "learner.first_updates", 1000),
        ("dbc-det", "released", "weight_decay", 0.0),
        ("simsr", "released", "learner.hidden", 1024),
        ("simsr", "paper", "learner.hidden", 256),
        ("simsr", "released", "encoder_tau", 0.05),
        ("simsr", "released", "objective.regression", "smooth-l1"),
        ("simsr+pamd", "paper", "objective.regression", "mse"),
        ("simsr", "released", "learner.temperature_beta1", 0.5),
        ("simsr+mlp", "paper", "objective.regression", "smooth-l1"),
        ("dbc-det+mlp", "paper", "objective.regression", "mse"),
        ("dbc", "paper", "transition_std", "sigmoid"),
        ("dbc", "released", "transition_std", "sigmoid"),
        ("simsr", "released", "transition_std", "tanh"),
        ("dbc-det+pamd", "paper", "model_init", "pytorch"),
        ("deepmdp", "released", "model_init", "pytorch"),
        ("simsr+pamd", "released", "model_init", "orthogonal"),
        ("dbc-det", "paper", "next_latent_encoder", "online"),
        ("simsr+pamd", "paper", "next_latent_encoder", "online"),
        ("simsr+pamd", "paper", "target_encoder", "ema"),
        ("simsr", "paper", "learner.log_prob", "exact"),
        ("simsr", "released", "learner.log_prob", "released"),
        ("dbc", "released", "learner.log_prob", "released"),
        ("dbc", "released", "learner.burst_every_update", True),
        ("dbc", "paper", "learner.burst_every_update", False),
        ("dbc", "released", "learner.schedule_offset", 0),
        ("simsr", "released", "learner.schedule_offset", 999),
        ("simsr", "released", "follow_offset", 999),
        ("simsr", "paper", "follow_offset", 0),
        ("mico", "paper", "target_offset", 1000),
        ("mico", "released", "target_offset", 1001),
        ("mico", "released", "objective.weight", 1e-5),
        ("mico", "released", "critic_weight", 1 - 1e-5),
        ("mico", "paper", "target_period", 8000),
        ("simsr", "paper", "latent_space", "sphere"),
        ("mico", "paper", "latent_space", "layernorm"),
    ],
)
def test_presets(name: str, fidelity: Any, field: str, value: Any) -> None:
    config = configure("toy", name, fidelity=fidelity)
    node: Any = config.method
    if field.startswith("learner."):
        node, field = config.learner.options, field.removeprefix("learner.")
    for part in field.split("."):
        node = getattr(node, part)
    assert node == value


def test_bad_names() -> None:
    with pytest.raises(UnknownNameError, match="'simsr\\+pamd'"):
        method("simrs+pamd")
    with pytest.raises(UnknownNameError, match="'pamd'"):
        method("simsr+pmad")
    with pytest.raises(UnknownNameError, match="unknown distance ''"):
        method("simsr+")
    with pytest.raises(UnknownNameError, match="fidelity"):
        method("simsr", "exact")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="'latent_dim'"):
        method("simsr", latent_dims=3)
    with pytest.raises(ConfigError, match="dbc-det\\+pamd"):
        method("dbc+pamd")
    with pytest.raises(ConfigError, match=r"^method 'zp' has no distance to replace with 'l1'$"):
        method("zp+l1")
    with pytest.raises(UnknownNameError, match="'paper'"):
        configure("toy", scale="papr")
    assert set(PIPELINES) <= set(ALL)


def test_an_unknown_method_does_not_list_every_combination() -> None:
    for find in (method, lambda name: configure("toy", name)):
        with pytest.raises(UnknownNameError) as caught:
            find("simrs+pamd")
        assert str(caught.value).endswith("Did you mean 'simsr+pamd'? `pamd list methods --all` prints all.")


@pytest.mark.parametrize("part", ["distance", "operator", "objective"])
@pytest.mark.parametrize("value", [{"name": "l1"}, "l1"])
def test_a_part_is_its_record(part: str, value: Any) -> None:
    record = {"distance": "DistancePart", "operator": "OperatorPart", "objective": "Objective"}[part]
    got = type(value).__name__
    with pytest.raises(
        ConfigError, match=rf"^method 'dbc-det\+l2': {part} must be a pamd\.[a-z]+\.{record}, got {got}; .*settings"
    ):
        method("dbc-det+l2", **{part: value})


def test_settings_reach_the_options_of_parts() -> None:
    made = method("simsr+pamd", settings=("distance.hidden=64", "objective.pairing=all"), latent_dim=8)
    assert made.distance is not None
    assert (made.distance.options.hidden, made.objective.pairing, made.latent_dim) == (64, "all", 8)
    changed = {field for field, _, _ in differences(method("simsr+pamd", latent_dim=8), made)}
    assert changed == {"distance.options.hidden", "objective.pairing"}
    long = method("simsr+pamd", settings=("distance.options.hidden=64", "objective.pairing=all"), latent_dim=8)
    assert long == made


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (("distance.hiden=64",), "unknown option 'distance.hiden'. Did you mean 'distance.hidden'"),
        (("hidden=64",), "Did you mean 'distance.hidden'"),
        (("distance.hidden=wide",), "distance 'pamd': hidden must be a whole number, got 'wide'"),
        ("distance.hidden=64", "settings must be a list such as ['distance.hidden=64']"),
        (("ensemble=many",), "method 'simsr+pamd': ensemble must be a whole number, got 'many'"),
        (("fidelity=released",), "pass fidelity='released'"),
    ],
)
def test_bad_settings(settings: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        method("simsr+pamd", settings=settings)


def test_a_run_takes_the_name_of_a_method() -> None:
    with pytest.raises(ConfigError) as caught:
        configure("toy", method("simsr+pamd"))  # type: ignore[arg-type]
    assert str(caught.value) == (
        "option 'method' of a run must be text, got Method; pass its name, and changes as settings"
    )


@pytest.mark.parametrize(
    ("setting", "meant"), [("distance.init=1", "method.distance.init"), ("batch=8", "learner.batch")]
)
def test_a_setting_without_its_first_word(setting: str, meant: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        configure("toy", "simsr+pamd", settings=(setting,))
    assert str(caught.value) == f"unknown option {setting.partition('=')[0]!r}. Did you mean {meant!r}?"
