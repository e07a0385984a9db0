"""Unsupported settings are refused with specific errors before training starts."""

from __future__ import annotations

import importlib
import importlib.metadata
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO, SAC, HerReplayBuffer
from stable_baselines3.common.buffers import NStepReplayBuffer, RolloutBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from tests.integrations.pictures import METHOD, Pictures, TinyCNN, make, options

import pamd
from pamd.errors import ConfigError, UnknownNameError
from pamd.integrations.sb3 import with_metric


class Blank(gymnasium.Env[Any, Any]):
    """An environment of any spaces, which is never stepped."""

    def __init__(self, observation: spaces.Space[Any], action: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation, action


PICTURE = spaces.Box(0, 255, (3, 12, 12), np.uint8)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"batch_size": 1}, r"batch_size must be at least 2: a pair needs two states, got 1"),
        ({"n_steps": 3}, r"n_steps=3 sums rewards over several steps.*use n_steps=1"),
        ({"replay_buffer_class": NStepReplayBuffer}, r"use n_steps=1 and a replay buffer of single steps"),
        ({"env": VecNormalize(DummyVecEnv([Pictures]), norm_obs=False)}, r"norm_reward=True.*pass norm_reward=False"),
        (
            {"policy_kwargs": {"features_extractor_class": TinyCNN, "share_features_extractor": True}},
            r"share_features_extractor=True trains the encoder by the policy's loss only.*LatentPolicy",
        ),
    ],
    ids=["batch_size", "n_steps", "n-step buffer", "VecNormalize", "shared extractor"],
)
def test_settings_of_sac_that_break_the_metric(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make("SAC", **arguments)


def test_a_batch_of_one_is_refused_only_where_states_are_paired() -> None:
    with pytest.raises(ConfigError, match="a pair needs two states"):
        make("DQN", batch_size=1)
    assert make("DQN", method=pamd.method("zp", latent_dim=6), batch_size=1).batch_size == 1


def test_an_encoder_without_parameters() -> None:
    with pytest.raises(ConfigError, match="FlattenExtractor, has no trainable parameters; use LatentPolicy"):
        make("SAC", "MlpPolicy")


def test_dict_observations() -> None:
    parts = {"observation": PICTURE, "achieved_goal": PICTURE, "desired_goal": PICTURE}
    env = Blank(spaces.Dict(parts), spaces.Box(-1, 1, (1,), np.float32))
    for more in ({}, {"replay_buffer_class": HerReplayBuffer}):
        with pytest.raises(ConfigError, match=r"dict observations \(MultiInputPolicy, HerReplayBuffer\)"):
            with_metric(SAC, METHOD)("MultiInputPolicy", env, buffer_size=10, **more)


def test_actions_that_are_neither_box_nor_discrete() -> None:
    env = Blank(PICTURE, spaces.MultiDiscrete([2, 3]))
    with pytest.raises(ConfigError, match=r"Box\) or Discrete actions, got MultiDiscrete\(\[2 3\]\)"):
        with_metric(PPO, METHOD)("LatentPolicy", env)


@pytest.mark.parametrize("name", ["taco", "mrq", "spr"])
def test_methods_that_read_windows(name: str) -> None:
    with pytest.raises(ConfigError, match=f"term '{name}' of method '{name}' reads windows of . steps.*such as 'curl'"):
        make("SAC", method=pamd.method(name, latent_dim=6))


def test_ppo_without_a_target_network_or_with_another_buffer() -> None:
    with pytest.raises(ConfigError, match="PPO has no target network, and method 'curl' reads a target copy"):
        make("PPO", method=pamd.method("curl", latent_dim=6))
    with pytest.raises(ConfigError, match="PPO has no target network, and method 'mico' reads a target copy"):
        make("PPO", method=pamd.method("mico", latent_dim=6))
    with pytest.raises(ConfigError, match="PPO has no target network"):
        make("PPO", extra_passes=True)
    with pytest.raises(ConfigError, match="rollout_buffer_class=RolloutBuffer cannot be combined"):
        make("PPO", rollout_buffer_class=RolloutBuffer)


def test_rewards_that_are_normalized_later() -> None:
    env = VecNormalize(DummyVecEnv([Pictures]), norm_obs=False, norm_reward=False)
    model = make("SAC", env=env)
    env.norm_reward = True
    with pytest.raises(ConfigError, match="pass norm_reward=False"):
        model.learn(1)


def test_a_latent_extractor_of_another_space() -> None:
    kwargs = {"features_extractor_kwargs": {"latent_space": "tanh", "latent_dim": 7}}
    with pytest.raises(
        ConfigError, match=r"latents of 6 numbers in latent_space 'sphere', but LatentCNN gives 7 in 'tanh'"
    ):
        make("SAC", "LatentPolicy", policy_kwargs=kwargs)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((40, 40), r"got observations \[40, 40\]; add an axis of channels"),
        ((40, 40, 3), r"got observations \[40, 40, 3\], whose channels are last; use uint8"),
        ((3, 2, 40), r"got observations \[3, 2, 40\]; the least size is 3 x 3"),
    ],
)
def test_observations_that_are_neither_images_nor_vectors(shape: tuple[int, ...], said: str) -> None:
    env = Blank(spaces.Box(0, 1, shape, np.float32), spaces.Discrete(2))
    with pytest.raises(ConfigError, match=rf"LatentCNN requires images \[C, H, W\], {said}"):
        with_metric(DQN, METHOD)("LatentPolicy", env, buffer_size=10, policy_kwargs={"normalize_images": False})


