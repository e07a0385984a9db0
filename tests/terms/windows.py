"""Windows of noise for the terms that read some. Rows end early, by a time limit or by a termination."""

from __future__ import annotations

import torch
from torch import Tensor

from pamd.methods import Method
from pamd.types import OperatorInputs, Window


def window_for(
    method: Method, action: Tensor, reward: Tensor, next_obs: Tensor, generator: torch.Generator
) -> Window | None:
    """The windows that `method` reads after these transitions; None if it reads none."""
    size, n = len(reward), method.window
    if not n:
        return None
    length = torch.randint(1, n + 1, (size,), generator=generator)
    length[::2] = n
    mask = torch.arange(n) < length[:, None]
    rewards, actions = (
        torch.rand(size, n, generator=generator),
        torch.rand(size, n, *action.shape[1:], generator=generator),
    )
    rewards[:, 0], actions[:, 0] = reward, action
    noise = torch.rand(size, n, *next_obs.shape[1:], generator=generator)
    sequence = noise.to(next_obs.dtype) if next_obs.is_floating_point() else (255 * noise).to(next_obs.dtype)
    sequence[:, 0] = next_obs
    not_done = (torch.rand(size, generator=generator) > 0.3).to(reward.dtype)
    made = Window((rewards * mask).to(reward.dtype), length, None, not_done, actions.to(action.dtype), sequence)
    if method.sequence:
        return made
    return Window(made.reward, length, made.last_obs, not_done, made.action)


def inputs_for(
    method: Method, action: Tensor, reward: Tensor, next_obs: Tensor, generator: torch.Generator
) -> OperatorInputs:
    """The same as the inputs of `Representation.losses`."""
    return OperatorInputs(window=window_for(method, action, reward, next_obs, generator))
