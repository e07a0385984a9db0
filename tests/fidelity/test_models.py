"""The latent model: the bounds of sigma, its loss, its initialization, and the latents that it learns to predict."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.fidelity.difference import largest_difference
from torch import nn

import pamd
from pamd.terms.reward import Reward, RewardConfig
from pamd.terms.transition import Transition, TransitionConfig
from pamd.terms.transition import _bounded_log_std as bounded_log_std

RAW = np.linspace(-40, 40, 4001)
FORMULAS = {
    "sigmoid": 1e-4 + (10 - 1e-4) / (1 + np.exp(-RAW)),
    "tanh": np.exp(np.log(1e-4) + (np.log(10) - np.log(1e-4)) * (np.tanh(RAW) + 1) / 2),
}
D, A = 6, 2


@pytest.mark.parametrize("std", ["sigmoid", "tanh"])
def test_sigma_is_that_of_the_formula(std: Any) -> None:
    found = bounded_log_std(torch.from_numpy(RAW), std).exp()
    assert largest_difference("sigma", found, FORMULAS[std]) < 1e-13


@pytest.mark.parametrize(("std", "middle"), [("sigmoid", 5.00005), ("tanh", math.sqrt(1e-3))])
def test_the_middle_of_the_range(std: Any, middle: float) -> None:
    assert float(bounded_log_std(torch.zeros(1), std).exp()) == pytest.approx(middle, rel=1e-12)


@pytest.mark.parametrize("std", ["sigmoid", "tanh"])
@pytest.mark.parametrize("value", [-1e4, -100.0, 0.0, 100.0, 1e4])
def test_sigma_and_its_gradient_are_finite_in_float32(std: Any, value: float) -> None:
    raw = torch.tensor([value], dtype=torch.float32, requires_grad=True)
    log_std = bounded_log_std(raw, std)
    log_std.sum().backward()
    assert 0.99e-4 <= float(log_std.detach().exp()) <= 10.01
    assert raw.grad is not None
    assert 0 <= float(raw.grad) < math.inf


def test_dbc_uses_the_sigmoid_in_its_loss_and_in_its_target() -> None:
    torch.manual_seed(0)
    rep = pamd.Representation("dbc", encoder=nn.Linear(4, D), latent_dim=D, action_dim=A)
    net = rep.terms["transition"].model
    obs, next_obs, action = torch.randn(9, 4), torch.randn(9, 4), torch.rand(9, A)
    z, z_next = rep.encode(obs), rep.encode(next_obs)
    mean, raw = net(torch.cat([z, action], -1)).detach().numpy().T.reshape(2, D, 9)
    sigma = 1e-4 + (10 - 1e-4) / (1 + np.exp(-raw))
    deviation = (mean - z_next.detach().numpy().T) / sigma
    formula = (np.log(sigma**2) / 2 + deviation**2 / 2).mean()
    latents = rep.batch_latents(obs, action, torch.rand(9), next_obs, generator=torch.Generator().manual_seed(0))
    losses = rep.losses_of(latents, ["transition"])
    assert largest_difference("sigma", losses["transition"].value, formula) < 1e-13
    assert rep.metric is not None
    z_target = latents.latent("obs", rep.metric.config.target_encoder)
    std = rep.metric.inputs(latents).next_std
    assert std is not None
    raw_target = net(torch.cat([z_target, action], -1)).detach().numpy()[:, D:]
    formula = 1e-4 + (10 - 1e-4) / (1 + np.exp(-raw_target))
    assert largest_difference("sigma", std, formula) < 1e-13


@pytest.mark.parametrize("fidelity", ["paper", "released"])
@pytest.mark.parametrize("name", ["dbc", "simsr"])
def test_next_latents_come_from_the_online_encoder(name: str, fidelity: Any) -> None:
    torch.manual_seed(0)
    rep = pamd.Representation(name, encoder=nn.Linear(4, D), latent_dim=D, action_dim=A, fidelity=fidelity)
    for parameter in rep.target_encoders.parameters():
        parameter.data.add_(1.0)
    obs, next_obs, action = torch.randn(9, 4), torch.randn(9, 4), torch.rand(9, A)
    latents = rep.batch_latents(obs, action, torch.rand(9), next_obs, generator=torch.Generator().manual_seed(0))
    losses = rep.losses_of(latents, ["transition"])
    predicted = rep.terms["transition"].predict(latents, rep.encode(obs), action)
    assert predicted.log_std is not None
    mean, sigma = predicted.mean.detach().numpy(), predicted.log_std.detach().exp().numpy()
    target = rep.encode(next_obs).detach().numpy()
    formula = (np.log(sigma**2) / 2 + (target - mean) ** 2 / (2 * sigma**2)).mean()
    assert largest_difference("paper", losses["transition"].value, formula) < 1e-12


def layers(kind: Any) -> list[nn.Linear]:
    if kind == "reward":
        net: nn.Module = Reward(RewardConfig(init="pytorch"), D, A)
    else:
        net = Transition(TransitionConfig(kind=kind, init="pytorch"), D, A)
    return [layer for layer in net.modules() if isinstance(layer, nn.Linear)]


@pytest.mark.parametrize("kind", ["deterministic", "gaussian", "reward"])
def test_pytorch_initialization_is_what_plain_layers_draw(kind: Any) -> None:
    torch.manual_seed(5)
    found = layers(kind)
    torch.manual_seed(5)
    outputs = {"deterministic": D, "gaussian": 2 * D, "reward": 1}[kind]
    plain = [nn.Linear(D if kind == "reward" else D + A, 512), nn.Linear(512, outputs)]
    for layer, expected in zip(found, plain, strict=True):
        for one, other in zip(layer.parameters(), expected.parameters(), strict=True):
            assert largest_difference("initialization", one, other.detach().numpy()) == 0


def test_an_ensemble_can_be_drawn_as_pytorch_draws_layers() -> None:
    torch.manual_seed(0)
    net = Transition(TransitionConfig(kind="ensemble", members=3, init="pytorch"), D, A)
    for name, parameter in net.named_parameters():
        bound = (D + A if name.endswith(".0") else 512) ** -0.5
        values = parameter.detach()
        assert float(values.abs().max()) <= bound, name
        # A uniform variable on [-b, b] has the variance b^2 / 3.
        assert float(values.var()) == pytest.approx(bound**2 / 3, rel=0.2), name


@pytest.mark.parametrize("fidelity", ["paper", "released"])
@pytest.mark.parametrize(
    ("name", "zero"), [("dbc", False), ("dbc-det+pamd", False), ("deepmdp", False), ("simsr", True)]
)
def test_only_the_dbc_side_keeps_pytorchs_biases(name: str, zero: bool, fidelity: Any) -> None:
    rep = pamd.Representation(name, encoder=nn.Linear(4, D), latent_dim=D, action_dim=A, fidelity=fidelity)
    for name in [term for term in rep.terms if term != "metric"]:
        own = rep.terms[name].named_parameters()
        biases = [p for n, p in own if "bias" in n and ".1." not in n]
        assert [not p.any() for p in biases] == [zero] * len(biases)
