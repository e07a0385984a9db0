"""Random numbers from an explicit generator.

They are drawn on the generator's device. If the networks are on the same device, no noise is copied between devices. A
CPU generator gives the same numbers on every device. Without a generator, torch's global generator is used.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_OFFSET_STEP = 4
"""The offset of a CUDA generator changes in multiples of this."""
_STATE_BYTES = (16, 5056)
"""The number of bytes of a generator's state on CUDA and on the CPU."""


def seeded(seed: int, device: torch.device) -> torch.Generator:
    """Return a generator on `device` with this seed."""
    return torch.Generator(device).manual_seed(seed)


def fitting_state(state: Tensor, generator: torch.Generator) -> Tensor:
    """Return `state`, or the state of the generator's seed if `state` is from another kind of device."""
    size = generator.get_state().numel()
    if state.numel() == size or state.numel() not in _STATE_BYTES:
        return state
    return seeded(generator.initial_seed(), generator.device).get_state()


def normal_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Return standard normal noise with the shape of x, on the device of x."""
    if generator is None:  # torch.compile traces this form for any batch size
        return torch.randn(x.shape, device=x.device)
    return torch.randn(x.shape, generator=generator, device=generator.device).to(x.device)


def one_of(count: int, generator: torch.Generator | None) -> int:
    """Return one of 0, ..., count - 1 as a Python int, without waiting for a device."""
    if generator is None or generator.device.type == "cpu":
        i = int(torch.randint(count, (), generator=generator))
        torch._check(i >= 0)  # torch.compile does not know the number, and must know that it is a valid index
        torch._check(i < count)
        return i
    # A number drawn on the device would have to be read back. The generator's seed and offset are on the host.
    offset = generator.get_offset()
    generator.set_offset(offset + _OFFSET_STEP)
    return int(np.random.default_rng([generator.initial_seed(), offset]).integers(count))
