"""Which optimiser steps which parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pamd.agent.config import AgentConfig
from pamd.errors import ConfigError
from pamd.learners import Learner
from pamd.optimisation import adam
from pamd.representation import Representation

__all__ = ["make_optimisers"]


def make_optimisers(
    config: AgentConfig, learner: Learner[Any], representation: Representation, isolated: Representation | None
) -> dict[str, torch.optim.Optimizer]:
    """The optimisers by name.

    Sequential: the encoder is in the critic's Adam and in the representation's, with a state in each. Joint: one state.
    """
    rate, decay, joint = config.learner.options.learning_rate, config.method.weight_decay, config.schedule == "joint"
    encoder, metric, model = _parameters(representation)
    with_critic = joint or config.method.metric_in == "critic"
    optimisers: dict[str, torch.optim.Optimizer] = {
        "critic": adam([*encoder, *learner.critic_parameters(), *(metric if with_critic else [])], rate)
    }
    own = [] if with_critic else metric
    if not joint and (model or own):
        optimisers["representation"] = adam([*encoder, *own], rate)
    if model:
        optimisers["model"] = adam(model, rate, weight_decay=decay)
    if isolated is not None:
        encoder, metric, model = _parameters(isolated)
        optimisers["isolated"] = adam([*encoder, *metric], rate)
        if model:
            optimisers["isolated_model"] = adam(model, rate, weight_decay=decay)
    learner.optimisers = learner.make_optimisers()
    if taken := sorted(optimisers.keys() & learner.optimisers):
        raise ConfigError(f"learner {type(learner).__name__} has an optimiser called {taken[0]!r}, as the agent does")
    return {**optimisers, **learner.optimisers}


def _parameters(part: Representation) -> tuple[list[nn.Parameter], list[nn.Parameter], list[nn.Parameter]]:
    """Of the encoder, of the distance, and of the latent model."""
    metric = [] if part.distance is None else list(part.distance.parameters())
    model = [p for net in (part.transition, part.reward_decoder) if net is not None for p in net.parameters()]
    return list(part.encoder.parameters()), metric, model
