"""Keep freed memory: large short-lived tensors otherwise page-fault in anew at every update."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["keep_freed_memory", "return_freed_memory"]

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 * 2**20
"""More than this glibc refuses on 64 bits."""


def keep_freed_memory() -> bool:
    """Tell the C library so, for this process; False where it does not take such hints (not glibc)."""
    return _set(_LARGEST_MMAP_THRESHOLD, 2**31 - 1)


def return_freed_memory() -> bool:
    """Where glibc's own rule settles in a program of large tensors: what `keep_freed_memory` is measured against.

    By that rule the first threshold follows the largest freed block, and the second is twice the first.
    """
    return _set(_LARGEST_MMAP_THRESHOLD, 2 * _LARGEST_MMAP_THRESHOLD)


def _set(mmap_threshold: int, trim_threshold: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, mmap_threshold) and mallopt(_M_TRIM_THRESHOLD, trim_threshold))
