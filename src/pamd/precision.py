"""The precision of an update's largest products, and whether a device computes bfloat16 fast."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

Precision = Literal["float32", "bfloat16"]
"""The type of the encoder's products in updates. Everything from the latents on is float32 (docs/performance.md)."""

_CPU_INFO = Path("/proc/cpuinfo")
_CPU_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""What Linux calls bfloat16 products: two instruction sets of x86, and that of ARM."""


def has_bfloat16(device: torch.device) -> bool:
    """Return whether the device has bfloat16 arithmetic. A device without it is several times slower with bfloat16.

    It is False for a CPU whose instructions are unknown, because the system is not Linux.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type == "cpu" and not _CPU_FLAGS.isdisjoint(_cpu_flags())


def _cpu_flags() -> list[str]:
    """Return the instruction sets of the first CPU; [] if the system does not list them."""
    try:
        lines = _CPU_INFO.read_text().splitlines()
    except OSError:
        return []
    return next((line.split() for line in lines if line.startswith(("flags", "Features"))), [])
