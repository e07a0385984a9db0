"""Augmentations: the contract that all of them keep, and random shift against a slow reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from pamd.augmentations import AUGMENTATIONS, Augmentation, augmentation
from pamd.errors import ConfigError, DtypeError, ShapeError, UnknownNameError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(batch: int = 5, channels: int = 6, height: int = 10, width: int = 7) -> Tensor:
    return torch.randint(0, 256, (batch, channels, height, width), dtype=torch.uint8, generator=seeded(1))


def shifted_slowly(obs: Tensor, pixels: int, generator: torch.Generator) -> Tensor:
    """Pixel by pixel, with the same draws: one offset of rows per image, then one of columns per image."""
    batch, _, height, width = obs.shape
    offset = torch.randint(0, 2 * pixels + 1, (2, batch, 1), generator=generator)
    out = torch.empty_like(obs)
    for image in range(batch):
        down, right = (int(offset[axis, image, 0]) - pixels for axis in range(2))
        for row in range(height):
            for column in range(width):
                source = min(max(row + down, 0), height - 1), min(max(column + right, 0), width - 1)
                out[image, :, row, column] = obs[image, :, source[0], source[1]]
    return out


@pytest.mark.parametrize("name", AUGMENTATIONS.names())
def test_contract(name: str) -> None:
    augment, obs = augmentation(name), images()
    before = obs.clone()
    out = augment(obs, seeded(3))
    assert out.shape == obs.shape
    assert out.dtype == obs.dtype
    assert torch.equal(obs, before), "the input is unchanged"
    assert torch.equal(augment(obs, seeded(3)), out), "the generator determines the output"


def test_none_returns_the_observations_and_draws_nothing() -> None:
    generator, obs = seeded(), images()
    before = generator.get_state()
    assert augmentation("none")(obs, generator) is obs
    assert torch.equal(generator.get_state(), before)
    state = torch.zeros(4, 17)
    assert augmentation("none")(state, generator) is state


@pytest.mark.parametrize("pixels", [1, 4, 9])
@pytest.mark.parametrize("channels", [1, 6])
def test_random_shift_equals_the_slow_reference(pixels: int, channels: int) -> None:
    obs = images(batch=40, channels=channels)
    augment, fast, slow = augmentation("random-shift", pixels=pixels), seeded(5), seeded(5)
    for _ in range(2):
        assert torch.equal(augment(obs, fast), shifted_slowly(obs, pixels, slow))
    assert torch.equal(fast.get_state(), slow.get_state()), "it draws the same numbers"


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_random_shift_ignores_the_memory_order_and_gives_channels_last(memory_format: torch.memory_format) -> None:
    obs = images()
    out = augmentation("random-shift")(obs.contiguous(memory_format=memory_format), seeded())
    assert torch.equal(out, augmentation("random-shift")(obs, seeded()))
    assert out.is_contiguous(memory_format=torch.channels_last)


def test_random_shift_reads_a_view_of_shared_frames() -> None:
    frames = torch.randint(0, 256, (5, 4, 3, 10, 10), dtype=torch.uint8, generator=seeded(2))
    view = frames[:, 1:].view(5, 9, 10, 10)
    augment = augmentation("random-shift")
    assert torch.equal(augment(view, seeded()), augment(view.clone(), seeded()))


@pytest.mark.parametrize(("width", "pixels"), [(84, 4), (32, 1), (64, 3), (7, 1)])
def test_jitter_shifts_images_by_a_fraction_of_their_width(width: int, pixels: int) -> None:
    obs = images(width=width)
    expected = augmentation("random-shift", pixels=pixels)(obs, seeded())
    assert torch.equal(augmentation("jitter")(obs, seeded()), expected)
    floats = augmentation("jitter")(obs.double() / 255, seeded())
    assert torch.equal(floats, expected.double() / 255)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_jitter_adds_noise_to_vectors(dtype: torch.dtype) -> None:
    obs = torch.zeros(50_000, 2, dtype=dtype)
    noisy = augmentation("jitter", noise=0.3)(obs, seeded())
    assert noisy.dtype == dtype
    assert float(noisy.double().std()) == pytest.approx(0.3, rel=0.02)
    assert float(noisy.double().mean()) == pytest.approx(0, abs=0.01)
    with pytest.raises(
        DtypeError, match=r"'jitter' requires images .* or floating-point observations, got torch.uint8"
    ):
        augmentation("jitter")(torch.zeros(4, 17, dtype=torch.uint8), seeded())


@pytest.mark.parametrize("obs", [images(), torch.zeros(4, 17)], ids=["images", "vectors"])
def test_without_a_generator_torchs_own_draws(obs: Tensor) -> None:
    drawn = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        drawn.append(augmentation("jitter")(obs, None))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_every_shift_occurs() -> None:
    obs = torch.arange(25, dtype=torch.uint8).view(1, 1, 5, 5).expand(400, 1, 5, 5)
    centers = augmentation("random-shift", pixels=2)(obs, seeded())[:, 0, 2, 2]
    assert sorted(centers.unique().tolist()) == list(range(25))


def test_wrong_observations_are_named() -> None:
    with pytest.raises(ShapeError, match=r"'random-shift' requires images \[B, C, H, W\], got \[4, 17\]"):
        augmentation("random-shift")(torch.zeros(4, 17), seeded())
    with pytest.raises(DtypeError, match=r"'random-shift' requires uint8 images, got torch.float32"):
        augmentation("random-shift")(images().float(), seeded())


def test_wrong_names_and_options_are_named() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'random-shift'"):
        augmentation("random-shit")
    with pytest.raises(UnknownNameError, match="Did you mean 'pixels'"):
        augmentation("random-shift", pixel=3)
    for wrong in (0, -1, 1.5, "4", True):
        with pytest.raises(ConfigError, match="pixels"):
            augmentation("random-shift", pixels=wrong)
    with pytest.raises(UnknownNameError, match="pixels"):
        augmentation("none", pixels=4)


@dataclass(frozen=True)
class InvertConfig:
    value: int = 255


class Invert(Augmentation[InvertConfig]):
    Config = InvertConfig

    def __call__(self, obs: Tensor, generator: torch.Generator) -> Tensor:
        return self.config.value - obs


@pytest.fixture
def registered() -> Iterator[str]:
    AUGMENTATIONS.register("invert")(Invert)
    yield "invert"
    AUGMENTATIONS.unregister("invert")


def test_an_augmentation_from_outside_is_one_class(registered: str) -> None:
    obs = images()
    assert torch.equal(augmentation(registered)(obs, seeded()), 255 - obs)
    assert torch.equal(augmentation(registered, value=0)(obs, seeded()), 0 - obs)
