"""`--set` changes single options, also of a part in a list of parts, and knows the option names of earlier versions."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import pytest

from pamd.configuration import configure
from pamd.errors import ConfigError, UnknownNameError
from pamd.registry import Registry
from pamd.schema import RENAMED, Count, NonNegative, Part, build, record, to_tree
from pamd.settings import override, rename_old_keys
from pamd.training import Runtime, run_name

SHAPES: Registry[Any] = Registry("shape", "pamd.operators")
TERMS: Registry[Any] = Registry("term", "pamd.operators")


class Shape(Part):
    registry: ClassVar[Any] = SHAPES


class Term(Part):
    registry: ClassVar[Any] = TERMS


@SHAPES.register("round")
class Round:
    @record
    class Config:
        radius: NonNegative = 1.0


@SHAPES.register("square")
class Square:
    @record
    class Config:
        side: NonNegative = 2.0


@TERMS.register("metric")
class Metric:
    @record
    class Config:
        weight: NonNegative = 1.0
        shape: Shape = dataclasses.field(default_factory=lambda: Shape("round"))


@TERMS.register("reward")
class Reward:
    @record
    class Config:
        weight: NonNegative = 1.0
        width: Count = 8


@record(what="recipe")
class Recipe:
    name: str = "ours"
    latent_dim: Count = 50
    terms: tuple[Term, ...] = (Term("metric"), Term("reward"))


@record(what="run")
class Run:
    seed: int = 0
    recipe: Recipe = dataclasses.field(default_factory=Recipe)


def changed(*settings: str) -> Run:
    return override(Run(), settings)


def test_fields_and_options_are_set() -> None:
    assert changed() == Run()
    assert changed("seed=3", "recipe.latent_dim=1e2") == Run(3, Recipe(latent_dim=100))
    assert changed("recipe.name=0.5x").recipe.name == "0.5x"


@record(what="limits")
class Limits:
    count: Count | None = 3
    path: str | None = None
    shift: Literal["none", "random"] | None = None


def test_none_is_null_unless_the_field_takes_text() -> None:
    assert override(Limits(), ["count=none"]) == override(Limits(), ["count=None"]) == Limits(count=None)
    assert override(Limits(), ["path=none", "shift=none"]) == Limits(path="none", shift="none")
    with pytest.raises(ConfigError, match="latent_dim must be a whole number of at least 1, got 'none'"):
        changed("recipe.latent_dim=none")


def test_a_part_in_a_list_is_addressed_by_its_name() -> None:
    terms = changed("recipe.metric.weight=0.5", "recipe.reward.width=4").recipe.terms
    assert terms == (Term("metric", {"weight": 0.5}), Term("reward", {"width": 4}))
    assert changed("recipe.metric.options.weight=0.5") == changed("recipe.metric.weight=0.5")


def test_a_part_inside_such_a_part() -> None:
    metric = changed("recipe.metric.shape.side=3", "recipe.metric.shape.name=square").recipe.terms[0]
    assert metric.options.shape == Shape("square", {"side": 3})
    with pytest.raises(UnknownNameError, match=r"unknown option 'recipe\.metric\.shape\.side'"):
        changed("recipe.metric.shape.side=3")


def test_null_drops_a_part_and_an_object_adds_it() -> None:
    alone = changed("recipe.reward=null")
    assert alone.recipe.terms == (Term("metric"),)
    assert override(alone, ["recipe.reward={}"]) == Run()
    # The part is added before its options are set, whatever the order of the settings.
    added = override(alone, ["recipe.reward.width=4", "recipe.reward={}"])
    assert added == override(alone, ['recipe.reward={"width": 4}']) == changed("recipe.reward.width=4")
    # An object changes the options of a part that is there. It does not reset the others.
    wide = changed("recipe.reward.width=4")
    assert override(wide, ["recipe.reward={}"]) == wide
    metric = changed('recipe.metric={"weight": 2}', "recipe.metric.shape=square").recipe.terms[0]
    assert metric == Term("metric", {"weight": 2, "shape": "square"})


def test_a_bare_name_is_a_part_with_its_default_options() -> None:
    square = changed("recipe.metric.shape=square", "recipe.metric.shape.side=3").recipe.terms[0].options.shape
    assert square == Shape("square", {"side": 3})
    kept = override(changed("recipe.metric.shape.radius=3"), ["recipe.metric.shape=round"])
    assert kept == changed("recipe.metric.shape.radius=3")
    assert Recipe(terms=("metric", "reward")) == Recipe()  # type: ignore[arg-type]
    assert build(Recipe, {"terms": ["metric", "reward"]}, "it") == Recipe()
    with pytest.raises(UnknownNameError, match=r"unknown shape 'sqare'\. Did you mean 'square'"):
        changed("recipe.metric.shape=sqare")


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("recipe.metrc.weight=1", r"unknown option 'recipe.metrc'\. Did you mean 'recipe.metric'"),
        ("recipe.rewrd={}", r"unknown option 'recipe.rewrd'\. Did you mean 'recipe.reward'"),
        ("recipe.metric.wieght=1", r"unknown option 'recipe.metric.wieght'\. Did you mean 'recipe.metric.weight'"),
        ("recipe.metric.weight=-1", "term 'metric': weight must be a finite number of at least 0, got -1"),
        ("recipe.metric=3", r"--set recipe.metric takes null or the part's options, such as {}, got 3"),
        ('recipe.metric={"wait": 1}', r"unknown option of term 'metric' 'wait'"),
        (
            "recipe.curl={}",
            r"Valid: .* If it is your own, import its module first, or declare it in the entry",
        ),
        ("recipe.latent_dim.x=1", "recipe.latent_dim is 50 and has no fields"),
        ("latent_dim=1", r"unknown option 'latent_dim'\. Did you mean 'recipe.latent_dim'"),
        ("seed", "--set takes KEY=VALUE, got 'seed'"),
    ],
)
def test_wrong_settings_say_what_is_wrong(setting: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        changed(setting)


def test_options_of_an_absent_part() -> None:
    with pytest.raises(ConfigError, match=r"there is no recipe.reward; --set recipe.reward={} adds it"):
        changed("recipe.reward=null", "recipe.reward.width=4")


def test_a_part_that_is_not_there_cannot_be_dropped() -> None:
    with pytest.raises(ConfigError, match=r"recipe.reward=null: there is no 'reward' to remove; there are: metric"):
        override(changed("recipe.reward=null"), ["recipe.reward=null"])


def test_settings_are_a_list() -> None:
    with pytest.raises(ConfigError, match=r"must be a list such as \['seed=1'\]"):
        override(Run(), "seed=1")


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RENAMED, "Recipe", {"objective": "metric", "form": "metric.shape", "dims.latent": "latent_dim"})
    monkeypatch.setitem(RENAMED, "Config", {"radios": "radius"})


@pytest.mark.usefixtures("renamed")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("recipe.objective.weight=0.5", "recipe.metric.weight=0.5"),
        ("recipe.objective=null", "recipe.metric=null"),
        ("recipe.form.name=square", "recipe.metric.shape.name=square"),
        ("recipe.dims.latent=7", "recipe.latent_dim=7"),
        ("recipe.metric.shape.radios=3", "recipe.metric.shape.radius=3"),
    ],
)
def test_settings_with_an_old_name_work_and_warn(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match="is now called") as warned:
        assert changed(old) == changed(new) != Run()
    assert len(warned) == 1


@pytest.mark.usefixtures("renamed")
def test_an_old_name_is_named_in_full() -> None:
    with pytest.warns(DeprecationWarning, match="'recipe.objective' is now called 'recipe.metric'"):
        changed("recipe.objective.weight=0.5")
    with pytest.warns(DeprecationWarning, match="'recipe.metric.shape.radios' is now called"):
        changed("recipe.metric.shape.radios=3")


@pytest.mark.usefixtures("renamed")
def test_old_names_in_a_file_are_replaced() -> None:
    old: dict[str, Any] = {
        "seed": 1,
        "recipe": {
            "name": "ours",
            "dims": {"latent": 7},
            "objective": {"weight": 0.5},
            "form": {"name": "round", "options": {"radius": 3.0}},
        },
    }
    with pytest.warns(DeprecationWarning, match="is now called"):
        rename_old_keys(Run, old)
    metric = Term("metric", {"weight": 0.5, "shape": {"name": "round", "options": {"radius": 3}}})
    assert build(Run, old, "run") == Run(1, Recipe("ours", 7, (metric,)))


@pytest.mark.usefixtures("renamed")
def test_old_names_inside_the_parts_of_a_file_are_replaced() -> None:
    tree = to_tree(changed("recipe.metric.shape.radius=3"))
    options = tree["recipe"]["terms"][0]["options"]["shape"]["options"]
    options["radios"] = options.pop("radius")
    with pytest.warns(DeprecationWarning, match="'recipe.metric.shape.radios' is now called"):
        rename_old_keys(Run, tree)
    assert build(Run, tree, "run") == changed("recipe.metric.shape.radius=3")


def test_a_file_without_old_names_stays(recwarn: pytest.WarningsRecorder) -> None:
    tree = to_tree(Run())
    rename_old_keys(Run, tree)
    assert tree == to_tree(Run())
    assert not recwarn.list


@pytest.mark.usefixtures("renamed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "recipe",
    [
        {"objective": 3},
        {"objective": {"weight": 0.5}, "terms": None},
        {"objective": {"weight": 0.5}, "terms": [None]},
        {"objective": {"weight": 0.5}, "terms": [{"options": {}}]},
        {"form": {"name": "round", "options": {}}, "terms": [{"name": "metric"}]},
        {"form": 3},
        {"dims": 3},
        {"terms": [{"name": "metric", "options": {"shape": {"name": ["round"], "options": {"radios": 3}}}}]},
        {"terms": [{"name": "nothing", "options": {"shape": {}}}]},
        [],
        None,
    ],
)
def test_a_damaged_file_is_a_config_error(recipe: Any) -> None:
    def read() -> Run:
        tree: dict[str, Any] = {"recipe": recipe}
        rename_old_keys(Run, tree)
        return build(Run, tree, "run")

    with pytest.raises(ConfigError):
        read()


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        (["method.metric.distance.name=l2"], "dbc-det (distance=l2)"),
        (["method.metric.operator.name=independent"], "dbc-det (operator=independent)"),
        (["method.reward=null"], "dbc-det (without reward)"),
        (["method.latent_dim=20", "learner.batch=16"], "dbc-det"),
        ([], "dbc-det"),
    ],
)
def test_a_method_with_other_parts_is_not_shown_by_its_name_alone(settings: list[str], label: str) -> None:
    config = configure("toy", "dbc-det", scale="smoke", settings=settings)
    assert config.label == label
    # Neither the label nor the name changes the identity of a run.
    assert run_name(config).startswith("toy_dbc-det_s0_")
    assert run_name(config) == run_name(dataclasses.replace(config, runtime=Runtime(label="mine")))


def test_a_label_of_ones_own_stays() -> None:
    settings = ["method.metric.distance.name=l2"]
    assert configure("toy", "dbc-det", scale="smoke", settings=settings, runtime=Runtime(label="mine")).label == "mine"
