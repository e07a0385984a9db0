"""The losses of curl, taco, mrq and spr against their formulas, written again with NumPy and plain loops in float64."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.terms.windows import window_for
from torch import Tensor, nn

import pamd
from pamd.terms.contrastive import InfoNCE
from pamd.terms.mrq import symexp_bins, two_hot_cross_entropy
from pamd.types import OperatorInputs, Window

D, A, SIZE = 4, 2, 7
Array = NDArray[np.float64]


def make(name: str, **fields: Any) -> pamd.Representation:
    """A representation whose target copies differ from their networks, so that a wrong copy changes the loss."""
    torch.manual_seed(0)
    rep = pamd.Representation(
        pamd.method(name, latent_dim=D, latent_space="free", **fields), encoder=nn.Linear(3, D), action_dim=A
    ).double()
    with torch.no_grad():
        for parameter in rep.parameters():
            if not parameter.requires_grad or parameter.ndim == 1:  # biases start at 0
                parameter.add_(0.1 * torch.randn(parameter.shape, dtype=torch.float64))
    return rep


def transitions() -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(1)
    obs, next_obs = torch.randn(2, SIZE, 3, generator=draw).double()
    return obs, torch.rand(SIZE, A, generator=draw).double(), torch.rand(SIZE, generator=draw).double(), next_obs


def windows(rep: pamd.Representation) -> Window:
    window = window_for(rep.method, *transitions()[1:], torch.Generator().manual_seed(2))
    assert window is not None
    assert len(set(window.length.tolist())) > 1
    return dataclasses.replace(window, reward=3 * window.reward - 1)


def affine(x: Array, layer: Any) -> Array:
    return x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def elu(x: Array) -> Array:
    return np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1)


def normed(x: Array, layer: Any) -> Array:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    scaled = (x - mean) / np.sqrt(variance + 1e-5)
    return scaled * layer.weight.detach().numpy() + layer.bias.detach().numpy()


def info_nce(query: Array, key: Array, weight: Array, counted: list[int]) -> tuple[float, float]:
    """The mean over counted rows of -log softmax at the diagonal, and the share of rows whose own logit is largest."""
    losses, hits = [], []
    for i in counted:
        logits = [float(query[i] @ weight @ key[j]) for j in counted]
        own = logits[counted.index(i)]
        losses.append(math.log(sum(math.exp(logit - own) for logit in logits)))
        hits.append(own == max(logits))
    return float(np.mean(losses)), float(np.mean(hits))


def near(value: Any, expected: float) -> None:
    assert abs(value.item() - expected) <= 1e-10 * max(1.0, abs(expected))


@pytest.mark.parametrize("query", ["augmented", "given"])
def test_curl(query: str) -> None:
    rep, batch = make("curl", curl={"query": query, "weight": 0.5}), transitions()
    losses = rep.losses(*batch, generator=torch.Generator().manual_seed(3))
    draw, views = torch.Generator().manual_seed(3), []
    for _ in range(1 if query == "given" else 2):  # queries first, then keys
        views.append(batch[0].numpy() + 0.05 * torch.randn(SIZE, 3, generator=draw).double().numpy())
    q = affine(batch[0].numpy() if query == "given" else views[0], rep.encoder.network)
    k = affine(views[-1], rep.target_encoders["ema"].network)
    loss, accuracy = info_nce(q, k, rep.terms["curl"].contrast.weight.detach().numpy(), list(range(SIZE)))
    near(losses.total, 0.5 * loss)
    near(losses.metrics["curl_accuracy"], accuracy)
    assert list(losses) == ["curl"]


@pytest.mark.parametrize("next_encoder", ["online", "ema"])
def test_taco(next_encoder: str) -> None:
    options = {"next_encoder": next_encoder, "reward_weight": 0.3, "weight": 0.7}
    rep, (obs, action, reward, next_obs) = make("taco", taco=options), transitions()
    window, term = windows(rep), rep.terms["taco"]
    losses = rep.losses(obs, action, reward, next_obs, inputs=OperatorInputs(window=window))
    assert list(losses) == ["taco", "curl"]
    assert window.obs is not None
    assert window.action is not None
    z, rows = affine(obs.numpy(), rep.encoder.network), []
    encoder = rep.encoder if next_encoder == "online" else rep.target_encoders["ema"]
    later = affine(window.obs.numpy(), encoder.network)
    for i in range(SIZE):
        tokens = [affine(relu(affine(a, term.tokens[0])), term.tokens[2]) for a in window.action[i].numpy()]
        rows.append(np.concatenate([z[i], *tokens]))
    counted = [i for i in range(SIZE) if window.length[i] == 3]
    assert 2 <= len(counted) < SIZE
    projected = np.stack([affine(relu(affine(row, term.project[0])), term.project[2]) for row in rows])
    loss, accuracy = info_nce(projected, later, term.contrast.weight.detach().numpy(), counted)
    errors = []
    for i in counted:
        predicted = affine(relu(affine(rows[i], term.reward[0])), term.reward[2]).item()
        errors.append((predicted - sum(window.reward[i].tolist())) ** 2)
    near(losses["taco"].value, 0.7 * (loss + 0.3 * float(np.mean(errors))))
    near(losses.metrics["taco_accuracy"], accuracy)
    near(losses.metrics["taco_reward_loss"], float(np.mean(errors)))


def test_taco_without_a_complete_window_is_0_and_its_gradients_are_finite() -> None:
    rep = make("taco")
    window = dataclasses.replace(windows(rep), length=torch.ones(SIZE, dtype=torch.int64))
    loss = rep.losses(*transitions(), inputs=OperatorInputs(window=window))["taco"].value
    loss.backward()
    assert float(loss.detach()) == 0
    assert all(p.grad is None or not p.grad.any() for p in rep.parameters())


def two_hot(reward: float, bins: list[float]) -> list[float]:
    reward = min(max(reward, bins[0]), bins[-1])
    at = max(i for i in range(len(bins) - 1) if bins[i] <= reward)
    share = (reward - bins[at]) / (bins[at + 1] - bins[at])
    return [1 - share if i == at else share if i == at + 1 else 0.0 for i in range(len(bins))]


@pytest.mark.parametrize("target", ["ema", "periodic"])
def test_mrq(target: str) -> None:
    options = {"target_encoder": target, "bins": 9, "largest_bin": 2.0, "hidden": 16, "weight": 0.7}
    rep, (obs, action, reward, next_obs) = make("mrq", mrq=options), transitions()
    window, term = windows(rep), rep.terms["mrq"]
    losses = rep.losses(obs, action, reward, next_obs, inputs=OperatorInputs(window=window))
    assert window.sequence is not None
    assert window.action is not None
    grid = [-2 + 0.5 * i for i in range(9)]
    bins = [math.copysign(math.exp(abs(x)) - 1, x) for x in grid]
    sums = {"latent": 0.0, "reward": 0.0, "done": 0.0}
    for i in range(SIZE):
        z = affine(obs[i].numpy(), rep.encoder.network)
        for k in range(int(window.length[i])):
            encoded = elu(affine(window.action[i, k].numpy(), term.action[0]))
            joined = elu(normed(affine(np.concatenate([z, encoded]), term.joint[0]), term.joint[1]))
            out = affine(elu(affine(joined, term.joint[3])), term.linear)
            z, logits, done = out[:D], out[D:-1], out[-1]
            wanted = affine(window.sequence[i, k].numpy(), rep.target_encoders[target].network)
            sums["latent"] += float(np.mean((z - wanted) ** 2))
            log_p = logits - math.log(sum(math.exp(logit) for logit in logits))
            sums["reward"] -= sum(p * q for p, q in zip(two_hot(float(window.reward[i, k]), bins), log_p, strict=True))
            ended = k == int(window.length[i]) - 1 and float(window.not_done[i]) == 0
            sums["done"] += float((done - ended) ** 2)
    for name, value in sums.items():
        near(losses.metrics[f"mrq_{name}_loss"], value / SIZE)
    near(losses.total, 0.7 * (sums["latent"] + 0.1 * sums["reward"] + 0.1 * sums["done"]) / SIZE)
    assert (window.terminated & window.mask).any()


@pytest.mark.parametrize("reward", [-30000.0, -22025.4, -1.0, -1e-3, 0.0, 0.2, 3.7, 22025.0, 1e9])
def test_a_two_hot_reward_has_its_mean_at_the_reward(reward: float) -> None:
    value = torch.tensor([reward], dtype=torch.float64)
    bins = symexp_bins(65, 10.0, value)
    logits = torch.randn(1, 65, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    loss = two_hot_cross_entropy(logits, value, bins)
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    encoded = torch.softmax(logits, -1).detach() - gradient  # the gradient of a cross-entropy is softmax - target
    assert float(bins[-1]) == pytest.approx(math.exp(10) - 1)
    assert int((encoded > 1e-9).sum()) <= 2
    expected = min(max(reward, 1 - math.exp(10)), math.exp(10) - 1)
    assert float(encoded @ bins) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    wanted = torch.tensor(two_hot(reward, bins.tolist()), dtype=torch.float64)
    near(loss, -(wanted * torch.log_softmax(logits, -1)).sum().item())


def test_spr() -> None:
    rep, (obs, action, reward, next_obs) = (
        make("spr", spr={"hidden": 16, "projection": 5, "weight": 0.7}),
        transitions(),
    )
    window, term = windows(rep), rep.terms["spr"]
    losses = rep.losses(obs, action, reward, next_obs, inputs=OperatorInputs(window=window))
    assert window.sequence is not None
    assert window.action is not None
    total = 0.0
    for i in range(SIZE):
        z = affine(obs[i].numpy(), rep.encoder.network)
        for k in range(int(window.length[i])):
            joined = np.concatenate([z, window.action[i, k].numpy()])
            z = affine(relu(normed(affine(joined, term.model[0]), term.model[1])), term.model[3])
            left = affine(affine(z, term.projection), term.predictor)
            target = affine(window.sequence[i, k].numpy(), rep.target_encoders["ema"].network)
            right = affine(target, term.target_projection)
            total += 1 - float(left @ right) / math.sqrt(float(left @ left) * float(right @ right))
    near(losses.total, 0.7 * total / SIZE)


def test_the_target_projection_of_spr_follows_the_projection() -> None:
    rep = make("spr")
    term = rep.terms["spr"]
    before = term.target_projection.weight.clone()
    rep.update_targets(), rep.update_targets()
    torch.testing.assert_close(term.target_projection.weight, before.lerp(term.projection.weight, 0.005))


def test_mrq_copies_its_encoder_every_250_updates() -> None:
    rep = make("mrq")
    target = rep.target_encoders["periodic"].network.weight
    copied = []
    for update in range(1, 502):
        with torch.no_grad():
            rep.encoder.network.weight += 1
        rep.update_targets()
        copied += [update] if torch.equal(target, rep.encoder.network.weight) else []
    assert copied == [250, 500]


@pytest.mark.parametrize("name", ["curl", "taco", "mrq", "spr"])
def test_keys_and_targets_receive_no_gradient(name: str) -> None:
    """The observations of keys and targets are leaves here: a path to them would show."""
    rep, (obs, action, reward, next_obs) = make(name), transitions()
    window = None if name == "curl" else windows(rep)
    next_obs.requires_grad_()
    if window is not None:
        later = window.last_obs if window.sequence is None else window.sequence
        later = later.detach().requires_grad_()
        window = dataclasses.replace(window, **{"obs" if window.sequence is None else "sequence": later})
    rep.losses(obs, action, reward, next_obs, inputs=OperatorInputs(window=window)).total.backward()
    assert next_obs.grad is None
    if window is not None:
        assert window.last_obs.grad is None if window.sequence is None else window.sequence.grad is None
    assert all(p.grad is None for p in rep.target_encoders.parameters())
    assert all(p.grad is None for p in rep.terms.parameters() if not p.requires_grad)


def test_the_gradient_of_info_nce_reaches_the_query_and_the_weight() -> None:
    contrast = InfoNCE(D).double()
    query, key = torch.randn(2, 5, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    query.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda q, w: _loss(contrast, w, q, key), (query, contrast.weight.detach().requires_grad_())
    )


def _loss(contrast: InfoNCE, weight: Tensor, query: Tensor, key: Tensor) -> Tensor:
    found: tuple[Tensor, Tensor] = torch.func.functional_call(contrast, {"weight": weight}, (query, key))
    return found[0]
