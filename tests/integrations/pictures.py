"""A cheap pixel environment, and a policy that is small enough for hundreds of updates per second."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

import pamd
from pamd.integrations.sb3 import with_metric

ALGORITHMS = {"SAC": SAC, "TD3": TD3, "DQN": DQN, "PPO": PPO}
METHOD = pamd.method("simsr+pamd", transition={"members": 2}, latent_dim=6)


class Pictures(gymnasium.Env[np.ndarray, Any]):
    """A bright column [3, 12, 12] to move; reward 1 in the middle; the border terminates, step 9 truncates."""

    def __init__(self, discrete: bool = False) -> None:
        self.observation_space = spaces.Box(0, 255, (3, 12, 12), np.uint8)
        self.action_space = spaces.Discrete(3) if discrete else spaces.Box(-2.0, 2.0, (1,), np.float32)
        self.column, self.age = 6, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.column, self.age = int(self.np_random.integers(2, 10)), 0
        return self._picture(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        discrete = isinstance(self.action_space, spaces.Discrete)
        self.column += int(action) - 1 if discrete else int(np.sign(np.round(action[0])))
        self.age += 1
        terminated = self.column in (0, 11)
        return self._picture(), float(4 <= self.column < 8), terminated, self.age >= 9 and not terminated, {}

    def _picture(self) -> np.ndarray:
        picture = np.full((3, 12, 12), 20, np.uint8)
        picture[:, :, self.column] = 200
        return picture


class TinyCNN(BaseFeaturesExtractor):
    """ReLU features, as NatureCNN's are, from 12 x 12 pictures."""

    def __init__(self, observation_space: spaces.Box, features_dim: int = 8) -> None:
        super().__init__(observation_space, features_dim)
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 4, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(36, features_dim), nn.ReLU()
        )

    def forward(self, observations: Tensor) -> Tensor:
        return self.layers(observations)


def options(name: str, **changes: Any) -> dict[str, Any]:
    """Small buffers and networks for an algorithm; `changes` win."""
    small: dict[str, Any] = {"seed": 0, "device": "cpu", "batch_size": 8, "policy_kwargs": {"net_arch": [16]}}
    if name == "PPO":
        small |= {"n_steps": 16, "n_epochs": 2, "policy_kwargs": {"net_arch": {"pi": [16], "vf": [16]}}}
    else:
        small |= {"buffer_size": 200, "learning_starts": 8}
    if name == "DQN":
        small |= {"train_freq": 1, "target_update_interval": 5}
    return small | changes


def make(
    name: str, policy: str = "CnnPolicy", *, plain: bool = False, env: Any = None, method: Any = METHOD, **changes: Any
) -> Any:
    """A small model: plain SB3, or with the metric. `changes` may hold options of both."""
    own = {key: changes.pop(key) for key in ("weight", "extra_passes", "learning_rate") if key in changes}
    settings = options(name, **changes)
    if policy == "CnnPolicy":
        settings["policy_kwargs"] = {"features_extractor_class": TinyCNN, **settings["policy_kwargs"]}
    cls = ALGORITHMS[name] if plain else with_metric(ALGORITHMS[name], method, **own)
    return cls(policy, Pictures(name == "DQN") if env is None else env, **settings)


def same(first: Any, second: Any) -> bool:
    """Whether two models have the same policy parameters, target networks included, bit for bit."""
    left, right = first.policy.state_dict(), second.policy.state_dict()
    return left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in left)
