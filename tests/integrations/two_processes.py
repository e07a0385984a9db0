"""One of two processes that train distances and representations together. Arguments: a file for the store, a rank."""

from __future__ import annotations

import copy
import os
import sys
from typing import Any

import torch
from tests.agent.batches import two_members
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

import pamd

D, B, RANKS = 6, 8, 2
METHODS = ("simsr+pamd", "mico+pamd", "dbc", "dbc-det", "dbc-normed", "mico")


def latents(rank: int) -> pamd.Latents:
    draw = torch.Generator().manual_seed(10 + rank)
    z, z_next = torch.randn(2, B, D, generator=draw)
    return pamd.Latents(z=z, z_next=z_next, next_sample=z_next, reward=torch.rand(B, generator=draw))


def transitions(rank: int) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(20 + rank)
    obs, next_obs = torch.randn(2, B, 5, generator=draw)
    return obs, torch.rand(B, 3, generator=draw), torch.rand(B, generator=draw), next_obs


def distance_loss(distance: nn.Module, rank: int) -> Tensor:
    generator = torch.Generator().manual_seed(rank)
    operator = pamd.operator("independent", gamma=0.9)
    return pamd.metric_loss(latents(rank), distance, operator, generator=generator).value


def representation_loss(rep: nn.Module, rank: int) -> Tensor:
    losses: pamd.Losses = rep(*transitions(rank), generator=torch.Generator().manual_seed(rank))
    return losses.total


def check(name: str, module: nn.Module, loss: Any, rank: int) -> None:
    """The gradients in both processes are the mean of both; after a step, the weights are the same."""
    expected: dict[str, Tensor] = {}
    for each in range(RANKS):
        alone = copy.deepcopy(module)
        loss(alone, each).backward()
        for key, p in alone.named_parameters():
            if p.grad is not None:
                expected[key] = expected.get(key, 0) + p.grad / RANKS
    wrapped = DistributedDataParallel(module)
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.1)
    loss(wrapped, rank).backward()
    found = {key: p.grad for key, p in module.named_parameters() if p.grad is not None}
    assert found.keys() == expected.keys(), (name, found.keys() ^ expected.keys())
    torch.testing.assert_close(found, expected)
    assert max(float(g.abs().max()) for g in found.values()) > 0, name
    optimizer.step()
    if isinstance(module, pamd.Representation):
        module.update_targets()
    loss(wrapped, rank).backward()
    optimizer.step()
    for key, value in module.state_dict().items():
        if ".ball." in key:  # each process knows the rewards of its own batch; the next call has those of rank 0
            continue
        both = [torch.empty_like(value) for _ in range(RANKS)]
        distributed.all_gather(both, value)
        assert torch.equal(*both), (name, key)
    print(name)  # noqa: T201  The test reads it.


def main() -> None:
    store, rank = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", store=distributed.FileStore(store, RANKS), rank=rank, world_size=RANKS)
    for name in pamd.DISTANCES.names():
        torch.manual_seed(0)
        distance = pamd.distance(name, latent_dim=D)
        if list(distance.parameters()):  # others have no gradient to reduce, and torch does not wrap them
            check(name, distance, distance_loss, rank)
    for name in METHODS:
        torch.manual_seed(0)
        method = pamd.method(name, latent_dim=D, **two_members(name))
        rep = pamd.Representation(method, encoder=nn.Linear(5, D), action_dim=3)
        check(name, rep, representation_loss, rank)
    distributed.barrier()
    sys.stdout.flush()
    os._exit(0)  # One in twenty times, the teardown of gloo aborts the process. The test is about the training.


if __name__ == "__main__":
    main()
