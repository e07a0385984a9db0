"""The backward pass by hand gives autograd's gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from pamd.encoders import encoder
from pamd.encoders.conv import Conv
from pamd.encoders.convolve import convolve
from pamd.errors import ShapeError

STACKS = {
    "paper": (84, 32, (2, 1, 1, 1)),
    "cpu": (48, 32, (3, 2, 1, 1)),
    "smoke": (24, 8, (2, 2)),
    "one layer": (20, 16, (1,)),
}


def stack(channels: int, size: int, filters: int, strides: tuple[int, ...]) -> Conv:
    made = encoder("conv", observation_shape=(channels, size, size), latent_dim=4, filters=filters, strides=strides)
    assert isinstance(made, Conv)
    return made


def gradients(network: Conv, obs: Tensor, grad_output: Tensor, by_hand: bool) -> list[Tensor]:
    weights, biases = network.weights_and_biases()
    x = obs.contiguous(memory_format=torch.channels_last)
    if by_hand:
        y = convolve(x, weights, biases, network.strides)
        assert type(y.grad_fn).__name__ == "_StackBackward"
    else:
        y = x
        for layer in network.layers:
            y = F.relu(layer(y))
    return list(torch.autograd.grad(y, [*weights, *biases], grad_output.reshape(y.shape)))


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("batch", [1, 5, 33])  # less than a piece, one that no piece divides, several pieces
def test_gradients_are_autograds(name: str, batch: int) -> None:
    size, filters, strides = STACKS[name]
    draw = torch.Generator().manual_seed(batch)
    network = stack(9, size, filters, strides).double()
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.2, generator=draw)
    obs = torch.rand(batch, 9, size, size, dtype=torch.float64, generator=draw)
    grad_output = torch.randn(batch, network.feature_dim, dtype=torch.float64, generator=draw)
    for ours, theirs in zip(
        gradients(network, obs, grad_output, True), gradients(network, obs, grad_output, False), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_single_precision_is_as_near_to_the_truth_as_autograds() -> None:
    size, filters, strides = STACKS["paper"]
    draw = torch.Generator().manual_seed(0)
    network = stack(9, size, filters, strides)
    obs = torch.rand(40, 9, size, size, generator=draw)
    grad_output = torch.randn(40, network.feature_dim, generator=draw)
    ours, theirs = (gradients(network, obs, grad_output, by_hand) for by_hand in (True, False))
    truth = gradients(network.double(), obs.double(), grad_output.double(), False)
    for hand, auto, true in zip(ours, theirs, truth, strict=True):
        error = float((hand - true).abs().max())
        assert error <= 2 * float((auto - true).abs().max()) + 1e-6 * float(true.abs().max())


def test_only_the_pass_that_carries_a_gradient_is_by_hand() -> None:
    network = stack(9, 24, 8, (2, 2))
    obs = torch.zeros(2, 9, 24, 24, dtype=torch.uint8)
    with torch.no_grad():
        assert network.trunk(obs).grad_fn is None
    frozen = stack(9, 24, 8, (2, 2)).requires_grad_(False)
    assert not frozen.trunk(obs).requires_grad


def test_pixels_that_want_a_gradient_get_one() -> None:
    """The hand-written pass has none for pixels, so such a call takes autograd's."""
    network = stack(9, 24, 8, (2, 2))
    obs = torch.rand(2, 9, 24, 24, requires_grad=True)
    (gradient,) = torch.autograd.grad(network.trunk(obs).sum(), obs)
    assert float(gradient.abs().max()) > 0


@pytest.mark.parametrize("name", STACKS)
def test_the_pass_without_a_gradient_gives_the_same_features(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    size, filters, strides = STACKS[name]
    network = stack(9, size, filters, strides)
    obs = torch.randint(0, 256, (3, 9, size, size), dtype=torch.uint8)
    with torch.no_grad():
        fused = network.trunk(obs)
        monkeypatch.setattr("pamd.encoders.convolve._has_fused_layer", lambda: False)
        plain = network.trunk(obs)
    torch.testing.assert_close(fused, plain, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(network.trunk(obs).detach(), plain, rtol=1e-5, atol=1e-6)
    assert float(fused.min()) >= 0


def test_differences_are_read_without_forming_them() -> None:
    """The first layer gives what the same weights give on differences between frames and on the newest frame."""
    options = {"observation_shape": (9, 16, 16), "latent_dim": 4, "filters": 8, "strides": (2, 1)}
    network = encoder("conv", reads="differences", **options).double()
    plain = encoder("conv", **options).double()
    plain.load_state_dict(network.state_dict())
    obs = torch.randint(0, 256, (5, 9, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    x1, x2, x3 = (obs.double() / 255).split(3, dim=1)
    differences = torch.cat([x2 - x1, x3 - x2, x3 - 0.5], dim=1)
    torch.testing.assert_close(network(obs), plain(differences))
    ours, theirs = (
        torch.autograd.grad(made.sum(), list(owner.parameters()))
        for made, owner in ((network(obs), network), (plain(differences), plain))
    )
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_differences_require_a_stack_of_color_frames(channels: int) -> None:
    with pytest.raises(ShapeError, match=r"requires a stack of color frames \[3k, H, W\] with k >= 2"):
        encoder("conv", observation_shape=(channels, 24, 24), latent_dim=4, reads="differences")
