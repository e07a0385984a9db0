"""The optimizers of an agent, and the parameters that each of them steps."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pamd.agent.config import AgentConfig
from pamd.errors import ConfigError
from pamd.learners import Learner
from pamd.optimization import adam
from pamd.representation import Representation

__all__ = ["make_optimizers", "stepped_parameters"]

_MODELS = ("model", "isolated_model")
"""The optimizers of latent models. Only these have weight decay."""


def stepped_parameters(
    config: AgentConfig, learner: Learner[Any], representation: Representation, isolated: Representation | None
) -> dict[str, list[nn.Parameter]]:
    """Return the parameters of each of the agent's optimizers. The learner's own optimizers are not included.

    Sequential: the encoder is in the critic's Adam and in the representation's, with a state in each. Joint: one state.
    """
    joint = config.schedule == "joint"
    encoder, metric, model = _parameters(representation)
    with_critic = joint or config.method.metric_in == "critic"
    stepped = {"critic": [*encoder, *learner.critic_parameters(), *(metric if with_critic else [])]}
    separate = [] if with_critic else metric
    if not joint and (model or separate):
        stepped["representation"] = [*encoder, *separate]
    if model:
        stepped["model"] = model
    if isolated is not None:
        encoder, metric, model = _parameters(isolated)
        stepped["isolated"] = [*encoder, *metric]
        if model:
            stepped["isolated_model"] = model
    return stepped


def make_optimizers(
    config: AgentConfig, learner: Learner[Any], representation: Representation, isolated: Representation | None
) -> dict[str, torch.optim.Optimizer]:
    """Return the optimizers by name: the agent's and the learner's own."""
    rate, decay = config.learner.options.learning_rate, config.method.weight_decay
    optimizers: dict[str, torch.optim.Optimizer] = {
        name: adam(parameters, rate, weight_decay=decay if name in _MODELS else 0.0)
        for name, parameters in stepped_parameters(config, learner, representation, isolated).items()
    }
    learner.optimizers = learner.make_optimizers()
    if taken := sorted(optimizers.keys() & learner.optimizers):
        raise ConfigError(f"learner {type(learner).__name__} has an optimizer called {taken[0]!r}, as the agent does")
    return {**optimizers, **learner.optimizers}


def _parameters(part: Representation) -> tuple[list[nn.Parameter], list[nn.Parameter], list[nn.Parameter]]:
    """Return the parameters of the encoder, of the distance, and of the latent model."""
    # A frozen head requires no gradient, and an optimizer must not receive it.
    metric = [] if part.distance is None else [p for p in part.distance.parameters() if p.requires_grad]
    nets = (part.transition, part.reward_decoder, part.state_reward)
    model = [p for net in nets if net is not None for p in net.parameters()]
    return list(part.encoder.parameters()), metric, model
