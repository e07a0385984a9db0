"""The regression of SimSR with the MLP distance, and the operations that the paper counts for PAMD's branch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.fidelity.difference import largest_difference, report
from torch import nn

import pamd
from pamd.experiments import table_flops


@pytest.mark.parametrize("fidelity", ["paper", "released"])
def test_simsr_with_the_mlp_distance_minimizes_smooth_l1(fidelity: Any) -> None:
    torch.manual_seed(0)
    rep = pamd.Representation("simsr+mlp", encoder=nn.Linear(4, 6), latent_dim=6, action_dim=2, fidelity=fidelity)
    assert rep.distance is not None
    obs, next_obs, action, reward = torch.randn(33, 4), torch.randn(33, 4), torch.rand(33, 2), 4 * torch.rand(33)
    latents = rep.batch_latents(obs, action, reward, next_obs, generator=torch.Generator().manual_seed(0))
    found = rep.losses_of(latents, ["metric"])["metric"]
    draw = torch.Generator().manual_seed(0)  # a member, its noise, then the permutation
    sample = rep.terms["transition"].predict(latents, latents.latent("obs", "ema"), action).member(draw).sample(draw)
    pairs = torch.randperm(33, generator=draw)
    value = rep.distance(latents.z, latents.z[pairs]).detach().numpy()
    beyond = rep.distance(sample, sample[pairs]).detach().numpy()
    error = np.abs(value - np.abs((reward - reward[pairs]).numpy()) - 0.99 * beyond)
    formula = np.where(error < 1, error**2 / 2, error - 0.5).mean()
    assert 0.1 < (error < 1).mean() < 0.9, "both branches of smooth-l1 must be reached"
    assert largest_difference("paper", found.value, formula) < 1e-12


def test_four_passes_of_network_and_product_are_the_papers_count() -> None:
    pairs, d, h = 128, 50, 128
    network = 2 * (2 * d * h + h * h + h * d * (d + 1) // 2)
    formula = 4 * 2 * pairs * (network + 2 * d**3)  # four passes, both orders
    torch.set_default_dtype(torch.float32)
    counted = 4 * table_flops._branch().formed
    report("paper", abs(counted - formula))
    assert counted == formula
    assert f"{counted:.2e}" == f"{table_flops._paper()['pamd']:.2e}" == "6.50e+08"
