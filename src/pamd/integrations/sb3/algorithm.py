"""SB3 algorithms with an additional behavioral metric loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import torch
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.preprocessing import get_action_dim
from stable_baselines3.common.save_util import load_from_zip_file
from stable_baselines3.common.utils import update_learning_rate

from pamd.errors import ConfigError
from pamd.integrations.sb3.checks import check_algorithm, check_before, check_env, check_extractors, check_method
from pamd.integrations.sb3.metric import Extractors, Metric, MetricOptions, Transitions
from pamd.integrations.sb3.policies import LATENT_POLICIES, LatentCNN, LatentMLP, latent_extractor
from pamd.integrations.sb3.rollouts import StepRecorder, TransitionRolloutBuffer
from pamd.methods import Method
from pamd.methods import method as named_method

Algorithm = TypeVar("Algorithm", bound=BaseAlgorithm)


def with_metric(
    algorithm: type[Algorithm],
    method: str | Method,
    *,
    weight: float = 1.0,
    latent_dim: int | None = None,
    fidelity: Literal["paper", "released"] = "paper",
    extra_passes: bool = False,
    learning_rate: float | None = None,
) -> type[Algorithm]:
    """Return a subclass of `algorithm` (SAC, TD3, DQN or PPO) that adds the losses of `method` to the critic's encoder.

    Use it like any SB3 class: `learn`, callbacks, the logger (`metric/...`), `save` and `load` work unchanged.

    Args:
        algorithm: SAC, TD3, DQN or PPO, or a subclass.
        method: a name such as "dbc-unit+pamd" (see `pamd list methods`), or a `Method`.
        weight: the weight of the method's gradient in the encoder. With 0, the method is trained and logged without
            affecting the algorithm, whose parameters are bit-identical to plain SB3.
        latent_dim: the latent dimension; by default the method's (50).
        fidelity: "paper" or "released", for a method given by name.
        extra_passes: run additional encoder passes on states and next states if the method needs them. By default, the
            method reuses the latents that the target network computes anyway.
        learning_rate: the learning rate of the method's own networks; by default the algorithm's schedule.
    """
    kind = check_algorithm(algorithm)
    check_method(kind, method)
    record = (named_method(method, fidelity) if isinstance(method, str) else method).adapted(latent_dim=latent_dim)
    base = _OnPolicyMetric if kind == "PPO" else _OffPolicyMetric
    fields = {
        "metric_options": MetricOptions(record, weight, extra_passes, learning_rate),
        "policy_aliases": {**algorithm.policy_aliases, "LatentPolicy": LATENT_POLICIES[kind]},
        "__doc__": f"{algorithm.__name__} with the losses of {record.name} on its critic's encoder.",
        "__module__": __name__,
    }
    return cast(type[Algorithm], type(f"{algorithm.__name__}WithMetric", (base, algorithm), fields))


if TYPE_CHECKING:
    _Base = BaseAlgorithm
else:
    _Base = object


class _WithMetric(_Base):
    """Code shared by on-policy and off-policy algorithms. SB3 calls `_setup_model` after `__init__` and `load`."""

    metric_options: MetricOptions
    metric: Metric
    gamma: float

    def _setup_model(self) -> None:
        check_before(self)
        check_env(self)
        self._check_options()
        self._choose_latents()
        super()._setup_model()  # type: ignore[safe-super]
        extractors = self._extractors()
        check_extractors(self, extractors, self.metric_options)
        # SB3 uses the global random generators. The metric must not advance them.
        seed = torch.initial_seed() if self.seed is None else self.seed
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.metric = Metric(
                self.metric_options,
                extractors,
                action_dim=self._action_dim(),
                gamma=self.gamma,
                learning_rate=self.lr_schedule(1),
                seed=seed,
            ).to(self.device)

    def _check_options(self) -> None:
        """Check that the options in a saved file match the options of this class."""
        wanted = type(self).metric_options
        saved = self.__dict__.setdefault("metric_options", wanted)
        if saved != wanted:
            raise ConfigError(
                f"the file was saved from with_metric({saved.method.name!r}, weight={saved.weight}) with options that"
                f" differ from with_metric({wanted.method.name!r}, weight={wanted.weight}); load it with the same ones"
            )

    def _choose_latents(self) -> None:
        """Set the latent options of the policy's LatentCNN or LatentMLP, unless the user has set them."""
        if not issubclass(self.policy_class, tuple(LATENT_POLICIES.values())):
            return
        extractor = self.policy_kwargs.get("features_extractor_class", latent_extractor(self.observation_space))
        if extractor in (LatentCNN, LatentMLP):
            method, given = self.metric_options.method, self.policy_kwargs.get("features_extractor_kwargs", {})
            if "features_dim" in given:
                raise ConfigError(
                    f"features_extractor_kwargs of {extractor.__name__} must not have features_dim: the size of a"
                    f" latent belongs to the method; use with_metric(..., latent_dim={given['features_dim']})"
                )
            wanted = {"latent_dim": method.latent_dim, "latent_space": method.latent_space, **given}
            if method.latent_space == "ball" and not isinstance(method.ball_radius, str):
                wanted = {"ball_radius": method.ball_radius, **wanted}
            self.policy_kwargs = {**self.policy_kwargs, "features_extractor_kwargs": wanted}

    def _extractors(self) -> Extractors:
        raise NotImplementedError

    def _action_dim(self) -> int:
        space = self.action_space
        return int(space.n) if isinstance(space, spaces.Discrete) else get_action_dim(space)

    def _setup_learn(self, *args: Any, **kwargs: Any) -> Any:
        check_env(self)
        return super()._setup_learn(*args, **kwargs)

    def _update_learning_rate(self, optimizers: Any) -> None:
        super()._update_learning_rate(optimizers)
        if self.metric.optimizer is not None and self.metric_options.learning_rate is None:
            update_learning_rate(self.metric.optimizer, self.lr_schedule(self._current_progress_remaining))

    def _log_metric(self) -> None:
        for name, value in self.metric.metrics().items():
            self.logger.record(f"metric/{name}", value)

    def set_parameters(
        self, load_path_or_dict: Any, exact_match: bool = True, device: torch.device | str = "auto"
    ) -> None:
        """Load parameters as SB3 does. Those of a plain algorithm require `exact_match=False`."""
        parameters = load_path_or_dict
        if not isinstance(parameters, dict):
            _, parameters, _ = load_from_zip_file(load_path_or_dict, device=device, load_data=False)
        if exact_match and "metric" not in parameters:
            raise ConfigError(
                "these parameters have no metric: they are those of a model without with_metric; to begin with them,"
                " build a new model and call set_parameters(..., exact_match=False)"
            )
        super().set_parameters(parameters, exact_match, device)

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        names, variables = super()._get_torch_save_params()
        added = ["metric"] + (["metric.optimizer"] if self.metric.optimizer is not None else [])
        return [*names, *added], variables


