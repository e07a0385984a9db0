"""The inputs of an operator other than latents: the learner's values, windows, rewards of other actions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pamd.errors import ConfigError
from pamd.methods import Method
from pamd.models import RewardDecoder
from pamd.models.transition import Prediction
from pamd.types import Extras

__all__ = ["action_rewards", "extra_fields"]

_SOURCES = {
    "value": "V(s), the learner's value",
    "action_value": "Q(s, a), the learner's value of the action",
    "window": "the steps after each transition (`Replay.sample(..., window=n)`)",
}


def extra_fields(method: Method, extras: Extras | None) -> dict[str, Tensor]:
    """Return the fields of `Latents` that `extras` fills for the operator. Raise ConfigError if one is missing."""
    needs, extras = method.operator_needs, extras or Extras()
    wanted = [name for name in ("value", "action_value") if name in needs] + ["window"] * ("z_window" in needs)
    for name in wanted:
        if getattr(extras, name) is None:
            operator = None if method.operator is None else method.operator.name
            raise ConfigError(
                f"operator {operator!r} reads {_SOURCES[name]}; pass extras=Extras({name}=...) with the batch"
                " (an Agent does so by itself)"
            )
    fields: dict[str, Tensor] = {name: getattr(extras, name).detach().float() for name in wanted if name != "window"}
    if extras.not_done is not None:
        fields["not_done"] = extras.not_done
    if "window" in wanted and extras.window is not None:
        window = extras.window
        fields |= {
            "window_reward": window.reward,
            "window_length": window.length,
            "window_not_done": window.not_done,
        }
    return fields


@torch.no_grad()
def action_rewards(
    predict: Callable[[Tensor, Tensor, torch.Generator | None], Prediction],
    decoder: RewardDecoder | None,
    z: Tensor,
    actions: Tensor,
    generator: torch.Generator | None,
) -> Tensor:
    """Return the rewards [B, K] that the model predicts in states z [B, d] for each of the actions [K, A]."""
    assert decoder is not None
    size, count = len(z), len(actions)
    predicted = predict(z.repeat_interleave(count, 0), actions.repeat(size, 1), generator)
    rewards: Tensor = decoder(predicted.mean[0])
    return rewards.view(size, count)
