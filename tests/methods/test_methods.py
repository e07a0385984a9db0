"""Methods are data: every name builds, `+distance` changes the comparator alone, presets say what facts say."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import pamd
from pamd.cli.main import main
from pamd.configuration import configure
from pamd.errors import ConfigError, UnknownNameError
from pamd.methods import DEFAULT_METHOD, PIPELINES, DistancePart, Method, agent_method, method, names
from pamd.operators import operator
from pamd.schema import differences, from_json, to_json
from pamd.training import train

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
    assert all(field == "name" or field.startswith("metric.") for field in differing)
    ours, theirs = (dict(method(n).metric.__dict__) for n in (base, name))  # type: ignore[union-attr]
    changed = {key for key in ours if ours[key] != theirs[key]}
    if name == "simsr+mlp":  # the paper's text says so, for this distance alone
        assert (ours["regression"], theirs["regression"]) == ("mse", "smooth-l1")
        changed -= {"regression"}
    assert changed <= {"distance"}
    assert [part for part in method(base).terms if part.name != "metric"] == [
        part for part in method(name).terms if part.name != "metric"
    ]


def test_released_simsr_pamd_also_differs_in_its_pairs_and_says_so() -> None:
    ours, theirs = (method(name, "released").metric for name in ("simsr", "simsr+pamd"))
    assert ours is not None
    assert theirs is not None
    assert (ours.pairing, theirs.pairing) == ("all", "permutation")
    assert dataclasses.replace(ours, pairing="permutation", distance=theirs.distance) == theirs


@pytest.mark.parametrize(
    ("name", "fidelity", "field", "value"),
    [
        ("dbc-det", "released", "metric.distance.name", "coordinate"),
        ("dbc-det", "paper", "metric.distance.name", "l1"),
        ("dbc-det", "released", "metric.operator.options.reward_gap", "smooth-l1"),
        ("dbc-det+pamd", "released", "metric.distance.options.root", "clamp"),
        ("simsr+pamd", "released", "metric.distance.options.root_epsilon", 1e-12),
        ("dbc-det", "released", "metric.weight", 0.5),
        ("dbc-det", "released", "metric.target_encoder", "online"),
        ("dbc-det", "released", "learner.first_updates", 1000),
        ("dbc-det", "released", "transition.weight_decay", 0.0),
        ("simsr", "released", "learner.hidden", 1024),
        ("simsr", "paper", "learner.hidden", 256),
        ("simsr", "released", "targets.tau", 0.05),
        ("simsr", "released", "metric.regression", "smooth-l1"),
        ("simsr", "paper", "metric.regression", "mse"),
        ("simsr", "paper", "metric.pairing", "permutation"),
        ("simsr+pamd", "paper", "metric.regression", "mse"),
        ("dbc-det+l2", "paper", "metric.distance.name", "l2"),
        ("simsr", "released", "learner.temperature_beta1", 0.5),
        ("simsr+mlp", "paper", "metric.regression", "smooth-l1"),
        ("dbc-det+mlp", "paper", "metric.regression", "mse"),
        ("dbc", "paper", "transition.std", "sigmoid"),
        ("dbc", "released", "transition.std", "sigmoid"),
        ("simsr", "released", "transition.std", "tanh"),
        ("dbc-det+pamd", "paper", "transition.init", "pytorch"),
        ("deepmdp", "released", "transition.init", "pytorch"),
        ("simsr+pamd", "released", "transition.init", "orthogonal"),
        ("dbc-det", "paper", "transition.next_encoder", "online"),
        ("simsr+pamd", "paper", "transition.next_encoder", "online"),
        ("simsr+pamd", "paper", "metric.target_encoder", "ema"),
        ("simsr", "paper", "learner.log_prob", "exact"),
        ("simsr", "released", "learner.log_prob", "released"),
        ("dbc", "released", "learner.log_prob", "released"),
        ("dbc", "released", "learner.burst_every_update", True),
        ("dbc", "paper", "learner.burst_every_update", False),
        ("dbc", "released", "learner.schedule_offset", 0),
        ("simsr", "released", "learner.schedule_offset", 999),
        ("simsr", "released", "targets.offset", 999),
        ("simsr", "paper", "targets.offset", 0),
        ("mico", "paper", "targets.period_offset", 1000),
        ("mico", "released", "targets.period_offset", 999),
        ("mico", "paper", "metric.distance.options.angle", "exact"),
        ("mico", "released", "metric.distance.options.angle", "released"),
        ("simsr+pamd", "released", "metric.distance.options.aux_pairs", None),
        ("simsr+pamd", "paper", "metric.distance.options.aux_pairs", 16),
        ("mico", "released", "metric.weight", 1e-5),
        ("mico", "released", "critic_weight", 1 - 1e-5),
        ("mico", "paper", "targets.period", 8000),
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
        node = node.term(part) if part in ("metric", "transition") else getattr(node, part)
    assert node == value


def test_both_readings_of_simsr_are_documented_and_buildable() -> None:
    page = (Path(__file__).parents[2] / "docs" / "fidelity.md").read_text()
    (command,) = re.findall(r"`--set (method\.metric\.pairing=all method\.metric\.regression=\S+)` takes", page)
    other = configure("toy", "simsr", settings=command.split()).method.metric
    released = method("simsr", "released").metric
    assert other is not None
    assert released is not None
    assert (other.pairing, other.regression) == (released.pairing, released.regression)


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


def test_a_term_is_changed_added_and_dropped_by_its_name() -> None:
    made = method("deepmdp", reward=None, transition={"members": 2})
    assert [part.name for part in made.terms] == ["transition"]
    assert made.term("transition").members == 2  # type: ignore[union-attr]
    assert [part.name for part in method("zp", reward={}).terms] == ["transition", "reward"]
    assert method("rap", state_reward={"weight": 0.5}).term("state-reward").weight == 0.5  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="metric must be a mapping of options or None, got 'l1'"):
        method("dbc-det", metric="l1")
    with pytest.raises(ConfigError, match="requires term 'transition'"):
        method("deepmdp", transition=None)


def test_settings_reach_the_options_of_parts() -> None:
    settings = ("metric.distance.hidden=64", "metric.pairing=all", "transition.members=2")
    made = method("simsr+pamd", settings=settings, latent_dim=8)
    assert made.metric is not None
    assert (made.metric.distance.options.hidden, made.metric.pairing, made.latent_dim) == (64, "all", 8)
    assert made.term("transition").members == 2  # type: ignore[union-attr]
    assert [part.name for part in method("deepmdp", settings=["reward=null"]).terms] == ["transition"]


def test_old_names_of_settings_still_work_and_say_so() -> None:
    with pytest.warns(DeprecationWarning, match=r"'objective' is now called 'metric'"):
        made = method("simsr+pamd", settings=["objective.pairing=all"])
    assert made.metric is not None
    assert made.metric.pairing == "all"
    with pytest.warns(DeprecationWarning, match=r"'method.ensemble' is now called 'method.transition.members'"):
        assert configure("toy", settings=["method.ensemble=2"]).method.term("transition").members == 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            ("metric.distance.hiden=64",),
            "unknown option 'metric.distance.hiden'. Did you mean 'metric.distance.hidden'",
        ),
        (("metric.distance.hidden=wide",), "distance 'pamd': hidden must be a whole number of at least 1, got 'wide'"),
        ("metric.distance.hidden=64", "settings must be a list such as ['metric.distance.hidden=64']"),
        (
            ("transition.members=many",),
            "term 'transition': members must be a whole number of at least 1 and at most 1000, got 'many'",
        ),
        (("fidelity=released",), "pass fidelity='released'"),
    ],
)
def test_bad_settings(settings: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        method("simsr+pamd", settings=settings)


def test_a_run_takes_the_name_of_a_method() -> None:
    with pytest.raises(ConfigError) as caught:
        configure("toy", method("simsr+pamd"))  # type: ignore[arg-type]
    assert str(caught.value) == ("a run: method must be text, got a Method; pass its name, and changes as settings")


def test_a_bare_name_is_a_part_with_its_default_options() -> None:
    assert method("dbc-det", metric={"distance": "l2"}).distance == DistancePart("l2")
    assert configure("toy", "simsr", settings=["method.metric.operator=rap", "method.state-reward={}"]).method.operator
    with pytest.raises(UnknownNameError, match=r"unknown distance 'pmad'\. Did you mean 'pamd'"):
        method("dbc-det", metric={"distance": "pmad"})
    with pytest.raises(ConfigError, match="distance must be a name or of type DistancePart, got 3"):
        method("dbc-det", metric={"distance": 3})
    for name in ("learner=drqv2", "method=simsr"):
        with pytest.raises(ConfigError, match="would change only the name; use --"):
            configure("toy", settings=[name])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: method(None), "a method is given by its name, such as 'simsr+pamd', got None"),
        (lambda: method(method("zp")), "a method is given by its name, such as 'simsr+pamd', got Method"),
        (lambda: method("zp", reward=None), "method 'zp' has no term 'reward' to drop; it has: transition"),
        (lambda: method("dbc", transition=None, reward=None), 'add it (--set method.transition={"kind": "gaussian"})'),
        (lambda: method("simsr", transition=None), "or drop the metric, too (--set method.metric=null)"),
        (lambda: method("deepmdp", transition=None), "or drop the reward, too (--set method.reward=null)"),
        (lambda: method("pamd"), "Did you mean 'dbc-unit+pamd'?"),
        (lambda: configure("toy", "pamd"), "Did you mean 'dbc-unit+pamd'?"),
        (lambda: method("zp", my_term={}), "declare it in the entry-point group 'pamd.terms'"),
        (lambda: configure("toy", "zp", settings=["method.my-term={}"]), "the entry-point group 'pamd.terms'"),
        (lambda: method("zp", stat_reward={}), "Did you mean 'state_reward'"),
        (lambda: method("simsr", ensemble=3), "Did you mean \"settings=['transition.members=...']\"?"),
        (lambda: method("simsr", objective={}), "Did you mean 'metric={...}'?"),
        (lambda: operator("bisimulation", reading="text"), "Did you mean 'per_coordinate'?"),
        (lambda: operator("kernel", reading="text"), "Did you mean 'squared'?"),
        (lambda: train("toy"), "train takes a TrainConfig, got a str; pass pamd.configure('toy')"),
    ],
)
def test_mistakes_get_advice(wrong: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        wrong()


@pytest.mark.parametrize("name", ["mico", "mico+pamd"])
@pytest.mark.parametrize("fidelity", ["paper", "released"])
def test_micos_tiny_weight_belongs_to_the_agents_of_pamd_train(name: str, fidelity: Any) -> None:
    """The release minimizes (1 - 1e-5) * critic + 1e-5 * metric; in another loop, 1e-5 would turn the metric off."""
    inside, outside = configure("toy", name, fidelity=fidelity).method, method(name, fidelity)
    assert (inside.metric.weight, inside.critic_weight) == (1e-5, 1 - 1e-5)  # type: ignore[union-attr]
    assert (outside.metric.weight, outside.critic_weight) == (0.5, 1.0)  # type: ignore[union-attr]
    changed = agent_method(name, fidelity, metric={"weight": 0.1}, critic_weight=1.0)
    assert changed == method(name, fidelity, metric={"weight": 0.1})
    assert agent_method("simsr+pamd", fidelity) == method("simsr+pamd", fidelity)


@pytest.mark.parametrize(
    ("setting", "meant"), [("metric.weight=1", "method.metric.weight"), ("batch=8", "learner.batch")]
)
def test_a_setting_without_its_first_word(setting: str, meant: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        configure("toy", "simsr+pamd", settings=(setting,))
    assert str(caught.value) == f"unknown option {setting.partition('=')[0]!r}. Did you mean {meant!r}?"


def test_there_is_one_default_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert configure("toy") == configure("toy", DEFAULT_METHOD)
    assert main(["train", "--help"]) == 0
    assert f"(default: {DEFAULT_METHOD})" in " ".join(capsys.readouterr().out.split())


def test_the_default_method_can_reach_its_targets() -> None:
    """A run of it does not warn about itself: the fixed point lies below the largest value of the distance."""
    rep = pamd.Representation(DEFAULT_METHOD, encoder=nn.Linear(4, 50), action_dim=2)
    assert rep.metric is not None
    largest_gap = 8.0  # cartpole_swingup at scale cpu: rewards of at most 1, summed over an action repeat of 8
    assert rep.metric.operator.bound(largest_gap) < rep.metric.distance.max_value(rep.encoder.max_norm())
