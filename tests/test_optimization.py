"""Slow copies."""

from __future__ import annotations

import torch
from torch import nn

from pamd.optimization import ema_update, target_copy


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second = self.first  # lerped once, not twice
        self.norm = nn.BatchNorm1d(2)
        self.absent = None


def test_a_target_copy_moves_every_parameter_once_and_copies_buffers() -> None:
    fast = Shared()
    slow = target_copy(fast)
    with torch.no_grad():
        for p in fast.parameters():
            p += 1
        fast.norm.running_mean.fill_(3)
    expected = [a.lerp(b, 0.25) for a, b in zip(slow.parameters(), fast.parameters(), strict=True)]
    ema_update(slow, fast, 0.25)
    torch.testing.assert_close(list(slow.parameters()), expected)
    assert torch.equal(slow.norm.running_mean, fast.norm.running_mean)
