"""Memory allocator settings. Keeping freed memory avoids page faults for large short-lived tensors at every update."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["keep_freed_memory", "return_freed_memory"]

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 * 2**20
"""The largest value that glibc accepts on 64-bit systems."""


def keep_freed_memory() -> bool:
    """Tell the C library to keep freed memory in this process. Returns False if it cannot (not glibc)."""
    return _set(_LARGEST_MMAP_THRESHOLD, 2**31 - 1)


def return_freed_memory() -> bool:
    """Set the thresholds that glibc's default rule reaches with large tensors: the baseline for `keep_freed_memory`.

    By default the mmap threshold follows the largest freed block, and the trim threshold is twice as large.
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
