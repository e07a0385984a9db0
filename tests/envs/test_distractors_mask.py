"""The background mask equals MuJoCo's segmentation, and other pixels are unchanged."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
import pytest

from pamd.envs import make_env
from pamd.envs.distractors import compose, distractor
from pamd.envs.distractors.compose import blue_mask, hue_turn, to_gray, turn_hue
from pamd.envs.distractors.task import Distracted
from pamd.envs.dmc import ACTION_REPEATS
from pamd.errors import ConfigError

SIZE = 40
TASKS = [*ACTION_REPEATS, "reacher_easy", "ball_in_cup_catch"]


class Segmenter:
    """Object numbers of every pixel, by a renderer of its own."""

    def __init__(self, simulator: Any) -> None:
        import mujoco

        self.physics = simulator.physics
        self.model, self.data = self.physics.model.ptr, self.physics.data.ptr
        self.renderer = mujoco.Renderer(self.model, SIZE, SIZE)
        self.renderer.enable_segmentation_rendering()
        self.geom = mujoco.mjtObj.mjOBJ_GEOM

    def background(self, floor: bool) -> np.ndarray:
        """Id -1, and the horizontal planes where those are background too."""
        self.renderer.update_scene(self.data, 0)
        ids, types = np.moveaxis(self.renderer.render(), 2, 0)
        planes = [i for i in range(self.model.ngeom) if self.model.geom_type[i] == 0]
        planes = [i for i in planes if self.data.geom_xmat[i][8] > 0.5]
        is_floor = np.isin(ids, planes) & (types == self.geom)
        return (ids == -1) | is_floor if floor else ids == -1

    def immovable(self) -> np.ndarray:
        """The sky and all that is fixed to the world."""
        self.renderer.update_scene(self.data, 0)
        ids = self.renderer.render()[..., 0]
        return (ids < 0) | (self.model.geom_bodyid[np.maximum(ids, 0)] == 0)


def segmented(simulator: Any, floor: bool) -> np.ndarray:
    segmenter = Segmenter(simulator)
    background = segmenter.background(floor)
    segmenter.renderer.close()
    return background


@pytest.mark.parametrize("task", [*TASKS[:3], *(pytest.param(task, marks=pytest.mark.slow) for task in TASKS[3:])])
def test_the_mask_is_the_segmentation_and_the_rest_is_the_clean_render(task: str) -> None:
    options: dict[str, Any] = {"size": SIZE, "render": "fast", "seed": 3}
    clean = make_env(task, **options)
    replaced, blended = (make_env(task, distractor=name, **options) for name in ("color", "easy"))
    envs, rng = (clean, replaced, blended), np.random.default_rng(0)
    floor = task in ("point_mass_easy", "reacher_easy")
    segmenter = Segmenter(clean.unwrapped.task)
    for _ in range(2):
        frames = [env.reset()[1]["frame"].transpose(1, 2, 0) for env in envs]
        for _ in range(2):
            simulator = clean.unwrapped.task
            truth = segmenter.background(floor)
            for shot in (simulator.draw_masked(SIZE), simulator.draw_masked(SIZE, foreground_only=True)):
                np.testing.assert_array_equal(shot.background, truth)
                np.testing.assert_array_equal(shot.frame[~truth], frames[0][~truth])
            np.testing.assert_array_equal(simulator.draw_masked(SIZE).frame, frames[0])
            assert 0.1 < truth.mean() < 1.0
            for frame in frames[1:]:
                np.testing.assert_array_equal(frame[~truth], frames[0][~truth])
                assert (frame[truth] != frames[0][truth]).any(-1).mean() > 0.9
            assert len(np.unique(frames[1][truth], axis=0)) == 1  # one color, all of it
            action = rng.uniform(-1, 1, clean.action_space.shape).astype(np.float32)
            frames = [env.step(action)[4]["frame"].transpose(1, 2, 0) for env in envs]
    segmenter.renderer.close()
    for env in envs:
        env.close()


@pytest.mark.parametrize("task", ["cheetah_run", "point_mass_easy"])
def test_standard_pictures_too(task: str) -> None:
    """Multisampled, with shadows and reflections: what is not background is still the clean render's."""
    clean, replaced = (make_env(task, size=SIZE, distractor=name) for name in (None, "color"))
    frames = [env.reset()[1]["frame"].transpose(1, 2, 0) for env in (clean, replaced)]
    truth = segmented(clean.unwrapped.task, task == "point_mass_easy")
    np.testing.assert_array_equal(frames[1][~truth], frames[0][~truth])
    assert len(np.unique(frames[1][truth], axis=0)) == 1
    clean.close()
    replaced.close()


