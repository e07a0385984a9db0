"""The encoder screening reports an error that decreases with training, on images of the stated size."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from benchmarks.encoders import SETTINGS, Screened, Seen, collect, screen

from benchmarks import encoders
from pamd.configuration import configure


@pytest.fixture(scope="module")
def blobs() -> Seen:
    """A bright square whose place is the state."""
    draw = np.random.default_rng(0)
    places = draw.integers(0, 80, (1400, 2))
    frames = np.zeros((1400, 3, 3, 96, 96), np.uint8)
    for frame, (row, column) in zip(frames, places, strict=True):
        frame[:, :, row : row + 16, column : column + 16] = 255
    known = (places - places.mean(0)) / places.std(0)
    return Seen(frames, torch.as_tensor(known, dtype=torch.float32))


def test_the_error_falls_with_time(blobs: Seen) -> None:
    short, steps = screen(blobs, Screened(filters=8), seed=0, seconds=0.01)
    longer, more = screen(blobs, Screened(filters=8), seed=0, seconds=1.0)
    assert more > steps
    assert longer < 0.5 * short


@pytest.mark.parametrize("antialias", [True, False])
def test_images_are_averaged_or_sampled(antialias: bool, blobs: Seen) -> None:
    images = encoders._images(blobs.frames, Screened(size=32, antialias=antialias))
    assert images.shape == (1400, 9, 32, 32)
    assert len(images.unique()) == 2 or antialias  # a mean has values between black and white


def test_a_setting_is_the_scale_cpu() -> None:
    config, ours = configure("cartpole_swingup", "sac", scale="cpu"), SETTINGS["cpu"]
    options = config.encoder.options
    assert (config.env.size, config.env.antialias > 1) == (ours.size, ours.antialias)
    assert (options.filters, tuple(options.strides), options.input) == (ours.filters, ours.strides, ours.reads)
    assert (config.learner.options.batch, config.learner.options.learning_rate) == (ours.batch, ours.learning_rate)
    assert config.env.action_repeat == encoders.TASKS["cartpole_swingup"]


def test_real_pictures_and_states() -> None:
    seen = collect("cartpole_swingup", 8, samples=100)
    assert seen.frames.shape == (100, 3, 3, 96, 96)
    assert seen.states.std(0, correction=0).allclose(torch.ones(seen.states.shape[1]))
