"""What may go into a replay. A wrong value is met here, not a million updates later."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pamd.errors import DtypeError, ReplayError, ShapeError
from pamd.replay.layout import Layout

__all__ = ["check_frame", "check_outcome", "checked_action"]

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def check_frame(frame: NDArray[np.uint8], layout: Layout) -> None:
    """Raise unless `frame` is [C, H, W] of uint8."""
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8:
        raise DtypeError(f"a frame must be a numpy array of uint8, got {getattr(frame, 'dtype', type(frame).__name__)}")
    if frame.shape != layout.frame_shape:
        raise ShapeError(f"a frame must be {list(layout.frame_shape)}, got {list(frame.shape)}")


def checked_action(action: ArrayLike, layout: Layout) -> NDArray[np.float32]:
    """[A], float32, finite."""
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
    """Raise unless `reward` is one finite number and `terminated` a bool."""
    if np.ndim(reward) != 0:
        raise ShapeError(f"a reward must be one number, got {list(np.shape(reward))}")
    if isinstance(reward, str) or not abs(reward) <= _LARGEST_FLOAT32:
        raise ReplayError(f"a reward must be a finite float32, got {reward!r}")
    if not isinstance(terminated, bool | np.bool_):
        raise DtypeError(f"terminated must be a bool, got {terminated!r}")
