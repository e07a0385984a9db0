"""The protocols of the literature: their constants, and how the camera and the colors move."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pamd.envs import make_env
from pamd.envs.config import PRESETS, distractor
from pamd.envs.distractors.scenery import View
from pamd.errors import ConfigError
from pamd.experiments import EXPERIMENTS

LEVELS = [("easy", 0.1, 4), ("medium", 0.2, 8), ("hard", 0.3, None)]


@pytest.mark.parametrize(("level", "scale", "videos"), LEVELS)
def test_levels_have_the_constants_of_the_suite(level: str, scale: float, videos: int | None) -> None:
    moving, still = distractor(f"distracting-{level}"), distractor(f"distracting-{level}-static")
    for one in (moving, still):
        assert (one.agent_color, one.camera_pose, one.train_clips) == (scale, scale, videos)
    assert (moving.source, moving.dynamic) == ("video", True)
    assert (still.source, still.dynamic) == ("image", False)


def poses(view: View, times: range) -> np.ndarray:
    for time in times:
        view._advance(time)
    return np.array(view._poses)


def test_the_walk_stays_within_its_bounds_and_its_speed() -> None:
    scale = 0.3
    walked = poses(View(distractor("distracting-hard"), np.random.default_rng(0)), range(400))
    assert np.abs(walked[:, :3]).max() <= math.pi / 2 * scale
    assert np.abs(walked[:, :3]).max() > 0.9 * math.pi / 2 * scale
    assert 0 <= walked[:, 3].min() <= walked[:, 3].max() <= 0.5 * scale
    assert np.abs(np.diff(walked, axis=0)).max() <= 0.4 * scale + 1e-12
    shifts = np.array(View(distractor("distracting-hard"), np.random.default_rng(0))._shifts)
    assert np.abs(shifts).max() <= scale
    still = View(distractor("distracting-hard-static"), np.random.default_rng(0))
    assert len(poses(still, range(50))) == 1


def test_a_pose_depends_on_the_seed_and_the_decision_only() -> None:
    one, other = (View(distractor("distracting-easy"), np.random.default_rng(7)) for _ in range(2))
    one._advance(30)
    for time in (3, 30, 5):
        other._advance(time)
    np.testing.assert_array_equal(one._poses[30], other._poses[30])
    np.testing.assert_array_equal(one._shifts[5], other._shifts[5])
    assert other._shift is other._shifts[5]


def test_the_camera_circles_the_agent() -> None:
    view = View(distractor("distracting-hard"), np.random.default_rng(1))
    geom = SimpleNamespace(objtype=5, objid=0, pos=np.array([0.0, 0.0, 1.0]))
    camera = SimpleNamespace(
        pos=np.array([0.0, -4.0, 1.0]), forward=np.array([0.0, 1.0, 0.0]), up=np.array([0.0, 0.0, 1.0])
    )
    scene = SimpleNamespace(geoms=[geom], ngeom=1, camera=[camera])
    view._orbit(0, SimpleNamespace(geom_bodyid=np.array([1])), scene)
    toward = geom.pos - camera.pos
    distance = np.linalg.norm(toward)
    np.testing.assert_allclose(np.cross(toward, camera.forward), 0, atol=1e-9)  # It still looks at the agent.
    assert 4 * (1 - 0.5 * 0.3) <= distance <= 4
    assert not np.allclose(camera.forward, [0, 1, 0])


def test_episodes_repeat_and_levels_differ() -> None:
    def frames(name: str) -> np.ndarray:
        env = make_env("cheetah_run", size=32, render="fast", distractor=name, seed=2)
        env.reset()
        seen = [env.step(np.zeros(6, np.float32))[4]["frame"] for _ in range(4)]
        state = env.state()
        again = env.restore(state)
        assert again is not None
        np.testing.assert_array_equal(again[-3:], seen[-1])
        env.close()
        return np.stack(seen)

    easy, hard = frames("distracting-easy"), frames("distracting-hard")
    assert np.mean(easy != hard) > 0.3
    np.testing.assert_array_equal(easy, frames("distracting-easy"))


def episode(name: str, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return a frame of walker_walk [size, size, 3] with the background `name`, and the mask of sky and floor."""
    env = make_env("walker_walk", size=48, render="fast", distractor=name, seed=4, **options)
    env.reset()
    frame = env.step(np.ones(6, np.float32))[4]["frame"].transpose(1, 2, 0)
    mask = env.unwrapped.task.draw_masked(48).background
    env.close()
    return frame, mask


def test_video_easy_is_video_and_video_hard_replaces_the_floor_as_well() -> None:
    plain, sky = episode("video")
    easy, _ = episode("video-easy")
    hard, both = episode("video-hard")
    np.testing.assert_array_equal(easy, plain)
    assert (sky <= both).all()
    floor = both & ~sky
    assert floor.mean() > 0.1
    np.testing.assert_array_equal(hard[~floor], easy[~floor])
    assert (hard[floor] != easy[floor]).any(-1).mean() > 0.9


def test_color_presets_tint_sky_and_floor_and_recolor_the_agent() -> None:
    clean, _ = episode("none")
    changes = {}
    for name in ("color-easy", "color-hard"):
        frame, mask = episode(name)
        change = np.abs(frame.astype(int) - clean)
        assert change[~mask].max() > 0
        changes[name] = change[mask].mean()
        assert len(np.unique(frame[mask], axis=0)) > 3  # The pattern of the floor stays visible.
    assert changes["color-hard"] > 2 * changes["color-easy"] > 0


@pytest.mark.parametrize("wrong", [{"mask": "blue"}, {"source": "none"}])
def test_a_floor_that_cannot_be_replaced(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="floor=true requires mask=segmentation and a source other than none, got"):
        distractor("video", floor=True, **wrong)


@pytest.mark.parametrize(
    ("name", "backgrounds"),
    [
        ("dmc-gb", ["color-easy", "color-hard", "video-easy", "video-hard"]),
        ("distracting-control", [f"distracting-{level}" for level, _, _ in LEVELS]),
    ],
)
def test_protocols_train_clean_and_evaluate_elsewhere(name: str, backgrounds: list[str]) -> None:
    experiment = EXPERIMENTS.get(name)
    for run in experiment.runs("paper", seeds=(0,), videos="/some/videos"):
        assert run.config.env.distractor is None
        assert [one.name for one in run.config.evaluate_on] == backgrounds
        assert run.config.decisions * (run.config.env.action_repeat or 0) == 500_000
        shown = [one.videos for one in run.config.evaluate_on if one.source == "video"]
        assert shown == ["/some/videos"] * len(shown)
        assert shown
    assert set(backgrounds) <= set(PRESETS)
