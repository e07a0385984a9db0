"""Random shift: pad by repeating the border, crop back at a random offset (optional, off in the paper)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["random_shift"]


def random_shift(obs: Tensor, pixels: int, generator: torch.Generator) -> Tensor:
    """Each image shifted by up to `pixels` in each direction. obs: [B, C, H, W] uint8 -> the same."""
    batch, _, height, width = obs.shape
    padded = F.pad(obs.float(), (pixels,) * 4, mode="replicate").to(obs.dtype)
    offset = torch.randint(0, 2 * pixels + 1, (2, batch, 1), generator=generator, device=generator.device).to(
        obs.device
    )
    rows = offset[0] + torch.arange(height, device=obs.device)
    columns = offset[1] + torch.arange(width, device=obs.device)
    image = torch.arange(batch, device=obs.device)[:, None, None]
    return padded.permute(0, 2, 3, 1)[image, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