def test_what_is_transparent_keeps_the_sky_behind_it() -> None:
    env = make_env("walker_walk", size=SIZE, render="fast")
    env.reset()
    simulator = env.unwrapped.task
    simulator.physics.model.mat_rgba[:, 3] = 0.5
    simulator.physics.model.geom_rgba[:, 3] = 0.5
    truth, clean = segmented(simulator, False), simulator.draw(SIZE)
    for bare in (False, True):
        shot = simulator.draw_masked(SIZE, foreground_only=bare)
        np.testing.assert_array_equal(shot.background, truth)
        np.testing.assert_array_equal(shot.frame[~truth], clean[~truth])
    env.close()


@pytest.mark.parametrize("task", ["cheetah_run", "point_mass_easy", "reacher_easy"])
def test_a_swaying_camera_takes_the_mask_along_and_leaves_the_simulation_alone(task: str) -> None:
    still, swaying = (make_env(task, size=SIZE, render="fast", distractor=name) for name in ("color", "hard"))
    still.reset()
    swaying.reset()
    simulator: Distracted = swaying.unwrapped.task
    turned = 0
    for _ in range(4):
        action = still.action_space.sample()
        assert still.step(action)[1] == swaying.step(action)[1]
        # Two ways to the same picture and mask, now that the horizon is tilted: by depths, and by segmentation.
        quick, bare = simulator.draw_masked(SIZE), simulator.draw_masked(SIZE, foreground_only=True)
        simulator.inner._camera._fast = False
        sure = simulator.draw_masked(SIZE, _plain)
        simulator.inner._camera._fast = True
        np.testing.assert_array_equal(quick.background, sure.background)
        np.testing.assert_array_equal(bare.background, sure.background)
        np.testing.assert_array_equal(quick.frame, sure.frame)
        np.testing.assert_array_equal(bare.frame[~sure.background], sure.frame[~sure.background])
        turned += int((sure.background != still.unwrapped.task.draw_masked(SIZE).background).any())
    assert turned
    np.testing.assert_array_equal(simulator.physics.state(), still.unwrapped.task.physics.state())
    still.close()
    swaying.close()


def _plain(model: Any, scene: Any) -> None:
    """As `render=fast` has it."""
    import mujoco

    scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
    scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False


def test_agent_colors_change_by_episode_and_only_on_what_moves() -> None:
    config = distractor("none", agent_color=0.5)
    plain, colored = (make_env("cheetah_run", size=SIZE, render="fast", distractor=d) for d in (None, config))
    seen, segmenter = [], Segmenter(plain.unwrapped.task)
    for _ in range(2):
        one, other = (env.reset()[1]["frame"].transpose(1, 2, 0) for env in (plain, colored))
        ground = segmenter.immovable()
        np.testing.assert_array_equal(one[ground], other[ground])
        assert (one[~ground] != other[~ground]).any(-1).mean() > 0.8
        seen.append(other[~ground].mean(0))
    assert np.abs(seen[0] - seen[1]).max() > 5
    segmenter.renderer.close()
    plain.close()
    colored.close()


