"""Random shift: pad an image by repeating its border, then crop it back at a random offset."""

from __future__ import annotations

import torch
from torch import Tensor

from pamd.augmentations.base import AUGMENTATIONS, Augmentation
from pamd.errors import DtypeError, ShapeError
from pamd.schema import Count, record


@record
class RandomShiftConfig:
    pixels: Count = 4
    """The largest shift in each direction, in pixels."""


@AUGMENTATIONS.register("random-shift")
class RandomShift(Augmentation[RandomShiftConfig]):
    """A shift of each image by up to `pixels` rows and columns. All channels of an image move together."""

    Config = RandomShiftConfig

    def __call__(self, obs: Tensor, generator: torch.Generator | None) -> Tensor:
        """Shift obs [B, C, H, W], uint8. The result is channels last in memory, which is the encoder's order."""
        if obs.ndim != 4:
            raise ShapeError(f"augmentation 'random-shift' requires images [B, C, H, W], got {list(obs.shape)}")
        if obs.dtype != torch.uint8:
            raise DtypeError(f"augmentation 'random-shift' requires uint8 images, got {obs.dtype}")
        return shift_images(obs, self.config.pixels, generator)


def shift_images(obs: Tensor, limit: int, generator: torch.Generator | None) -> Tensor:
    """Shift each image of obs [B, C, H, W] by up to `limit` rows and columns. The result is channels last."""
    batch, channels, height, width = obs.shape
    rows, columns = _source(obs, limit, generator)
    image = torch.arange(batch, device=obs.device)[:, None]
    # Gather whole pixels [B * H * W, C] as bytes. Padding requires a float copy and takes six times as long.
    pixels = obs.contiguous(memory_format=torch.channels_last).permute(0, 2, 3, 1).reshape(-1, channels)
    source = ((image * height + rows) * width)[:, :, None] + columns[:, None, :]
    shifted = pixels.index_select(0, source.view(-1))
    return shifted.view(batch, height, width, channels).permute(0, 3, 1, 2)


def _source(obs: Tensor, limit: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Return the source row [B, H] and column [B, W] of every pixel. Clamping them repeats the border."""
    batch, _, height, width = obs.shape
    # Draw on the generator's device, so that a CPU generator gives the same shifts on every device.
    device = obs.device if generator is None else generator.device
    drawn = torch.randint(0, 2 * limit + 1, (2, batch, 1), generator=generator, device=device)
    offset = drawn.to(obs.device) - limit
    rows = offset[0] + torch.arange(height, device=obs.device)
    columns = offset[1] + torch.arange(width, device=obs.device)
    return rows.clamp_(0, height - 1), columns.clamp_(0, width - 1)
