"""One resolved config: everything that is computed is written out, and any other value is another run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from tests.training.runs import toy

import pamd
from pamd.configuration import RunOptions, configure
from pamd.errors import ConfigError, RunError
from pamd.methods import names
from pamd.runs import identity
from pamd.runs.identity import LAYOUT, tree_identity
from pamd.schema import RENAMED, Part, to_tree
from pamd.training.config import config_text, parse_config, read_config, run_name

METHODS = ["sac", "drqv2", "drqv2:simsr+pamd", *(name for name in names() if name != "none")]


def leaves(record: Any, path: str = "") -> dict[str, Any]:
    """Every field of nested records, by its path in the JSON."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value, here = getattr(record, field.name), f"{path}{field.name}"
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            found |= leaves(value, f"{here}.")
        else:
            found[here] = value
    return found


def flat(tree: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {path[:-1]: tree}
    return {key: value for name, child in tree.items() for key, value in flat(child, f"{path}{name}.").items()}


@pytest.mark.parametrize("fidelity", ["paper", "released"])
@pytest.mark.parametrize("name", METHODS)
def test_every_field_of_every_method_is_in_the_config(name: str, fidelity: Any) -> None:
    config = configure("toy", name, fidelity=fidelity)
    written = json.loads(config_text(config))
    assert parse_config(written, "it") == config
    stored = flat({k: v for k, v in written.items() if k not in ("layout", "pamd")})
    expected = leaves(config)
    assert set(expected) - {k for k, v in expected.items() if v == {}} <= set(stored)
    for part in (config.encoder, config.learner, config.method.distance, config.method.operator):
        assert part is None or dataclasses.fields(part.options) is not None
        assert part is None or set(to_tree(part)["options"]) == {f.name for f in dataclasses.fields(part.options)}
    assert isinstance(config.env.action_repeat, int)


def _other(value: Any) -> Any:
    """A value of the same kind that is not `value`."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value / 2 if value else 1.0
    return f"{value}x" if isinstance(value, str) else "something else"


@pytest.mark.parametrize("name", ["simsr+pamd", "drqv2:dbc-det+pamd-block", "mico"])
def test_another_value_of_any_field_is_another_run(name: str) -> None:
    """The hash is over all of them, so a default that changes in the code changes the name of the run."""
    tree = tree_identity(to_tree(configure("toy", name)))
    text = json.dumps(tree, sort_keys=True)
    for path, value in flat(tree).items():
        changed = json.loads(text)
        *parents, leaf = path.split(".")
        branch = changed
        for parent in parents:
            branch = branch[parent]
        branch[leaf] = _other(value)
        assert json.dumps(changed, sort_keys=True) != text, path


@pytest.mark.parametrize("record", ["learner", "method.distance", "method.operator", "encoder"])
def test_a_default_that_changes_in_code_changes_the_run(record: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = configure("toy", "simsr+pamd")
    node: Any = before
    for name in record.split("."):
        node = getattr(node, name)
    assert isinstance(node, Part)
    fields = [f for f in dataclasses.fields(node.options) if f.name != "gamma"]  # it stands in two records
    first = next(f for f in fields if isinstance(f.default, int | float) and f.default)
    changed = dataclasses.make_dataclass(
        type(node.options).__name__,
        [(first.name, type(first.default), type(first.default)(first.default / 2))],
        bases=(type(node.options),),
        frozen=True,
    )
    monkeypatch.setattr(node.cls, "Config", changed)
    after = configure("toy", "simsr+pamd")
    assert run_name(after) != run_name(before)


def test_budget_and_runtime_are_no_part_of_a_runs_identity() -> None:
    one = toy()
    assert run_name(one) == run_name(dataclasses.replace(one, decisions=90))
    assert run_name(one) == run_name(dataclasses.replace(one, runtime=pamd.training.Runtime(threads=1)))
    assert run_name(one) != run_name(dataclasses.replace(one, seed=5))
    assert run_name(one) != run_name(dataclasses.replace(one, evaluate_every=7))


def test_runs_from_before_an_option_was_added_keep_their_names() -> None:
    """Options of layout 3 that are newer than published runs are left out of the hash at the value that those had."""
    tree = to_tree(configure("toy", "mico"))
    (metric,) = (term for term in tree["method"]["terms"] if term["name"] == "metric")
    name = identity.run_name(tree)
    assert metric["options"]["distance"]["options"].pop("angle") == "exact"
    assert identity.run_name(tree) == name
    assert tree.pop("evaluate_starts") == "same"
    assert tree.pop("act_before_update") is False
    assert identity.run_name(tree) == name
    assert metric["options"].pop("expectile") == 0.7
    assert identity.run_name(tree) == name
    metric["options"]["expectile"] = 0.5
    assert identity.run_name(tree) != name
    del metric["options"]["expectile"]
    metric["options"]["distance"]["options"]["angle"] = "released"
    assert identity.run_name(tree) != name


def test_settings_come_before_any_check() -> None:
    config = configure("toy", scale="smoke", decisions=45, settings=("learner.random_decisions=30",))
    assert (config.decisions, config.learner.options.random_decisions) == (45, 30)


def test_parts_are_set_by_name_and_options_without_the_word() -> None:
    config = configure("toy", "simsr+pamd", settings=("method.metric.distance.name=l2", "learner.batch=64"))
    assert to_tree(config.method.distance) == {"name": "l2", "options": {}}
    assert config.learner.options.batch == 64
    shifted = configure("toy", settings=("learner.augmentation.name=random-shift", "learner.augmentation.pixels=2"))
    assert shifted.learner.options.augmentation.options.pixels == 2


@pytest.mark.parametrize("turned", [False, True])
def test_names_and_options_of_parts_come_in_any_order(turned: bool) -> None:
    settings = [
        "encoder.name=mlp",
        "encoder.hidden=8",
        "encoder.layers=1",
        "learner.augmentation.name=random-shift",
        "learner.augmentation.pixels=3",
        "method.metric.distance.name=pamd-lowrank",
        "method.metric.distance.rank=2",
    ]
    config = configure("toy", settings=settings[::-1] if turned else settings)
    assert to_tree(config.encoder) == {"name": "mlp", "options": {"hidden": 8, "layers": 1}}
    assert config.learner.options.augmentation.options.pixels == 3
    assert config.method.distance is not None
    assert config.method.distance.options.rank == 2


@pytest.mark.parametrize(("setting", "option"), [("learner.name=drqv2", "--learner"), ("scale=cpu", "--scale")])
def test_what_is_more_than_a_name_has_an_option(setting: str, option: str) -> None:
    with pytest.raises(ConfigError, match=f"use {option}"):
        configure("toy", settings=[setting])


def test_a_missing_section_is_named_and_the_config_not_printed() -> None:
    tree = json.loads(config_text(toy()))
    del tree["learner"]
    with pytest.raises(ConfigError, match=r"option 'learner' is missing$"):
        parse_config(tree, "it")


def test_blocks_fit_the_latent_dimension_that_is_set() -> None:
    config = configure("toy", "simsr+pamd-block", settings=("method.latent_dim=16",))
    assert config.method.distance is not None
    assert config.method.distance.options.block == 8


@pytest.mark.parametrize(
    ("name", "label"),
    [("sac", "sac"), ("simsr+pamd", "simsr+pamd"), ("drqv2", "drqv2"), ("drqv2:simsr+pamd", "drqv2:simsr+pamd")],
)
def test_labels(name: str, label: str) -> None:
    assert configure("toy", name).label == label
    assert run_name(configure("toy", name)).startswith(f"toy_{label.replace(':', '-')}_s0_")


def test_drqv2_alone_has_its_own_latent_space() -> None:
    assert configure("toy", "drqv2").method.latent_space == "tanh"
    assert configure("toy", "sac").method.latent_space == "layernorm"
    assert configure("toy", "drqv2:simsr+pamd").method.latent_space == "sphere"


def test_one_discount_for_both() -> None:
    config = configure("toy", gamma=0.9)
    assert config.learner.options.gamma == 0.9
    assert config.method.operator is not None
    assert config.method.operator.options.gamma == 0.9


def test_a_config_of_another_layout_is_refused_with_the_version_that_wrote_it(tmp_path: Path) -> None:
    tree = json.loads(config_text(toy()))
    for changes, says in (
        ({"layout": 1}, "layout 1"),
        ({"layout": 99, "pamd": "9.9"}, r"layout 99 \(pamd 9.9 wrote it\)"),
    ):
        (tmp_path / "config.json").write_text(json.dumps({**tree, **changes}))
        with pytest.raises(RunError, match=rf"config.json has {says}.*; this version reads layout {LAYOUT}"):
            read_config(tmp_path / "config.json")


def test_every_option_says_what_it_does() -> None:
    source = Path(str(pamd.__file__)).with_name("configuration.py").read_text()
    for field in dataclasses.fields(RunOptions):
        assert f"    {field.name}: " in source
        after = source.split(f"    {field.name}: ", 1)[1].split("\n")[1]
        assert after.strip().startswith('"""'), field.name


def test_a_config_file_with_an_old_option_name_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RENAMED, "SacConfig", {"width": "hidden"})
    config = toy()
    tree = json.loads(config_text(config))
    options = tree["learner"]["options"]
    options["width"] = options.pop("hidden")
    with pytest.warns(DeprecationWarning, match=r"'learner\.width' is now called 'learner\.hidden'"):
        assert parse_config(tree, "it") == config
    assert "width" in options, "the tree of the caller stays as it was"
