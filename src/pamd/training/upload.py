"""Asynchronous copies of batches to the learner's device."""

from __future__ import annotations

import torch

from pamd.types import Batch

__all__ = ["Upload"]


class Upload:
    """Copies batches to a device without waiting. Call `wait` before the memory of the last batch changes."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._done: torch.cuda.Event | None = None

    def __call__(self, batch: Batch) -> Batch:
        moved = batch.to(self._device, non_blocking=True)
        if self._device.type == "cuda":
            self._done = torch.cuda.Event()
            self._done.record()
        return moved

    def wait(self) -> None:
        """Wait until the last copy is finished. The following update may still be running on the device."""
        if self._done is not None:
            self._done.synchronize()
            self._done = None
