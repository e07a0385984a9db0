"""Wrappers that turn a simulator into an environment: action repeat, frame stacking and numbered episodes."""

from __future__ import annotations

import contextlib
import functools
import traceback
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import gymnasium
import numpy as np
from annotated_types import Ge
from numpy.typing import ArrayLike, NDArray

from pamd.envs.config import EnvConfig
from pamd.envs.task import DEFAULT_TIME_LIMIT, Task, episode_frames
from pamd.errors import ConfigError, PamdError, ShapeError, TaskError, TaskFailedError
from pamd.schema import LARGEST_RETURN, check_values

_Pixels = NDArray[np.uint8]
_Observation = NDArray[Any]
"""An image, uint8 [C, H, W], or a state, float32 [n]."""
_Action = NDArray[np.float32]
_Start = tuple[_Observation, dict[str, Any]]
_Step = tuple[_Observation, float, bool, bool, dict[str, Any]]


def derive_seed(seed: int, index: int) -> int:
    """Return the seed (below 2**32) of episode number `index` for the run seed `seed`."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1)[0])


@contextlib.contextmanager
def blaming(config: EnvConfig, what: str) -> Iterator[None]:
    """Turn an exception of the environment's code into a TaskFailedError with the place in that code.

    SystemExit counts as well: an environment must not end the process of its user.
    """
    try:
        yield
    except PamdError:
        raise
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise TaskFailedError(f"{config.what} {what}: {reason} ({last.filename}, line {last.lineno})") from error


class TaskEnv(gymnasium.Env[_Observation, _Action]):
    """A task as a Gymnasium environment. The observation is the newest frame, uint8 [3, H, W] or float32 [n].

    A decision repeats its action for `action_repeat` simulator frames, or fewer if the episode ends. The reward is the
    sum over these frames, and only the last frame is drawn. `info["frames"]` is the number of frames. If the task
    reports success, `info["success"]` is whether one of them had it. Whatever the simulator raises is a
    TaskFailedError.
    """

    def __init__(self, task: Task, config: EnvConfig, render_size: int | None = None) -> None:
        size, action_repeat = config.size, config.action_repeat
        assert action_repeat is not None
        self.task, self.config = task, config
        self.action_repeat = action_repeat
        self.time_limit = episode_frames(task, config)
        self.render_mode = "rgb_array"
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": max(1, round(task.frame_rate / action_repeat)),
        }
        self.observation_space = (
            gymnasium.spaces.Box(-np.inf, np.inf, (task.observation_size,), np.float32)
            if task.states
            else gymnasium.spaces.Box(0, 255, (3, size, size), np.uint8)
        )
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (task.action_size,), np.float32)
        self._render_size = size if render_size is None else render_size
        self._age, self._return = 0, 0.0
        self._closed = False

    @property
    def notice(self) -> str:
        """What a user should know before a run; "" if there is nothing."""
        if self.task.time_limit != "unknown" or self.time_limit != DEFAULT_TIME_LIMIT:
            return ""
        return (
            f"limit: {self.config.what} states no time limit, so an episode is truncated after {DEFAULT_TIME_LIMIT}"
            " simulator frames; --time-limit sets another"
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> _Start:
        super().reset(seed=seed)
        self.task.episode = (options or {}).get("episode", 0)
        self.task.run_seed = (options or {}).get("run_seed", 0)
        self._age, self._return = 0, 0.0
        with self._blaming("reset"):
            self.task.begin(int(self.np_random.integers(2**32)) if seed is None else seed)
        return self.observe(), {"frames": 0}

    def step(self, action: _Action) -> _Step:
        """Take one decision. `action` [A] is clipped to [-1, 1]."""
        action = np.clip(action, -1.0, 1.0)
        total, frames, over = 0.0, 0, False
        info: dict[str, Any] = {}
        success: bool | None = None
        while frames < self.action_repeat and not over:
            self._age += 1
            with self._blaming("step"):
                reward, terminated, truncated, info_of_frame = self.task.advance(action)
            frames += 1
            total += reward
            self._return += reward
            if not abs(self._return) <= LARGEST_RETURN:  # NaN compares as False.
                raise TaskFailedError(
                    f"{self.config.what}: the return of an episode must be a finite number of at most"
                    f" {LARGEST_RETURN:g}, got {self._return} {self._when}"
                )
            info.update(info_of_frame)
            if (reached := reported_success(info_of_frame)) is not None:
                success = bool(success) or reached
            truncated = truncated or (not terminated and self.time_limit is not None and self._age >= self.time_limit)
            over = terminated or truncated
        if success is not None:
            info["success"] = success
        return self.observe(), total, terminated, truncated, {**info, "frames": frames}

    def observe(self, draw: int = 0) -> _Observation:
        """Return the current frame. Another value of `draw` gives different noise."""
        factor, space = self.config.antialias, self.observation_space
        with self._blaming("observation"):
            frame = self.task.observe(self.config.size * factor, draw)
        assert space.shape is not None
        shape = space.shape if self.task.states else (3, factor * space.shape[1], factor * space.shape[2])
        if not isinstance(frame, np.ndarray) or frame.dtype != space.dtype or frame.shape != shape:
            got = f"{frame.dtype} {list(frame.shape)}" if isinstance(frame, np.ndarray) else type(frame).__name__
            raise ShapeError(f"{self.config.what}: an observation must be {space.dtype} {list(shape)}, got {got}")
        if self.task.states and not np.isfinite(frame).all():
            raise TaskFailedError(f"{self.config.what}: an observation has NaN or infinite values {self._when}")
        return averaged(frame, factor)

    def render(self) -> _Pixels:
        """Render the current state as RGB [H, W, 3]."""
        with self._blaming("image"):
            return self.task.draw(self._render_size)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            with self._blaming("close"):
                self.task.close()

    @property
    def _when(self) -> str:
        return f"at step {self._age} of episode {self.task.episode}"

    def _blaming(self, what: str) -> contextlib.AbstractContextManager[None]:
        return blaming(self.config, f"failed in its {what} {self._when}")


def reported_success(info: Mapping[str, Any]) -> bool | None:
    """Return whether the numbers `success` or `is_success` of a step are above 0; None if it has neither."""
    values = [info[key] for key in ("success", "is_success") if key in info]
    numbers = [value for value in values if isinstance(value, bool | int | float | np.bool_ | np.number)]
    return any(bool(number > 0) for number in numbers) if numbers else None


def averaged(picture: _Observation, factor: int) -> _Observation:
    """Downsample by the rounded mean of each square of pixels. [C, factor * H, factor * W] uint8 -> [C, H, W]"""
    if factor == 1:
        return picture
    # Sums of strided slices are several times as fast as a mean over two axes.
    rows = functools.reduce(np.add, (picture[:, k::factor].astype(np.uint32) for k in range(factor)))
    total: NDArray[np.uint32] = functools.reduce(np.add, (rows[:, :, k::factor] for k in range(factor)))
    return ((total + factor**2 // 2) // factor**2).astype(np.uint8)


class FrameStack(gymnasium.Wrapper[_Observation, _Action, _Observation, _Action]):
    """A wrapper that stacks the last `count` frames, oldest first, into [3 * count, H, W] or [n * count].

    At the start of an episode, its first frame is repeated. `info["frame"]` is the newest frame, so that a replay can
    store every frame once.
    """

    def __init__(self, env: gymnasium.Env[_Observation, _Action], count: int) -> None:
        super().__init__(env)
        frame = env.observation_space
        assert isinstance(frame, gymnasium.spaces.Box)
        low, high = (np.concatenate([bound] * count) for bound in (frame.low, frame.high))
        self.observation_space = gymnasium.spaces.Box(low, high, dtype=frame.dtype.type)
        self._count = count
        self._stack = np.zeros(low.shape, frame.dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> _Start:
        frame, info = self.env.reset(seed=seed, options=options)
        self._stack = np.concatenate([frame] * self._count)
        return self._stack.copy(), {**info, "frame": frame}

    def step(self, action: _Action) -> _Step:
        frame, reward, terminated, truncated, info = self.env.step(action)
        self._stack = np.concatenate([self._stack[len(frame) :], frame])
        return self._stack.copy(), float(reward), terminated, truncated, {**info, "frame": frame}


class Episodes(gymnasium.Wrapper[_Observation, _Action, _Observation, _Action]):
    """A wrapper that numbers the episodes.

    Seed, number and actions determine an episode, so a running episode can be saved.

    `reset()` starts the next episode, and `reset(seed=s)` starts episode 0 of seed `s`. Episodes are independent:
    episode 7 is the same whether or not episodes 0 to 6 were run.
    """

    def __init__(self, env: gymnasium.Env[_Observation, _Action], seed: int = 0) -> None:
        super().__init__(env)
        self.seed = _check_seed(seed)
        self.episode = -1
        """The number of the current episode; -1 before the first."""
        self._actions: list[list[float]] = []
        self._running = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> _Start:
        """Start the next episode and return its first observation."""
        if options:
            raise ConfigError(f"reset accepts no options: the seed must determine an episode, got {options!r}")
        if seed is not None:
            self.seed, self.episode = _check_seed(seed), -1
        return self._begin(self.episode + 1)

    def step(self, action: _Action) -> _Step:
        """Take one decision with `action` [A] in [-1, 1]."""
        if not self._running:
            raise TaskError("step was called before reset or after the end of an episode; call reset first")
        action = self._check_action(action)
        self._running = False  # If the simulator fails here, the episode cannot continue.
        step = self.env.step(action)
        self._actions.append(action.tolist())
        self._running = not (step[2] or step[3])
        return step[0], float(step[1]), step[2], step[3], step[4]

    def state(self) -> dict[str, Any]:
        """Return the running episode as plain data: seed, episode number and actions. JSON stores it exactly."""
        # float32 -> Python float -> JSON -> float32 is lossless.
        return {"seed": self.seed, "episode": self.episode, "actions": [list(action) for action in self._actions]}

    def restore(self, state: Mapping[str, Any]) -> _Observation | None:
        """Restore a `state()` bit for bit by replaying its actions, and return the observation.

        If the state was saved before the first episode, this returns None, and `reset()` must be called next.
        """
        if not isinstance(state, Mapping) or set(state) != {"seed", "episode", "actions"}:
            got = sorted(state) if isinstance(state, Mapping) else type(state).__name__
            raise TaskError(f"an environment state must have exactly the keys actions, episode and seed, got {got}")
        check_values("an environment state", Annotated[int, Ge(-1)], episode=state["episode"])
        self.seed = _check_seed(state["seed"])
        if state["episode"] < 0:
            self.episode, self._actions, self._running = -1, [], False
            return None
        observation = self._begin(state["episode"])[0]
        for number, action in enumerate(state["actions"]):
            if not self._running:
                raise TaskError(
                    f"the environment has changed or is not deterministic: the episode of the state ends after {number}"
                    f" decisions here, but the state has {len(state['actions'])}"
                )
            observation = self.step(action)[0]
        return observation

    def _begin(self, episode: int) -> _Start:
        self._running = False
        result = self.env.reset(
            seed=derive_seed(self.seed, episode), options={"episode": episode, "run_seed": self.seed}
        )
        self.episode, self._actions, self._running = episode, [], True
        return result

    def _check_action(self, action: ArrayLike) -> _Action:
        """Return a copy of the action as float32 [A]."""
        expected = self.action_space.shape
        try:
            with np.errstate(over="ignore"):  # An overflow gives infinity, which is rejected below.
                converted = np.array(action, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise TaskError(f"an action must be numbers of shape {list(expected or ())}: {error}") from None
        if converted.shape != expected:
            raise ShapeError(f"an action must be {list(expected or ())}, got {list(converted.shape)}")
        if not np.isfinite(converted).all():
            raise TaskError(f"an action must be finite, got {converted.tolist()}")
        return converted


def _check_seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ConfigError(f"seed must be a whole number of at least 0, got {seed!r}")
    return int(seed)
