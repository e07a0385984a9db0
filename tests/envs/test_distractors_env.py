"""Environments with distractors are deterministic per seed and episode, and can be resumed bit for bit."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.envs.clip_files import which_clip, write_clips

from pamd.envs import EnvConfig, build_env, make_env, prepare_env
from pamd.envs.distractors import PRESETS, DistractorConfig, compose, distractor
from pamd.envs.distractors.scenery import Scenery
from pamd.envs.distractors.task import Distracted
from pamd.envs.wrappers import derive_seed
from pamd.errors import ConfigError

SIZE = 24


def config(background: DistractorConfig, task: str = "cheetah_run", **options: Any) -> EnvConfig:
    return prepare_env(EnvConfig(task, size=SIZE, render="fast", distractor=background, **options))


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clips(tmp_path_factory.mktemp("videos"), 6)


@pytest.mark.parametrize("name", PRESETS)
def test_state_and_restore_are_exact(name: str, videos: Path) -> None:
    shows = PRESETS[name].options.get("source", "video") in ("video", "image")
    fewer = 4 if PRESETS[name].options.get("train_clips") else None  # There are six clips.
    made = config(distractor(name, videos=videos if shows else None, train_clips=fewer))
    one, rng = build_env(made, seed=5), np.random.default_rng(0)
    one.reset()
    one.reset()
    actions = rng.uniform(-1, 1, (6, 6)).astype(np.float32)
    for action in actions[:3]:
        here = one.step(action)[0]
    state = json.loads(json.dumps(one.state()))
    later = [one.step(action)[0] for action in actions[3:]]
    after = one.reset()[0]
    other = build_env(made, seed=99)
    np.testing.assert_array_equal(other.restore(state), here)
    for action, expected in zip(actions[3:], later, strict=True):
        np.testing.assert_array_equal(other.step(action)[0], expected)
    np.testing.assert_array_equal(other.reset()[0], after)
    one.close()
    other.close()


def test_the_seed_fixes_the_distractor_and_another_changes_it(videos: Path) -> None:
    made = config(distractor("paper-video", videos=videos), task="toy")
    seen = {seed: [build_env(made, seed=seed).reset()[0] for _ in range(2)] for seed in range(4)}
    for one, other in seen.values():
        np.testing.assert_array_equal(one, other)
    assert len({one.tobytes() for one, _ in seen.values()}) == 4


def test_every_episode_has_a_clip_of_its_own_and_every_decision_a_frame(videos: Path) -> None:
    env = build_env(config(distractor("video", videos=videos), task="toy"))
    shown, frames = set(), []
    for _ in range(12):
        shown.add(which_clip(env.reset()[1]["frame"], 6))
    for _ in range(5):
        frames.append(env.step(np.zeros(2, np.float32))[4]["frame"])
    assert 3 <= len(shown) <= 5  # five clips are for training
    assert all((one != other).any() for one, other in itertools.pairwise(frames))


def test_no_clip_of_training_is_ever_unseen(videos: Path) -> None:
    train = config(distractor("video", videos=videos), task="toy")
    background = train.distractor
    assert background is not None
    unseen = dataclasses.replace(train, distractor=dataclasses.replace(background, split="unseen"))
    shown = []
    for made in (train, unseen):
        env = build_env(made)
        shown.append({which_clip(env.reset()[1]["frame"], 6) for _ in range(40)})
    assert shown[0] | shown[1] == set(range(6))
    assert not shown[0] & shown[1]


def clip(value: int, count: int) -> np.ndarray:
    """Frame n is of the gray `value + n`."""
    return (value + np.arange(count, dtype=np.uint8))[:, None, None, None] * np.ones((1, 4, 4, 3), np.uint8)


def played(scenery: Scenery, count: int) -> list[int]:
    return [int(scenery.frame(time, 4)[0, 0, 0]) for time in range(count)]


def test_playback_directions() -> None:
    shown = {}
    for playback in ("forward", "backward", "either"):
        scenery = Scenery(DistractorConfig(playback=playback), [clip(0, 10)], 4, 20)
        shown[playback] = []
        for seed in range(8):
            scenery.begin(seed, 0)
            shown[playback].append(np.diff(played(scenery, 12)) % 10)
    assert all((steps == 1).all() for steps in shown["forward"])
    assert all((steps == 9).all() for steps in shown["backward"])
    assert {int(steps[0]) for steps in shown["either"]} == {1, 9}


def test_a_continuous_video_runs_on_across_episodes() -> None:
    background = DistractorConfig(sequence="continuous", frames=25)
    scenery = Scenery(background, [clip(0, 10), clip(100, 10), clip(200, 10)], 4, 6)
    shown = []
    for episode in range(4):
        scenery.begin(derive_seed(0, episode), episode)
        shown += played(scenery, 7)
    video = [*range(10), *range(100, 110), *range(200, 205)]
    assert shown == (video * 2)[:28]


def test_the_released_video_goes_on_where_the_last_episode_ended(videos: Path) -> None:
    env = build_env(config(distractor("released-video", videos=videos), time_limit=12))
    task: Distracted = env.unwrapped.task
    env.reset()
    over = False
    while not over:
        *_, over, _ = env.step(env.action_space.sample())
    scenery = task._scenery("train", 0)
    following = scenery.frame(task.decision + 1, SIZE)
    env.reset()
    np.testing.assert_array_equal(scenery.frame(0, SIZE), following)
    env.close()


def test_an_image_stands_still_and_noise_does_not() -> None:
    still = Scenery(DistractorConfig(source="image"), [clip(0, 10)], 4, 20)
    still.begin(3, 0)
    assert len(set(played(still, 6))) == 1
    noise = Scenery(DistractorConfig(source="noise", noise=0.1), [], 64, 20)
    noise.begin(3, 0)
    one, other = noise.frame(0, 64).astype(float), noise.frame(1, 64).astype(float)
    assert abs(one.mean() - 127) < 2
    assert abs(one.std() - 25.5) < 1
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.05
    np.testing.assert_array_equal(noise.frame(0, 64), one)  # a function of the decision, asked in any order


def test_one_state_before_two_backgrounds(videos: Path) -> None:
    """What a diagnostic of robustness needs."""
    env = build_env(config(distractor("paper-video", videos=videos)))
    env.reset()
    info = env.step(env.action_space.sample())[4]
    task: Distracted = env.unwrapped.task
    before = task.physics.state().copy()
    train, unseen = task.draw_on_clip("train", SIZE), task.draw_on_clip("unseen", SIZE)
    np.testing.assert_array_equal(train.transpose(2, 0, 1), info["frame"])
    frame, mask = task.draw_masked(SIZE)
    np.testing.assert_array_equal(train[~mask], unseen[~mask])
    assert (train[mask] != unseen[mask]).any()
    own = np.full_like(frame, 200)
    np.testing.assert_array_equal(compose(frame, mask, own)[~mask], train[~mask])
    np.testing.assert_array_equal(task.physics.state(), before)
    np.testing.assert_array_equal(task.draw(SIZE), train)
    env.close()


def test_a_video_shows_the_distractor(videos: Path) -> None:
    env = make_env("toy", size=SIZE, render_size=3 * SIZE, distractor="video", videos=videos)
    frame = env.reset()[1]["frame"].transpose(1, 2, 0)
    video = env.unwrapped.render()
    np.testing.assert_array_equal(video[0, ::3], frame[0])


def test_the_dynamics_are_untouched(videos: Path) -> None:
    envs = [make_env("toy", size=SIZE, distractor=name, videos=name and videos) for name in (None, "video")]
    for env in envs:
        env.reset()
    for _ in range(40):
        action = envs[0].action_space.sample()
        one, other = (env.step(action)[1:4] for env in envs)
        assert one == other


def test_videos_without_a_distractor_are_a_slip() -> None:
    with pytest.raises(ConfigError, match="require a distractor"):
        make_env("toy", videos="somewhere")
