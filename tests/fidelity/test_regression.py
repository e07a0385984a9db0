"""The regression of SimSR with the MLP distance, MICo's angle, and the operations that the paper counts for PAMD."""

from __future__ import annotations

import dataclasses
import math
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


def test_the_released_angle_of_mico() -> None:
    torch.manual_seed(0)
    z = torch.randn(60, 5)
    z_prime = torch.cat([torch.randn(20, 5), z[20:40] + 1e-4 * torch.randn(20, 5), 2 * z[40:50], -z[50:60]])
    distance = pamd.method("mico", "released", latent_dim=5).distance
    assert distance is not None
    found = pamd.distance("mico", latent_dim=5, **dataclasses.asdict(distance.options))(z, z_prime)
    x, y = z.numpy(), z_prime.numpy()
    cos = (x * y).sum(-1) / (np.sqrt((x**2).sum(-1) * (y**2).sum(-1)) + 1e-8)
    assert (cos > 1 - 1e-6).sum() == 30, "nearly parallel pairs must reach the clamp"
    angle = np.arccos(np.clip(cos, -1 + 1e-6, 1 - 1e-6))
    formula = ((x**2).sum(-1) + (y**2).sum(-1)) / 2 + 0.1 * angle
    assert largest_difference("angle", found, formula) < 1e-10
    exact = pamd.distance("mico", latent_dim=5)(z, z_prime)
    assert float((found - exact).abs().max()) == pytest.approx(0.1 * math.acos(1 - 1e-6), rel=1e-4)


def test_four_passes_of_network_and_product_are_the_papers_count() -> None:
    pairs, d, h = 128, 50, 128
    network = 2 * (2 * d * h + h * h + h * d * (d + 1) // 2)
    formula = 4 * 2 * pairs * (network + 2 * d**3)  # four passes, both orders
    torch.set_default_dtype(torch.float32)
    counted = 4 * table_flops._branch().formed
    report("paper", abs(counted - formula))
    assert counted == formula
    assert f"{counted:.2e}" == f"{table_flops._paper()['pamd']:.2e}" == "6.50e+08"
