"""Evaluation of the policy's mode in a separate environment with separate seeds, and videos of it."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from pamd import atomic_io
from pamd.agent import Agent
from pamd.envs import EnvConfig, build_env, unseen
from pamd.errors import ResourceError
from pamd.representation.meters import denoising_factors

if TYPE_CHECKING:
    from pamd.envs.wrappers import Episodes

EVALUATION = 1_000_003
"""The number added to a run's seed for evaluation. All methods use the same episodes, and so does every evaluation
unless `evaluate_starts` is "new"."""

_VIDEO_SIZE = 240

_VIEWS = 128
"""The maximum number of states for the denoising factors."""
_VIEW_EVERY = 5
"""The number of decisions between these states."""

_Video = list[NDArray[np.uint8]]


def evaluate(
    agent: Agent,
    env_config: EnvConfig,
    seed: int,
    episodes: int,
    *,
    first_episode: int = 0,
    record: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[dict[str, Any], _Video]:
    """Return a row with the returns of `episodes` episodes and, if `record`, the frames [H, W, 3] of the first.

    If the task reports success, the row has `successes`: whether each episode had it in one of its steps.

    With a video distractor or noise dimensions, episodes are played twice: first as in training, then with videos or a
    noise mean that training never uses. The second results have keys that begin with `unseen_`. The second recording
    follows the first. With noise, the row includes the denoising factors. `stop` is called after every decision. If it
    returns True, the row is empty. The number of an episode determines its start state. `first_episode` is the number
    of the first one.
    """
    numbers = range(first_episode, first_episode + episodes)
    row, frames = _play(agent, env_config, seed, numbers, record, stop)
    other_config = unseen(env_config)
    if not row or other_config is None:
        return row, frames
    other, more = _play(agent, other_config, seed, numbers, record, stop)
    if not other:
        return {}, []
    clips = {} if env_config.distractor is None else {"clips": env_config.distractor.split}
    return {**row, **clips, **{f"unseen_{key}": value for key, value in other.items()}}, frames + more


class _TwoViews:
    """The same states with two noise samples each, for the denoising factors."""

    def __init__(self, env: Episodes) -> None:
        self._env: Any = env.unwrapped
        stack = env.observation_space.shape[0] // env.unwrapped.observation_space.shape[0]  # type: ignore[index]
        self._newest: deque[NDArray[Any]] = deque(maxlen=stack)
        self._pairs: list[tuple[NDArray[Any], NDArray[Any]]] = []

    def look(self, obs: NDArray[Any], decision: int) -> None:
        """Record every `_VIEW_EVERY`th observation of an episode, and the same state with different noise."""
        frame = self._env.observe(draw=1)
        self._newest.extend([frame] * (self._newest.maxlen or 1) if decision == 0 else [frame])
        if decision % _VIEW_EVERY == 0 and len(self._pairs) < _VIEWS:
            self._pairs.append((obs, np.concatenate(list(self._newest))))

    def factors(self, agent: Agent) -> dict[str, float]:
        """Compute the denoising factors of the agent's representation. Returns {} for fewer than two states."""
        if len(self._pairs) < 2:
            return {}
        obs, other = (torch.as_tensor(np.stack(view), device=agent.device) for view in zip(*self._pairs, strict=True))
        return denoising_factors(agent.measured, obs, other)


def _play(
    agent: Agent, env_config: EnvConfig, seed: int, numbers: range, record: bool, stop: Callable[[], bool]
) -> tuple[dict[str, Any], _Video]:
    from pamd.envs.wrappers import reported_success

    env = build_env(env_config, seed=seed + EVALUATION, render_size=_VIDEO_SIZE)
    returns: list[float] = []
    lengths: list[int] = []
    successes: list[bool | None] = []
    frames: _Video = []
    views = None if env_config.noise is None else _TwoViews(env)
    env.episode = numbers.start - 1
    try:
        for episode in numbers:
            obs, _ = env.reset()
            total, length, over = 0.0, 0, False
            success: bool | None = None
            while not over:
                if views is not None:
                    views.look(obs, length)
                if record and episode == numbers.start:
                    frames.append(env.unwrapped.render())  # type: ignore[arg-type]
                obs, reward, terminated, truncated, info = env.step(agent.act(obs, explore=False))
                total, length, over = total + float(reward), length + 1, terminated or truncated
                if (reached := reported_success(info)) is not None:
                    success = bool(success) or reached
                if stop():
                    return {}, []
            returns.append(total)
            lengths.append(length)
            successes.append(success)
    finally:
        env.close()
    row = {
        "return_mean": float(np.mean(returns)),
        "return_std": float(np.std(returns)),
        "returns": returns,
        "length_mean": float(np.mean(lengths)),
        **({} if set(successes) == {None} else _success(list(map(bool, successes)))),
        **({} if views is None else views.factors(agent)),
    }
    return row, frames


def _success(successes: list[bool]) -> dict[str, Any]:
    return {"success_mean": float(np.mean(successes)), "successes": successes}


def write_video(path: Path, frames: list[NDArray[np.uint8]], rate: int) -> None:
    """Encode RGB frames [H, W, 3] as H.264. The file is written atomically."""
    import av

    temporary = path.with_name(f".{path.stem}.{os.getpid()}.mp4")
    height, width = frames[0].shape[:2]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Use a temporary file: opening the path directly would follow a link.
        with atomic_io.open_file(temporary, "wb") as file, av.open(file, "w", format="mp4") as container:
            stream = container.add_stream("libx264", rate=rate)
            # H.264 requires an even width and height. If one is odd, the last column or row is dropped.
            stream.width, stream.height, stream.pix_fmt = width // 2 * 2, height // 2 * 2, "yuv420p"
            # On some processors, fast paths of the encoder read memory that nothing wrote. Then equal frames differ.
            stream.options = {"x264-params": "cpu-independent=1"}
            for image in frames:
                picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(image[: stream.height, : stream.width]))
                container.mux(stream.encode(picture))
            container.mux(stream.encode())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise ResourceError(f"cannot write the video {path}: {error}") from None
