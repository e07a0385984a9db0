"""The colors of the released DBC code, and the effect of its blue-pixel rule on the floor."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.fidelity.difference import report
from tests.fidelity.floor import FLOORS, shares

import pamd
from pamd.configuration import configure
from pamd.envs import EnvConfig, resolve_env
from pamd.envs.dmc import texels
from pamd.errors import ConfigError, UnknownNameError
from pamd.training.config import run_name

RELEASED: Literal["released-dbc"] = "released-dbc"


def model_of(env: Any) -> Any:
    return env.unwrapped.task.physics.model.ptr


def texture(model: Any, name: str) -> NDArray[np.float64]:
    return texels(model, model.texture(name).id).astype(np.float64)


@pytest.mark.parametrize("task", [*FLOORS, "cartpole_swingup", "finger_spin", "point_mass_easy"])
def test_texels_are_those_of_the_released_suite(task: str) -> None:
    stock, released = (model_of(pamd.make_env(task, scene=scene)) for scene in ("stock", RELEASED))
    sky = texture(stock, "skybox")
    marks = sky.min(-1, keepdims=True) == 255
    assert 0.009 < marks.mean() < 0.011, "the sky has a mark in one texel of a hundred"
    gray = task in FLOORS
    dark, light = ([25.0, 25, 25], [51.0, 51, 51]) if gray else ([25.0, 25, 102], [51.0, 51, 204])
    # The squares are two by two, and the first is dark. The outermost texels have the color of the dark squares.
    y, x = np.mgrid[:300, :300]
    is_dark = ((y < 150) == (x < 150)) | np.isin(y, (0, 299)) | np.isin(x, (0, 299))
    for name, formula in (
        ("skybox", np.where(marks, 0.0, sky)),
        ("grid", np.where(is_dark[..., None], dark, light)),
    ):
        difference = np.abs(texture(released, name) - formula).max()
        report("scene", float(difference))
        assert difference == 0
    decoration = [model.material("decoration").rgba.tolist() for model in (stock, released)]
    assert decoration[0] == pytest.approx([0.3, 0.5, 0.7, 1])
    assert decoration[1] == pytest.approx([0.3, 0.5, 0.7, 1] if gray else [0.7, 0.5, 0.3, 1])


@pytest.mark.parametrize("task", FLOORS)
def test_the_blue_rule_takes_the_stock_floor_and_leaves_the_released_one(task: str) -> None:
    assert shares(task, "stock", "fast", 1).whole > 0.98
    assert shares(task, RELEASED, "fast", 1).whole == 0


@pytest.mark.slow
@pytest.mark.parametrize("task", FLOORS)
def test_the_blue_rule_with_multisampling(task: str) -> None:
    assert shares(task, "stock", "standard", 20).whole > 0.98
    found = shares(task, RELEASED, "standard", 20)
    assert found.inside == 0
    assert 0 < found.whole < 0.1, "the pixels of the horizon show floor and sky at once"


def test_dm_controls_own_pictures_have_the_colors() -> None:
    first, second = (pamd.make_env("walker_walk", scene=scene) for scene in ("stock", RELEASED))
    for env in (first, second):
        env.reset()
    one, other = (env.unwrapped.task.physics.render(84, 84, camera_id=0) for env in (first, second))
    assert 0.4 < (one != other).any(-1).mean() < 0.8


def test_only_colors_differ() -> None:
    rewards = []
    for scene in ("stock", RELEASED):
        env = pamd.make_env("cheetah_run", size=24, render="fast", scene=scene)
        env.reset()
        rewards.append([env.step(np.ones(6, np.float32))[1] for _ in range(5)])
    assert rewards[0] == rewards[1]


@pytest.mark.parametrize(
    ("method", "fidelity", "scene"),
    [
        ("dbc", "released", RELEASED),
        ("dbc-det+pamd", "released", RELEASED),
        ("simsr+pamd", "released", "stock"),
        ("mico", "released", "stock"),
        ("dbc", "paper", "stock"),
        ("simsr", "paper", "stock"),
    ],
)
def test_the_fidelity_selects_the_scene(method: str, fidelity: Any, scene: str) -> None:
    assert configure("cheetah_run", method, fidelity=fidelity).env.scene == scene


def test_the_scene_is_part_of_the_config() -> None:
    one, other = (configure("cheetah_run", "simsr", scene=scene) for scene in ("stock", RELEASED))
    assert other.env.scene == RELEASED
    assert run_name(one) != run_name(other)
    assert configure("cheetah_run", "dbc", fidelity="released", scene="stock").env.scene == "stock"


def test_scenes_are_checked() -> None:
    assert configure("toy", "dbc", fidelity="released").env.scene == "stock"
    with pytest.raises(ConfigError, match="scene must be stock, got 'released-dbc'"):
        resolve_env(EnvConfig("toy", scene=RELEASED))
    with pytest.raises(UnknownNameError, match="'released-dbc'"):
        EnvConfig("cheetah_run", scene="released-dcb")  # type: ignore[arg-type]
