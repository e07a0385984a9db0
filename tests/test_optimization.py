"""Adam's short cut against torch's own, and slow copies."""

from __future__ import annotations

import copy

import torch
from torch import nn

from pamd.optimization import adam, follow, slow_copy


def networks() -> tuple[nn.Sequential, nn.Sequential]:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    return network, copy.deepcopy(network)


def backward(network: nn.Sequential, step: int, frozen: bool = False) -> None:
    network.zero_grad()
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(step))
    network(x).square().mean().backward()
    if frozen:
        network[0].bias.grad = None


def test_adam_is_torchs_bit_for_bit() -> None:
    """Also where a gradient is missing, the rate changes, a group is added or a state is loaded between steps."""
    ours, theirs = networks()
    own = adam(ours[0].parameters(), 1e-2, weight_decay=0.1)
    library = torch.optim.Adam(theirs[0].parameters(), lr=1e-2, weight_decay=0.1, fused=True)
    for step in range(12):
        for network, optimizer in ((ours, own), (theirs, library)):
            backward(network, step, frozen=step == 3)
            if step == 5:
                optimizer.param_groups[0]["lr"] = 3e-3
            if step == 7:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            if step == 9:
                optimizer.add_param_group({"params": list(network[2].parameters())})
            optimizer.step()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b), step
    assert own.state_dict()["state"][0]["step"] == 12
    assert own.state_dict()["state"][1]["step"] == 11  # the bias had no gradient once
    assert own._gathered is not None  # the short cut was taken


def test_a_copied_optimizer_steps() -> None:
    ours, _ = networks()
    optimizer = adam(ours.parameters(), 1e-2)
    for step in range(2):
        backward(ours, step)
        optimizer.step()
    network, copied = copy.deepcopy((ours, optimizer))
    backward(ours, 2)
    optimizer.step()
    before = [p.clone() for p in ours.parameters()]
    backward(network, 2)
    copied.step()
    assert all(torch.equal(a, b) for a, b in zip(before, ours.parameters(), strict=True))  # the copy moved itself


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second = self.first  # lerped once, not twice
        self.norm = nn.BatchNorm1d(2)
        self.absent = None


def test_a_slow_copy_follows_every_parameter_once_and_copies_buffers() -> None:
    fast = Shared()
    slow = slow_copy(fast)
    with torch.no_grad():
        for p in fast.parameters():
            p += 1
        fast.norm.running_mean.fill_(3)
    expected = [a.lerp(b, 0.25) for a, b in zip(slow.parameters(), fast.parameters(), strict=True)]
    follow(slow, fast, 0.25)
    torch.testing.assert_close(list(slow.parameters()), expected)
    assert torch.equal(slow.norm.running_mean, fast.norm.running_mean)
