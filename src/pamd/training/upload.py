"""Batches on their way to the learner's device, while the host does other work."""

from __future__ import annotations

import torch

from pamd.types import Batch

__all__ = ["Upload"]


class Upload:
    """Copies batches to a device without waiting. `wait` must come before the memory of the last batch changes."""

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
        """Return when the last copy is done. The update that follows it on the device may still run."""
        if self._done is not None:
            self._done.synchronize()
            self._done = None
