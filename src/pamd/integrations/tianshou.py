"""Tianshou: `MetricOffPolicyWrapper(wrapped_algorithm=DQN(...), representation=..., optim=...)`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from pamd.errors import ConfigError
from pamd.integrations.requirements import check_representation, require_library
from pamd.representation import LatentEncoder, Representation

require_library(__name__, "tianshou", (2, 0), "tianshou")

from tianshou.algorithm.algorithm_base import (  # noqa: E402  The version is checked first.
    OffPolicyAlgorithm,
    OffPolicyWrapperAlgorithm,
    TrainingStats,
    TrainingStatsWrapper,
)
from tianshou.algorithm.optim import OptimizerFactory  # noqa: E402
from tianshou.data import Batch  # noqa: E402
from tianshou.utils.lagged_network import EvalModeModuleWrapper  # noqa: E402
from tianshou.utils.net.common import ModuleWithVectorOutput  # noqa: E402


class LatentNet(ModuleWithVectorOutput):
    """The representation's encoder as a `preprocess_net` for Tianshou's networks: observations -> (z [B, d], state).

    With `gradient` (for a critic or Q-network), the network trains the encoder. Without it (for an actor), the latents
    are detached and the encoder is not a submodule: the actor's optimizer does not train it, and a copy of the network
    uses the same encoder.
    """

    def __init__(self, encoder: Representation | LatentEncoder, *, gradient: bool = True) -> None:
        if isinstance(encoder, Representation):
            encoder = encoder.encoder
        super().__init__(encoder.latent_dim)
        self.gradient = gradient
        if gradient:
            self.encoder = encoder
        else:
            self.__dict__["encoder"] = encoder

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[Tensor, Any]:
        """Return the latents of obs [B, ...], an array or a tensor, and the unchanged state."""
        with torch.set_grad_enabled(self.gradient and torch.is_grad_enabled()):
            z: Tensor = self.encoder(_tensor(obs, self.encoder))
        return z, state

    def __deepcopy__(self, memo: dict[int, Any]) -> LatentNet:
        encoder = copy.deepcopy(self.encoder, memo) if self.gradient else self.encoder
        return LatentNet(encoder, gradient=self.gradient)


class MetricTrainingStats(TrainingStatsWrapper):
    """The statistics of the wrapped algorithm and the metrics of the representation."""

    def __init__(self, wrapped_stats: TrainingStats, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            setattr(self, name, value)
        super().__init__(wrapped_stats)  # This must be last, because it freezes the names.


class MetricOffPolicyWrapper(OffPolicyWrapperAlgorithm):
    """An off-policy algorithm whose encoder is also trained by the losses of a representation.

    After every update of the wrapped algorithm, `optim` updates the encoder and the representation's own networks with
    the representation's loss on the same batch. Then the target copies are updated.

    Args:
        wrapped_algorithm: an off-policy algorithm whose networks use the encoder through `LatentNet`.
        representation: the encoder and the method.
        optim: the factory of the representation's optimizer.
        generator: the generator for pairs and noise; by default torch's global generator.
    """

    def __init__(
        self,
        *,
        wrapped_algorithm: OffPolicyAlgorithm,
        representation: Representation,
        optim: OptimizerFactory,
        generator: torch.Generator | None = None,
    ) -> None:
        check_representation("MetricOffPolicyWrapper", representation)
        _check_algorithm(wrapped_algorithm, representation)
        super().__init__(wrapped_algorithm=wrapped_algorithm)
        self.representation, self.generator = representation, generator
        self.optim = self._create_optimizer(representation, optim)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load the state, including the wrapped optimizers, which Tianshou's own wrappers save but do not load."""
        state = dict(state_dict)
        wrapped = self.wrapped_algorithm
        saved = state.pop(f"wrapped_algorithm.{wrapped._STATE_DICT_KEY_OPTIMIZERS}")
        for optimizer, values in zip(wrapped._optimizers, saved, strict=True):
            optimizer.load_state_dict(values)
        return super().load_state_dict(state, strict=strict, assign=assign)

    def _wrapper_update_with_batch(self, batch: Any, original_stats: TrainingStats) -> MetricTrainingStats:
        rep = self.representation
        reward = _tensor(batch.rew, rep.encoder)
        losses = rep.losses(
            _tensor(batch.obs, rep.encoder),
            _action(batch.act, reward.device),
            reward,
            _tensor(batch.obs_next, rep.encoder),
            not_done=1 - _tensor(batch.terminated, rep.encoder),
            generator=self.generator,
        )
        self.optim.step(losses.total)
        rep.update_targets()
        return MetricTrainingStats(original_stats, {name: float(value) for name, value in losses.metrics.items()})


def _tensor(values: Any, encoder: nn.Module) -> Tensor:
    """Move an array or tensor to the encoder's device. uint8 is kept; other types become the encoder's type."""
    if isinstance(values, Batch):
        raise ConfigError(
            "MetricOffPolicyWrapper does not support dict observations: which part of them the metric should read is"
            " not defined; wrap the environment so that it gives one array"
        )
    parameter = next(encoder.parameters())
    tensor = torch.as_tensor(values, device=parameter.device)
    return tensor if tensor.dtype == torch.uint8 else tensor.to(parameter.dtype)


def _action(values: Any, device: torch.device) -> Tensor:
    """Convert discrete actions [B] to int64 and continuous actions [B, A] to float32."""
    action = torch.as_tensor(np.asarray(values), device=device)
    return action.to(torch.float32 if action.is_floating_point() else torch.int64)


def _check_algorithm(algorithm: OffPolicyAlgorithm, representation: Representation) -> None:
    """Raise ConfigError unless the algorithm's critics, and no other network, train the representation's encoder."""
    if not isinstance(algorithm, OffPolicyAlgorithm):
        raise ConfigError(
            f"MetricOffPolicyWrapper requires an off-policy algorithm of Tianshou, got {type(algorithm).__name__}"
        )
    _check_actions(algorithm.policy.action_space, representation.action_dim)
    encoder = {id(p) for p in representation.encoder.parameters()}
    if not encoder <= {id(p) for p in algorithm.parameters()}:
        raise ConfigError(
            f"{type(algorithm).__name__} does not train the representation's encoder; build its networks with"
            " preprocess_net=LatentNet(representation)"
        )
    actor = getattr(algorithm.policy, "actor", None)
    if isinstance(actor, nn.Module) and encoder & {id(p) for p in actor.parameters()}:
        raise ConfigError(
            "the actor's optimizer would train the encoder; build the actor with LatentNet(representation,"
            " gradient=False)"
        )
    slow = {id(part) for lag in algorithm.modules() if isinstance(lag, EvalModeModuleWrapper) for part in lag.modules()}
    for name, net in algorithm.named_modules():
        if isinstance(net, LatentNet) and id(net) not in slow and net.encoder is not representation.encoder:
            raise ConfigError(
                f"{name} reads a copy of the encoder, or another one, which the metric would not shape (SAC copies its"
                " critic if critic2 is not given); pass a network with LatentNet(representation)"
            )


def _check_actions(space: spaces.Space[Any], action_dim: int) -> None:
    """Raise ConfigError unless the representation's latent model accepts actions of `space`."""
    if not isinstance(space, (spaces.Box, spaces.Discrete)):
        raise ConfigError(f"MetricOffPolicyWrapper requires continuous (Box) or Discrete actions, got {space}")
    size = int(space.n) if isinstance(space, spaces.Discrete) else int(np.prod(space.shape))
    if size != action_dim:
        raise ConfigError(f"the representation has action_dim={action_dim}, but {space} requires {size}")
