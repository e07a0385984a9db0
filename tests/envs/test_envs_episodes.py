"""An episode is determined by (seed, number) and its actions, and can be resumed bit for bit."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pamd.envs import FAMILIES, EnvConfig, Outcome, Task, make_env
from pamd.envs.wrappers import Episodes, derive_seed
from pamd.errors import ConfigError, ShapeError, TaskError

RESUMED = [
    "cheetah_run",
    "finger_spin",
    "reacher_easy",
    "point_mass_hard",
    "quadruped_escape",
    "toy:goal",
    "gym:InvertedPendulum-v5",
]


def build(task: str, seed: int = 5) -> Episodes:
    return make_env(task, size=20, render="fast", seed=seed)


def actions(env: Episodes, count: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).uniform(-1, 1, (count, *env.action_space.shape)).astype(np.float32)  # type: ignore[misc]


def play(env: Episodes, moves: Any) -> list[Any]:
    """What each move brings, as plain data; the next episode where one ends."""
    seen: list[Any] = []
    for move in moves:
        observation, reward, terminated, truncated, info = env.step(np.asarray(move, np.float32))
        pixels = hashlib.sha256(observation.tobytes() + info["frame"].tobytes()).hexdigest()
        seen.append([pixels, reward, terminated, truncated, info["frames"]])
        if terminated or truncated:
            env.reset()
    return seen


@pytest.fixture(scope="module")
def interrupted() -> dict[str, Any]:
    """Per task: the state in the middle of its second episode, the moves that follow, what they bring uninterrupted."""
    cases = {}
    for task in RESUMED:
        env = build(task)
        env.reset()
        moves = actions(env, 9)
        play(env, moves[:2])
        env.reset()
        play(env, moves[2:5])
        state = env.state()
        cases[task] = {"state": state, "moves": moves[5:].tolist(), "seen": play(env, moves[5:])}
        env.close()
    return cases


@pytest.mark.parametrize("task", RESUMED)
def test_resume_equals_no_interruption(task: str, interrupted: dict[str, Any]) -> None:
    case = json.loads(json.dumps(interrupted[task]))
    env = build(task, seed=99)
    env.reset()  # What came before in this environment must not matter, nor its own seed.
    observation = env.restore(case["state"])
    assert env.state() == case["state"]
    assert observation is not None
    assert observation in env.observation_space
    assert play(env, case["moves"]) == case["seen"]
    env.close()


def test_resume_in_a_fresh_process(interrupted: dict[str, Any]) -> None:
    code = """
import json, sys
sys.path.insert(0, sys.argv[1])
from test_envs_episodes import build, play
seen = {}
for task, case in json.load(sys.stdin).items():
    env = build(task)
    env.restore(case["state"])
    seen[task] = play(env, case["moves"])
    env.close()
