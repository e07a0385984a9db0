"""Many copies of an environment, each in a process of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from pamd import errors
from pamd.envs.config import EnvConfig
from pamd.envs.wrappers import Action, Episodes, Pixels, derive_seed

__all__ = ["Workers"]

GOODBYE_SECONDS = 5.0
"""How long a worker may take to close before it is ended."""


class Workers(VectorEnv[Pixels, Action, NDArray[Any]]):
    """`count` copies of one environment; observations uint8 [N, C, H, W], actions float32 [N, A].

    Copy i has a seed derived from (seed, i). Episodes follow each other within the step (Gymnasium's SAME_STEP): where
    one ended, the observation is already the next one's first, what the ending step showed is in
    `infos["final_obs"][i]` and its `frame` and `frames` are in `infos["final_info"]`. So every step of every copy is a
    decision, and `states()` needs nothing but the copies' own states.

    Workers are spawned, never forked: an OpenGL context does not survive a fork. If one fails or dies, the call that
    notices ends them all and raises. (Gymnasium's AsyncVectorEnv would build one more environment in this process,
    cannot send each copy its own state, and does not close once a worker is gone.)
    """

    def __init__(self, config: EnvConfig, count: int, seed: int, render_size: int | None = None) -> None:
        self._what = config.what
        self.num_envs = count
        self.processes: list[Any] = []
        self._pipes: list[Connection] = []
        context = multiprocessing.get_context("spawn")
        for index in range(count):
            here, there = context.Pipe()
            arguments = (there, config, derive_seed(seed, index), render_size)
            process = context.Process(target=_serve, args=arguments, name=f"{config.task}-{index}", daemon=True)
            process.start()
            there.close()  # Else the death of the worker would not be seen at this end.
            self.processes.append(process)
            self._pipes.append(here)
        spaces = self._ask_all("describe")[0]
        self.single_observation_space, self.single_action_space, metadata = spaces
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)
        self.metadata = {**metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.render_mode = "rgb_array"

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Pixels, dict[str, Any]]:
        """The next episode of every copy; with a seed, episode 0 of copy i under the seed derived from (seed, i)."""
        if seed is None or isinstance(seed, (int, np.integer)):
            seeds = [None if seed is None else derive_seed(int(seed), index) for index in range(self.num_envs)]
        else:
            seeds = list(seed)
        results = self._ask("reset", [(one, options) for one in seeds])
        return np.stack([observation for observation, _ in results]), self._merged([info for _, info in results])

    def step(
        self, actions: Action
    ) -> tuple[Pixels, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """actions: [N, A] in [-1, 1]."""
        observations, rewards, terminated, truncated, infos = zip(
            *self._ask("step", [(action,) for action in actions]), strict=True
        )
        return (
            np.stack(observations),
            np.array(rewards, np.float64),
            np.array(terminated, np.bool_),
            np.array(truncated, np.bool_),
            self._merged(infos),
        )

    def render(self) -> tuple[Pixels, ...]:
        """The present state of every copy as RGB [H, W, 3]."""
        return tuple(self._ask_all("render"))

    def states(self) -> list[dict[str, Any]]:
        """Every copy's `Episodes.state()`, in order."""
        return self._ask_all("state")

    def restore(self, states: Sequence[Mapping[str, Any]]) -> Pixels | None:
        """Bring every copy to where its state was taken; observations uint8 [N, C, H, W], or None before the first."""
        observations = self._ask("restore", [(state,) for state in states])
        return None if any(observation is None for observation in observations) else np.stack(observations)

    def close_extras(self, **kwargs: Any) -> None:
        for pipe in self._pipes:
            with contextlib.suppress(OSError):  # It may be gone already.
                pipe.send(None)
        for process, pipe in zip(self.processes, self._pipes, strict=True):
            process.join(GOODBYE_SECONDS)
            self._end(process, pipe)

    def _merged(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for index, info in enumerate(infos):
            merged = self._add_info(merged, info, index)
        return merged

    def _ask_all(self, command: str) -> list[Any]:
        return self._ask(command, [()] * self.num_envs)

    def _ask(self, command: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Every worker's answer to `command` with its own arguments; they all work at the same time."""
        if self.closed:
            raise errors.TaskError(f"{self._what}: {command} was called after its workers were closed")
        count = self.num_envs
        if len(arguments) != count:
            raise errors.ShapeError(f"{self._what}: {command} takes one entry per copy, {count}, got {len(arguments)}")
        for index, own in enumerate(arguments):
            try:
                self._pipes[index].send((command, own))
            except OSError:
                self._bury(index)
        answers = [self._receive(index) for index in range(count)]
        for index, (failure, answer) in enumerate(answers):
            if failure is not None:
                self._give_up(failure, f"{answer} (in worker {index} of {count})")
        return [answer for _, answer in answers]

    def _receive(self, index: int) -> Any:
        try:
            return self._pipes[index].recv()
        except (EOFError, OSError):
            self._bury(index)

    def _bury(self, index: int) -> NoReturn:
        dead = self.processes[index]
        dead.join(1.0)  # The pipe closes a little before the exit code is there.
        died = f"worker {index} of {self.num_envs} died (exit code {dead.exitcode})"
        self._give_up("TaskError", f"{self._what}: {died}")

    def _give_up(self, failure: str, message: str) -> NoReturn:
        """End all workers: after a failure they no longer stand at the same step."""
        for process, pipe in zip(self.processes, self._pipes, strict=True):
            self._end(process, pipe)
        self.closed = True
        kind = getattr(errors, failure, errors.TaskError)
        error: Exception = kind.__new__(kind)
        Exception.__init__(error, message)  # Some of our errors compose their own message from parts.
        raise error

    @staticmethod
    def _end(process: Any, pipe: Connection) -> None:
        pipe.close()
        if process.is_alive():
            process.terminate()
        process.join()


def _serve(pipe: Connection, config: EnvConfig, seed: int, render_size: int | None) -> None:
    """A worker: commands in, (None, answer) or (name of the error, message) out, until None or the end of the pipe."""
    from pamd.envs import build_env

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which then closes this one.
    env: Episodes | None = None
    with contextlib.suppress(EOFError, OSError):
        while (request := pipe.recv()) is not None:
            command, arguments = request
            try:
                env = env or build_env(config, seed=seed, render_size=render_size)
                answer = _answer(env, command, arguments)
            except Exception as error:  # Whatever it is, it is the main process that must hear of it.
                pipe.send((type(error).__name__, f"{type(error).__name__}: {error}"))
                continue
            pipe.send((None, answer))
    if env is not None:
        env.close()


def _answer(env: Episodes, command: str, arguments: tuple[Any, ...]) -> Any:
    if command == "describe":
        return env.observation_space, env.action_space, env.metadata
    if command == "reset":
        return env.reset(seed=arguments[0], options=arguments[1])
    if command != "step":
        return getattr(env, command)(*arguments)
    observation, reward, terminated, truncated, info = env.step(*arguments)
    if terminated or truncated:
        final = {"final_obs": observation, "final_info": info}
        observation, info = env.reset()
        info = {**info, **final}
    return observation, reward, terminated, truncated, info