def test_the_toy_knows_its_background_and_gymnasium_says_what_it_cannot() -> None:
    clean, replaced = (make_env("toy:goal", size=SIZE, distractor=name) for name in (None, "color"))
    one, other = (env.reset()[1]["frame"].transpose(1, 2, 0) for env in (clean, replaced))
    mask = clean.unwrapped.task.draw_masked(SIZE).background
    assert (one[mask] == (30, 40, 90)).all()
    np.testing.assert_array_equal(one[~mask], other[~mask])
    assert len(np.unique(other[mask], axis=0)) == 1
    with pytest.raises(ConfigError, match="jitter"):
        make_env("toy", size=SIZE, distractor="hard").reset()
    blue = make_env("gym:InvertedPendulum-v5", size=SIZE, distractor="released-video")
    assert blue.reset()[0].shape == (9, SIZE, SIZE)
    with pytest.raises(ConfigError, match="mask=blue"):
        make_env("gym:InvertedPendulum-v5", size=SIZE, distractor="video").reset()


def test_the_released_rule_is_a_color_rule() -> None:
    clean, replaced = (make_env("cheetah_run", size=SIZE, distractor=d) for d in (None, "released-video"))
    one, other = (env.reset()[1]["frame"].transpose(1, 2, 0).astype(int) for env in (clean, replaced))
    blue = (one[..., 2] > one[..., 1]) & (one[..., 2] > one[..., 0])
    np.testing.assert_array_equal(one[~blue], other[~blue])
    np.testing.assert_array_equal(other[blue][:, 0], other[blue][:, 2])  # gray
    assert blue.mean() > segmented(clean.unwrapped.task, False).mean()  # it takes the floor as well
    clean.close()
    replaced.close()


def test_compose_is_pure_and_blends() -> None:
    rng = np.random.default_rng(0)
    frame, background = rng.integers(0, 256, (2, 7, 7, 3), dtype=np.uint8)
    mask = rng.random((7, 7)) < 0.5
    before = frame.copy()
    half = compose(frame, mask, background, 0.5)
    np.testing.assert_array_equal(frame, before)
    np.testing.assert_array_equal(half[~mask], frame[~mask])
    mean = (frame[mask].astype(float) + background[mask]) / 2
    assert np.abs(half[mask] - mean).max() <= 0.5
    np.testing.assert_array_equal(compose(frame, mask, background, 0.0), frame)
    np.testing.assert_array_equal(compose(frame, mask, background)[mask], background[mask])


def test_hues_turn_and_grays_stay() -> None:
    primary = np.zeros((1, 3, 3), np.uint8)
    primary[0, range(3), range(3)] = 255
    third = turn_hue(primary, hue_turn(2 * np.pi / 3))
    np.testing.assert_array_equal(third, primary[:, [1, 2, 0]])
    gray = np.full((2, 2, 3), 77, np.uint8)
    for angle in np.linspace(-np.pi, np.pi, 7):
        assert np.abs(turn_hue(gray, hue_turn(angle)).astype(int) - 77).max() <= 1
    np.testing.assert_array_equal(to_gray(gray), gray)
    np.testing.assert_array_equal(blue_mask(primary), [[False, False, True]])


def test_hue_is_the_distractors_alone() -> None:
    plain = distractor("video")
    shifted = dataclasses.replace(plain, hue=1.0)
    one, other = (make_env("cheetah_run", size=SIZE, render="fast", distractor=d) for d in (plain, shifted))
    differ = 0
    for _ in range(4):
        a, b = (env.reset()[1]["frame"].astype(int) for env in (one, other))
        mask = one.unwrapped.task.draw_masked(SIZE).background
        # Turning keeps the mean of the channels, but for what is clipped: the same clip, the same frame.
        assert np.median(np.abs(a.mean(0) - b.mean(0))[mask]) <= 2
        differ += int((a != b)[:, mask].any())
    assert differ >= 2
    one.close()
    other.close()


@pytest.mark.parametrize("render", ["fast", "standard"])
def test_the_mask_of_sky_and_floor_is_the_segmentation(render: Literal["fast", "standard"]) -> None:
    env = make_env("cheetah_run", size=SIZE, render=render, seed=3, distractor="video-hard")
    env.reset()
    truth = segmented(env.unwrapped.task, floor=True)
    assert truth.mean() > segmented(env.unwrapped.task, floor=False).mean() + 0.1
    for foreground_only in (False, True):
        shot = env.unwrapped.task.draw_masked(SIZE, foreground_only=foreground_only)
        np.testing.assert_array_equal(shot.background, truth)
    env.close()
