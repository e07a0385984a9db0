"""PPO rollouts that also store next observations and unmodified rewards for the metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from torch import Tensor

from pamd.integrations.sb3.metric import Transitions


class StepRecorder(VecEnvWrapper):
    """Records the last step, before PPO adds the bootstrap value to the reward at a time limit."""

    def __init__(self, env: VecEnv) -> None:
        super().__init__(env)
        self.next_obs: NDArray[Any] = np.zeros(0)
        """[N, ...]: the observation after the action, not the first one of the next episode"""
        self.rewards: NDArray[np.float32] = np.zeros(0, np.float32)
        """[N]"""
        self.terminated: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """[N]: False at a time limit"""

    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> Any:
        obs, rewards, dones, infos = self.venv.step_wait()
        assert isinstance(obs, np.ndarray)
        self.next_obs, self.rewards = obs.copy(), np.array(rewards, np.float32)
        cut = [bool(info.get("TimeLimit.truncated", False)) for info in infos]
        self.terminated = np.asarray(dones, np.bool_) & ~np.array(cut)
        for index in np.flatnonzero(dones):
            self.next_obs[index] = infos[index]["terminal_observation"]
        return obs, rewards, dones, infos


class TransitionRolloutBuffer(RolloutBuffer):
    """A rollout buffer that stores complete transitions and reports the transitions of each minibatch."""

    recorder: StepRecorder | None = None
    """The source of the transitions during rollout collection."""
    on_sample: Callable[[Transitions], None] | None = None
    """Called with the transitions of every minibatch."""

    def reset(self) -> None:
        super().reset()
        rows = (self.buffer_size, self.n_envs)
        self.next_observations = np.zeros((*rows, *self.obs_shape), dtype=self.observation_space.dtype)
        self.own_rewards = np.zeros(rows, np.float32)
        self.not_done = np.ones(rows, np.float32)

    def add(self, *args: Any, **kwargs: Any) -> None:
        recorder, row = self.recorder, self.pos
        assert recorder is not None
        super().add(*args, **kwargs)
        self.next_observations[row] = recorder.next_obs
        self.own_rewards[row] = recorder.rewards
        self.not_done[row] = 1 - recorder.terminated

    def _get_samples(self, batch_inds: NDArray[Any], env: Any = None) -> RolloutBufferSamples:
        samples = super()._get_samples(batch_inds, env)
        if self.on_sample is not None:
            self.on_sample(self._transitions(samples, batch_inds))
        return samples

    def _transitions(self, samples: RolloutBufferSamples, batch_inds: NDArray[Any]) -> Transitions:
        # Minibatch indices are grouped by environment, whereas the rows here are ordered by time.
        number, step = np.divmod(batch_inds, self.buffer_size)
        return Transitions(
            obs=samples.observations,
            action=self._env_actions(samples.actions),
            reward=self.to_torch(self.own_rewards[step, number]),
            next_obs=self.to_torch(self.next_observations[step, number]),
            not_done=self.to_torch(self.not_done[step, number]),
        )

    def _env_actions(self, actions: Tensor) -> Tensor:
        """Convert the policy's actions to the actions of the environment: [B, A], or [B] int64 if discrete."""
        if isinstance(self.action_space, spaces.Discrete):
            return actions.long().flatten()
        assert isinstance(self.action_space, spaces.Box)
        low, high = (self.to_torch(bound.reshape(-1)) for bound in (self.action_space.low, self.action_space.high))
        return torch.clamp(actions, low, high)