class _OffPolicyMetric(_WithMetric):
    """SAC, TD3 and DQN. Transitions come from the replay buffer, and target latents from the target network."""

    replay_buffer: Any

    def _extractors(self) -> Extractors:
        policy: Any = self.policy
        critic = policy.q_net if isinstance(self, DQN) else policy.critic
        target = policy.q_net_target if isinstance(self, DQN) else policy.critic_target
        return Extractors(policy, critic.features_extractor, target.features_extractor)

    def train(self, *args: Any, **kwargs: Any) -> None:
        buffer = self.replay_buffer
        self.replay_buffer = _Sampler(buffer, self.metric)
        try:
            with self.metric.attached():
                super().train(*args, **kwargs)  # type: ignore[misc]
        finally:
            self.replay_buffer = buffer
        self._log_metric()


class _Sampler:
    """Wraps a replay buffer and passes every sample to the metric."""

    def __init__(self, buffer: ReplayBuffer, metric: Metric) -> None:
        self._buffer, self._metric = buffer, metric

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        samples = self._buffer.sample(*args, **kwargs)
        self._metric.sampled(
            Transitions(
                obs=samples.observations,
                action=samples.actions,
                reward=samples.rewards.squeeze(-1),
                next_obs=samples.next_observations,
                not_done=1 - samples.dones.squeeze(-1),
            )
        )
        return samples

    def __getattr__(self, name: str) -> Any:
        return getattr(self._buffer, name)


class _OnPolicyMetric(_WithMetric):
    """PPO. Transitions come from a rollout buffer that stores next observations."""

    rollout_buffer: TransitionRolloutBuffer
    rollout_buffer_class: Any

    def _setup_model(self) -> None:
        check_before(self)
        self.rollout_buffer_class = TransitionRolloutBuffer
        super()._setup_model()

    def _extractors(self) -> Extractors:
        policy: Any = self.policy
        return Extractors(policy, policy.vf_features_extractor, None)

    def collect_rollouts(self, env: Any, *args: Any, **kwargs: Any) -> Any:
        self.rollout_buffer.recorder = recorder = StepRecorder(env)
        try:
            return super().collect_rollouts(recorder, *args, **kwargs)  # type: ignore[misc]
        finally:
            self.rollout_buffer.recorder = None

    def train(self) -> None:
        self.rollout_buffer.on_sample = self.metric.sampled
        try:
            with self.metric.attached():
                super().train()  # type: ignore[misc]
        finally:
            self.rollout_buffer.on_sample = None
        self._log_metric()
