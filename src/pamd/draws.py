"""Random numbers from an explicit generator.

They are drawn on the generator's device: noise from a generator beside the networks never crosses to them. A CPU
generator gives the same numbers on every device. Without a generator, torch's global one draws.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["fitting_state", "normal_like", "one_of", "seeded"]

_OFFSET_STEP = 4
"""The offset of CUDA's generator moves in multiples of this."""
_STATE_BYTES = (16, 5056)
"""Of a generator's state on CUDA and on the CPU."""


def seeded(seed: int, device: torch.device) -> torch.Generator:
    """A generator on `device`."""
    return torch.Generator(device).manual_seed(seed)


def fitting_state(state: Tensor, generator: torch.Generator) -> Tensor:
    """A saved state for `generator`; one from another kind of device gives way to that of the generator's seed."""
    own = generator.get_state().numel()
    if state.numel() == own or state.numel() not in _STATE_BYTES:
        return state
    return seeded(generator.initial_seed(), generator.device).get_state()


def normal_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Standard normal noise of the shape and on the device of x."""
    drawn_on = x.device if generator is None else generator.device
    return torch.randn(x.shape, generator=generator, device=drawn_on).to(x.device)


def one_of(count: int, generator: torch.Generator | None) -> int:
    """One of 0, ..., count - 1, as a number of the host. No device is waited for."""
    if generator is None or generator.device.type == "cpu":
        return int(torch.randint(count, (), generator=generator))
    # A number drawn on the device would have to be read back. Seed and offset of its generator are on the host.
    offset = generator.get_offset()
    generator.set_offset(offset + _OFFSET_STEP)
    return int(np.random.default_rng([generator.initial_seed(), offset]).integers(count))