json.dump(seen, sys.stdout)
"""
    command = [sys.executable, "-c", code, __file__.rpartition("/")[0]]
    done = subprocess.run(command, input=json.dumps(interrupted), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {task: case["seen"] for task, case in interrupted.items()}


def test_a_whole_run_resumes_over_the_end_of_an_episode() -> None:
    env = build("toy")
    env.reset()
    moves = actions(env, 100)
    play(env, moves[:60])
    state = json.loads(json.dumps(env.state()))
    assert (state["episode"], len(state["actions"])) == (1, 20)
    again = build("toy")
    again.restore(state)
    assert play(env, moves[60:]) == play(again, moves[60:])


def test_resume_before_the_first_and_after_the_last_step() -> None:
    env, again = build("toy"), build("toy", seed=0)
    assert again.restore(env.state()) is None
    np.testing.assert_array_equal(env.reset()[0], again.reset()[0])
    for move in actions(env, 40):
        last = env.step(move)[0]
    np.testing.assert_array_equal(again.restore(env.state()), last)
    with pytest.raises(TaskError, match="call reset"):
        again.step(np.zeros(2))
    np.testing.assert_array_equal(env.reset()[0], again.reset()[0])
    assert env.episode == again.episode == 1


def test_float32_actions_survive_json() -> None:
    env = build("toy")
    env.reset()
    moves = np.array([[0.1, -1 / 3], [1e-20, 5.0], [np.float32(0.7), -0.0]], np.float32)
    play(env, moves)
    kept = np.array(json.loads(json.dumps(env.state()))["actions"], np.float32)
    np.testing.assert_array_equal(kept.view(np.uint32), moves.view(np.uint32))


@pytest.mark.parametrize("task", ["toy", "reacher_easy", "gym:HalfCheetah-v5"])
def test_seeds(task: str) -> None:
    one, same, other = build(task, 1), build(task, 1), build(task, 2)
    first = [env.reset()[0] for env in (one, same, other)]
    np.testing.assert_array_equal(first[0], first[1])
    assert (first[0] != first[2]).any()
    second = one.reset()[0]
    assert (second != first[0]).any()
    np.testing.assert_array_equal(second, same.reset()[0])
    # A seed of Gymnasium's kind begins anew.
    np.testing.assert_array_equal(other.reset(seed=1)[0], first[0])
    assert (other.seed, other.episode) == (1, 0)
    np.testing.assert_array_equal(other.reset()[0], second)
    for env in (one, same, other):
        env.close()


def test_seeds_of_episodes_follow_the_documented_rule() -> None:
    assert derive_seed(3, 4) == np.random.SeedSequence([3, 4]).generate_state(1)[0]
    assert len({derive_seed(seed, index) for seed in range(50) for index in range(50)}) == 2500


@pytest.mark.parametrize(
    ("action", "error", "said"),
    [
        (np.zeros(3), ShapeError, r"must be \[2\], got \[3\]"),
        (np.zeros((1, 2)), ShapeError, r"must be \[2\], got \[1, 2\]"),
        (0.5, ShapeError, r"must be \[2\], got \[\]"),
        ([0.0, np.nan], TaskError, "must be finite, got"),
        ([np.inf, 0.0], TaskError, "must be finite"),
        ([1e300, 0.0], TaskError, "must be finite"),
        (["left", "right"], TaskError, r"numbers of shape \[2\]"),
        ([[0.0], [0.0, 1.0]], TaskError, r"numbers of shape \[2\]"),
        (None, ShapeError, r"must be \[2\]"),
    ],
)
def test_bad_actions_change_nothing(action: Any, error: type[Exception], said: str) -> None:
    env = build("toy")
    env.reset()
    before = env.state()
    with pytest.raises(error, match=said):
        env.step(action)
    assert env.state() == before


def test_step_needs_an_episode() -> None:
    with pytest.raises(TaskError, match="call reset first"):
        build("toy").step(np.zeros(2))


@pytest.mark.parametrize("seed", [-1, 1.5, True, "1"])
def test_bad_seeds(seed: Any) -> None:
    with pytest.raises(ConfigError, match="seed must be a whole number"):
        make_env("toy", seed=seed)
    with pytest.raises(ConfigError, match="seed must be a whole number"):
        build("toy").reset(seed=seed)


def test_reset_takes_no_options() -> None:
    env = build("toy")
    env.reset(options={})
    with pytest.raises(ConfigError, match="accepts no options"):
        env.reset(options={"position": 0})


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({}, "must have exactly"),
        ([], "got list"),
        ({"seed": 0, "episode": 0, "actions": [], "frame": 1}, "must have exactly"),
        (
            {"seed": 0, "episode": 0, "actions": [[0.0, 0.0]] * 41},
            "ends after 40 decisions here",
        ),
        ({"seed": 0, "episode": "0", "actions": []}, "episode must be"),
    ],
)
def test_states_that_do_not_fit(state: Any, said: str) -> None:
    with pytest.raises((TaskError, ConfigError), match=said):
        build("toy").restore(state)


class Clock(Task):
    """Earns the number of the frame; `clock:5` terminates after five frames. Its picture is as bright as it is old."""

    action_size = 1
    frame_rate = 60.0

    def __init__(self, name: str, config: EnvConfig) -> None:
        self._end = int(name)

    def begin(self, seed: int) -> None:
        self._age = 0

    def advance(self, action: NDArray[np.float32]) -> Outcome:
        self._age += 1
        return Outcome(float(self._age), self._age == self._end, False, {"age": self._age})

    def draw(self, size: int) -> NDArray[np.uint8]:
        return np.full((size, size, 3), self._age, np.uint8)


@pytest.fixture
def clock() -> Iterator[str]:
    FAMILIES.register("clock")(Clock)
    yield "clock:5"
    FAMILIES.unregister("clock")


def test_a_family_of_ones_own_is_one_class(clock: str) -> None:
    env = make_env(clock, size=12, frame_stack=3, action_repeat=2)
    assert env.metadata["render_fps"] == 30
    seen = [env.reset()]
    assert seen[0][0][:, 0, 0].tolist() == [0] * 9
    steps = [env.step(np.zeros(1)) for _ in range(3)]
    assert [step[1] for step in steps] == [1 + 2, 3 + 4, 5]
    assert [step[2:4] for step in steps] == [(False, False), (False, False), (True, False)]
    assert [step[4]["frames"] for step in steps] == [2, 2, 1]
    assert [step[4]["age"] for step in steps] == [2, 4, 5]
    # Frames oldest first; those that a decision skips are not drawn.
    assert steps[-1][0][::3, 0, 0].tolist() == [2, 4, 5]


def test_the_end_of_the_task_wins_over_the_clock(clock: str) -> None:
    env = make_env(clock, size=12, action_repeat=9, time_limit=5)
    env.reset()
    assert env.step(np.zeros(1))[2:4] == (True, False)
    env = make_env(clock, size=12, action_repeat=9, time_limit=4)
    env.reset()
    assert env.step(np.zeros(1))[2:4] == (False, True)
