"""Checks of values before they are stored, so that invalid values do not cause errors a million updates later."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pamd.errors import DtypeError, ReplayError, ShapeError
from pamd.replay.layout import Layout

__all__ = ["check_action", "check_frame", "check_outcome"]

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def check_frame(frame: NDArray[Any], layout: Layout) -> None:
    """Raise an error unless `frame` is a finite array with the layout's shape and dtype."""
    if not isinstance(frame, np.ndarray) or frame.dtype != layout.dtype:
        got = getattr(frame, "dtype", type(frame).__name__)
        raise DtypeError(f"a frame must be a numpy array of {layout.dtype}, got {got}")
    if frame.shape != layout.frame_shape:
        raise ShapeError(f"a frame must be {list(layout.frame_shape)}, got {list(frame.shape)}")
    if layout.dtype != "uint8" and not np.isfinite(frame).all():
        raise ReplayError("a frame must be finite, got NaN or infinity")


def check_action(action: ArrayLike, layout: Layout) -> NDArray[np.float32]:
    """Return the action as a float32 array [A]. Raise an error unless it is finite and has this shape."""
    try:
        row = np.asarray(action, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DtypeError(f"an action must be numbers, got {action!r}: {error}") from None
    if row.shape != (layout.action_dim,):
        raise ShapeError(f"an action must be [{layout.action_dim}], got {list(row.shape)}")
    if not np.isfinite(row).all():
        raise ReplayError(f"an action must be finite, got {row.tolist()}")
    return row


def check_outcome(reward: float, terminated: bool) -> None:
    """Raise an error unless `reward` is one finite number and `terminated` is a bool."""
    if np.ndim(reward) != 0:
        raise ShapeError(f"a reward must be one number, got {list(np.shape(reward))}")
    if isinstance(reward, str) or not abs(reward) <= _LARGEST_FLOAT32:
        raise ReplayError(f"a reward must be a finite float32, got {reward!r}")
    if not isinstance(terminated, bool | np.bool_):
        raise DtypeError(f"terminated must be a bool, got {terminated!r}")
