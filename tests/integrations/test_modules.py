"""Distances and representations as modules of PyTorch: what tests/distances and tests/representation leave open."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.agent.batches import two_members
from tests.integrations.two_processes import METHODS, transitions
from torch import Tensor, func, nn

import pamd

# Torch's own, about its internals: tracing still uses what torch has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

ROOT = Path(__file__).parents[2]
D = 6


def make(name: str, seed: int = 0) -> pamd.Representation:
    torch.manual_seed(seed)
    return pamd.Representation(
        pamd.method(name, latent_dim=D, **two_members(name)), encoder=nn.Sequential(nn.Linear(5, D)), action_dim=3
    )


def total(rep: Any) -> Tensor:
    loss: Tensor = rep(*transitions(0), generator=torch.Generator().manual_seed(1)).total
    return loss


def learn(rep: pamd.Representation, steps: int) -> None:
    optimizer = torch.optim.SGD([p for p in rep.parameters() if p.requires_grad], lr=1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        total(rep).backward()
        optimizer.step()
        rep.update_targets()


@pytest.mark.parametrize("name", METHODS)
def test_a_state_holds_all_that_learning_reads(name: str) -> None:
    """Slow copies, counts and ranges included: a loaded representation learns on as the saved one does."""
    rep, other, file = make(name), make(name, seed=1), io.BytesIO()
    learn(rep, 3)
    torch.save(rep.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(total(other), total(rep))
    learn(rep, 3)
    learn(other, 3)
    left, right = rep.state_dict(), other.state_dict()
    assert left.keys() == right.keys()
    assert all(torch.equal(left[key], right[key]) for key in left)


@pytest.mark.parametrize("name", METHODS)
def test_latents_under_vmap_and_jacrev(name: str) -> None:
    rep, obs = make(name), transitions(0)[0]
    halves = obs.unflatten(0, (2, -1))
    torch.testing.assert_close(func.vmap(rep.encode)(halves).flatten(0, 1), rep.encode(obs))
    expected = torch.autograd.functional.jacobian(rep.encode, halves[0])
    torch.testing.assert_close(func.jacrev(rep.encode)(halves[0]), expected)
    torch.testing.assert_close(func.jacfwd(rep.encode)(halves[0]), expected)
    torch.testing.assert_close(func.vmap(func.jacrev(rep.encode))(halves)[0], expected)


@pytest.mark.slow
def test_two_processes_train_together(tmp_path: Path) -> None:
    """DistributedDataParallel over gloo: the gradients of both are the mean of both, and so are the weights."""
    words = [sys.executable, "-m", "tests.integrations.two_processes", str(tmp_path / "store")]
    started = [
        subprocess.Popen([*words, str(rank)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    try:
        for process in started:
            output, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors
            assert output.split() == [name for name in pamd.DISTANCES.names() if learned(name)] + list(METHODS), errors
    finally:
        for process in started:
            process.kill()
            process.communicate()


def learned(name: str) -> bool:
    """Whether a distance of the package has parameters. Other tests register distances that no other process knows."""
    own = pamd.DISTANCES.get(name).__module__.startswith("pamd.")
    return own and bool(list(pamd.distance(name, latent_dim=D).parameters()))
