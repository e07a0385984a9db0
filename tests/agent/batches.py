"""Batches of noise, at smoke scale."""

from __future__ import annotations

import torch

from pamd.methods import scale
from pamd.types import Batch

SMOKE = scale("smoke")


def make_batch(seed: int = 0, actions: int = 2) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    shape = (SMOKE.batch, 9, SMOKE.size, SMOKE.size)
    obs, next_obs = (torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator) for _ in range(2))
    action = torch.rand(SMOKE.batch, actions, generator=generator) * 2 - 1
    reward = torch.rand(SMOKE.batch, generator=generator)
    return Batch(obs, action, reward, next_obs, torch.ones(SMOKE.batch))
