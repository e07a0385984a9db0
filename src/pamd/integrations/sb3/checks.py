"""Checks for unsupported settings before training starts."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from pamd.errors import ConfigError, nearest
from pamd.integrations.sb3.metric import Extractors, MetricOptions, without_extra_passes
from pamd.integrations.sb3.rollouts import TransitionRolloutBuffer
from pamd.methods import Method

SUPPORTED: dict[str, type[BaseAlgorithm]] = {"SAC": SAC, "TD3": TD3, "DQN": DQN, "PPO": PPO}


def check_algorithm(algorithm: Any) -> str:
    """Return the name of the supported algorithm that this class is or derives from."""
    for name, cls in SUPPORTED.items():
        if isinstance(algorithm, type) and issubclass(algorithm, cls):
            return name
    given = getattr(algorithm, "__name__", repr(algorithm))
    hint = nearest(given, SUPPORTED)
    meant = f" Did you mean {hint}?" if hint else ""
    if isinstance(algorithm, BaseAlgorithm):
        given = f"a model, an instance of {type(algorithm).__name__}"
        meant = f" Use with_metric({type(algorithm).__name__}, method)(policy, env) instead."
    raise ConfigError(f"with_metric requires one of {', '.join(SUPPORTED)}, or a subclass, got {given}.{meant}")


def check_method(algorithm: str, method: Any) -> None:
    """Raise ConfigError if `method` is neither a name nor a Method, or if it names a learner."""
    if not isinstance(method, (str, Method)):
        raise ConfigError(f"with_metric: method must be a name or a Method, got {type(method).__name__}")
    if isinstance(method, str) and ":" in method:
        raise ConfigError(
            f"with_metric: {method!r} names a learner, but {algorithm} is the learner here; use"
            f" {method.partition(':')[2]!r}"
        )


def check_before(model: Any) -> None:
    """Raise ConfigError for unsupported spaces and buffers. Called before the networks are built."""
    if isinstance(model.observation_space, spaces.Dict):
        raise ConfigError(
            "with_metric does not support dict observations (MultiInputPolicy, HerReplayBuffer): which part of them"
            " the metric should read is not defined; wrap the environment so that it gives one array, for example"
            " in gymnasium.wrappers.FlattenObservation"
        )
    if not isinstance(model.action_space, (spaces.Box, spaces.Discrete)):
        raise ConfigError(
            f"with_metric requires continuous (Box) or Discrete actions, got {model.action_space}; flatten them into"
            " one Discrete space"
        )
    if model.metric_options.method.metric is not None and model.batch_size < 2:
        raise ConfigError(f"batch_size must be at least 2: a pair needs two states, got {model.batch_size}")
    if isinstance(model, PPO):
        buffer = model.rollout_buffer_class
        if buffer not in (None, TransitionRolloutBuffer):
            raise ConfigError(
                f"rollout_buffer_class={buffer.__name__} cannot be combined with with_metric, which requires a buffer"
                " that keeps next observations"
            )
        return
    if model.n_steps > 1 or _derives(model.replay_buffer_class, NStepReplayBuffer):
        raise ConfigError(
            f"n_steps={model.n_steps} sums rewards over several steps, but the metric's target reads the reward of one"
            " step; use n_steps=1 and a replay buffer of single steps"
        )
    if _derives(model.replay_buffer_class, DictReplayBuffer):
        raise ConfigError(
            f"with_metric does not support {model.replay_buffer_class.__name__}: its observations are dicts"
        )


def check_env(model: Any) -> None:
    """Raise ConfigError if the environment rescales rewards. Called whenever `learn` starts."""
    normalized = None if model.env is None else unwrap_vec_normalize(model.env)
    if normalized is not None and normalized.norm_reward:
        raise ConfigError(
            "VecNormalize(norm_reward=True) rescales rewards during training, which also changes the metric's"
            " target; pass norm_reward=False"
        )


def check_extractors(model: Any, extractors: Extractors, options: MetricOptions) -> None:
    """Raise ConfigError unless the critic's extractor is trainable and its latents match the method.

    Called after the networks are built.
    """
    online, method = extractors.online, options.method
    name = type(online).__name__
    if not any(p.requires_grad for p in online.parameters()):
        raise ConfigError(
            f"the policy's features extractor, {name}, has no trainable parameters; use LatentPolicy,"
            " or CnnPolicy for images, or give policy_kwargs a features_extractor_class that learns"
        )
    if not isinstance(model, (DQN, PPO)) and model.critic.share_features_extractor:
        raise ConfigError(
            "share_features_extractor=True trains the encoder by the policy's loss only, so that neither the critic nor"
            ' the metric would shape it; use "LatentPolicy", whose actor reads the critic\'s encoder without gradient'
        )
    space = getattr(online, "latent_space", None)
    if space is not None and (online.features_dim, space) != (method.latent_dim, method.latent_space):
        raise ConfigError(
            f"method {method.name!r} requires latents of {method.latent_dim} numbers in latent_space"
            f" {method.latent_space!r}, but {name} gives {online.features_dim} in {space!r};"
            " both belong to the method: with_metric(..., latent_dim=...)"
        )
    read = method if options.extra_passes else without_extra_passes(method, has_target=False)
    if extractors.target is None and read.copies:
        raise ConfigError(
            f"PPO has no target network, and method {method.name!r} reads a target copy of the encoder; use SAC,"
            " TD3 or DQN, or a method such as 'simsr+pamd' with extra_passes=False"
        )


def _derives(cls: Any, base: type) -> bool:
    return isinstance(cls, type) and issubclass(cls, base)