def test_the_size_of_features_belongs_to_the_method() -> None:
    kwargs = {"features_extractor_kwargs": {"features_dim": 64}}
    with pytest.raises(ConfigError, match=r"must not have features_dim.*use with_metric\(\.\.\., latent_dim=64\)"):
        make("SAC", "LatentPolicy", policy_kwargs=kwargs)


def test_parameters_of_a_plain_model(tmp_path: Path) -> None:
    model = make("SAC")
    plain = {name: state for name, state in model.get_parameters().items() if not name.startswith("metric")}
    with pytest.raises(ConfigError, match=r"these parameters have no metric.*exact_match=False"):
        model.set_parameters(plain)
    model.set_parameters(plain, exact_match=False)
    make("SAC", plain=True).save(tmp_path / "plain")
    with pytest.raises(ConfigError, match="these parameters have no metric"):
        with_metric(SAC, METHOD).load(tmp_path / "plain")


def test_arguments_of_with_metric() -> None:
    with pytest.raises(ConfigError, match=r"requires one of SAC, TD3, DQN, PPO, or a subclass, got A2C"):
        with_metric(A2C, METHOD)
    with pytest.raises(ConfigError, match=r"got 'SAC'"):
        with_metric("SAC", METHOD)  # type: ignore[type-var]
    with pytest.raises(ConfigError, match=r"an instance of SAC\. Use with_metric\(SAC, method\)"):
        with_metric(make("SAC", plain=True), METHOD)
    with pytest.raises(UnknownNameError, match="Did you mean 'pamd'"):
        with_metric(DQN, "simsr+pmad")
    with pytest.raises(ConfigError, match=r"'drqv2:simsr\+pamd' names a learner, but SAC is .*; use 'simsr\+pamd'$"):
        with_metric(SAC, "drqv2:simsr+pamd")
    with pytest.raises(ConfigError, match="method must be a name or a Method, got dict"):
        with_metric(SAC, {"name": "simsr+pamd"})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="method 'none' has no loss to add"):
        with_metric(DQN, "none")
    with pytest.raises(ConfigError, match="weight must be finite and at least 0, got -1"):
        with_metric(DQN, METHOD, weight=-1)
    with pytest.raises(ConfigError, match="learning_rate must be finite and above 0, got 0"):
        with_metric(DQN, METHOD, learning_rate=0)


@pytest.mark.parametrize(("version", "said"), [("2.8.1", "got 2.8.1"), (None, r"pip install .*\[sb3\]")])
def test_a_library_that_is_too_old_or_missing(version: str | None, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str) -> str:
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", found)
    with pytest.raises(ConfigError, match=rf"requires stable-baselines3 >= 2.9.*{said}"):
        importlib.reload(pamd.integrations.sb3)


def test_the_options_of_a_model_are_those_of_its_class() -> None:
    model = make("DQN", weight=0.25)
    assert model.metric_options.weight == 0.25
    assert options("DQN")["batch_size"] == 8
