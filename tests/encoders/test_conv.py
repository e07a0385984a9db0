"""The convolutional encoder: its features, and the transformed first layer that reads differences."""

from __future__ import annotations

import pytest
import torch

from pamd.encoders import encoder
from pamd.encoders.conv import Conv
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


def test_pixels_that_want_a_gradient_get_one() -> None:
    network = stack(9, 24, 8, (2, 2))
    obs = torch.rand(2, 9, 24, 24, requires_grad=True)
    (gradient,) = torch.autograd.grad(network.trunk(obs).sum(), obs)
    assert float(gradient.abs().max()) > 0


@pytest.mark.parametrize("name", STACKS)
def test_features_are_those_of_plain_layers_in_channels_last_order(name: str) -> None:
    size, filters, strides = STACKS[name]
    network = stack(9, size, filters, strides).double()
    obs = torch.randint(0, 256, (3, 9, size, size), dtype=torch.uint8)
    x = obs.double() / 255
    for layer in network.layers:
        x = layer(x).relu()
    torch.testing.assert_close(network.trunk(obs), x.permute(0, 2, 3, 1).flatten(1))


def test_differences_are_read_without_forming_them() -> None:
    """The first layer gives what the same weights give on differences between frames and on the newest frame."""
    options = {"observation_shape": (9, 16, 16), "latent_dim": 4, "filters": 8, "strides": (2, 1)}
    network = encoder("conv", input="differences", **options).double()
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
        encoder("conv", observation_shape=(channels, 24, 24), latent_dim=4, input="differences")
