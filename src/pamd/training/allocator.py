"""Keep freed memory: large short-lived tensors otherwise page-fault in anew at every update."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["keep_freed_memory"]

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 * 2**20
"""More than this glibc refuses on 64 bits."""


def keep_freed_memory() -> bool:
    """Tell the C library so, for this process; False where it does not take such hints (not glibc)."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD) and mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
