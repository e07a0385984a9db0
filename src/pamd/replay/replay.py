"""The replay buffer. It stores single frames and samples batches of stacked transitions.

Exact resume depends on one rule: a row that one of the two newest checkpoints needs is never overwritten. Only the
newest `capacity` frames, the window, are sampled, and the files have room for `margin` more. Frames that a killed run
wrote after its last checkpoint are therefore in rows that the checkpoints do not need. `add` and `start` raise an error
instead of overwriting rows that are still needed. `needs_sync` is True well before that.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pamd.errors import ConfigError, DtypeError, ReplayError, ShapeError
from pamd.replay import files
from pamd.replay.layout import MINIMUM_MARGIN, FrameDtype, Layout, ReplayConfig, StorageName
from pamd.replay.resources import available_memory, check_resources, layout_forecast
from pamd.replay.ring import Counters, Ring
from pamd.replay.storage import Frame, Storage
from pamd.schema import Count, Index, check_values

if TYPE_CHECKING:
    from pamd.replay.sample import Buffers
    from pamd.types import Batch

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


class Replay:
    """A replay buffer, built by `create` or `open`. It is not thread-safe."""

    def __init__(self, storage: Storage, manifest: files.Manifest, read_only: bool = False) -> None:
        self.layout = manifest.layout
        self.read_only = read_only
        self._storage = storage
        self._manifest = manifest
        self._ring = Ring(storage.age, self.layout.frame_stack, manifest.state.written)
        self._buffers: dict[tuple[int, bool, int, bool], Buffers] = {}

    @staticmethod
    def create(
        config: ReplayConfig,
        *,
        frame_shape: tuple[int, ...],
        action_dim: int,
        frame_stack: int = 3,
        dtype: str = "uint8",
        margin: int = 0,
        directory: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ) -> Replay:
        """Create an empty replay for uint8 frames [C, H, W] or float32 states [n].

        Without a directory it is kept in memory only and cannot `sync`. `margin` must be at least twice the number of
        frames between two checkpoints, plus two.
        """
        # With storage `auto`, a directory takes the frames that do not fit into memory.
        storage: StorageName = "memory" if config.storage == "auto" else config.storage
        layout = Layout(config.capacity, margin, frame_shape, action_dim, frame_stack, storage, cast(FrameDtype, dtype))
        if config.storage == "auto" and directory is not None and layout.memory > available_memory():
            layout = dataclasses.replace(layout, storage="mmap")
        if directory is None and config.storage == "mmap":
            raise ConfigError("replay: storage 'mmap' requires a directory")
        if directory is not None and margin < MINIMUM_MARGIN:
            raise ConfigError(f"replay: with a directory margin must be at least {MINIMUM_MARGIN}, got {margin}")
        manifest = files.Manifest(layout)
        place = None if directory is None else Path(directory)
        if place is not None and (place / files.MANIFEST).exists() and not overwrite:
            raise ReplayError(f"{place} already contains a replay: open it, or pass overwrite=True")
        check_resources(layout_forecast(layout), place)
        if place is None:
            return Replay(Storage(layout, None), manifest)
        files.create(place, layout)
        replay = Replay(Storage(layout, place), manifest)
        manifest.save(place)
        return replay

    @staticmethod
    def open(
        directory: str | os.PathLike[str],
        *,
        state: Mapping[str, Any] | None = None,
        read_only: bool = False,
        storage: StorageName | None = None,
        verify: bool = True,
    ) -> Replay:
        """Open the replay at the last sync, or at the sync of a checkpoint's `state`.

        `state` must belong to one of the last two syncs. `storage` may differ from the original one; `mmap` reads a
        large replay without loading it. Every byte of the window is verified unless `verify` is False. A replay that is
        not read-only is always verified.
        """
        place = Path(directory)
        manifest = files.Manifest.load(place)
        if storage is not None:
            manifest = dataclasses.replace(manifest, layout=dataclasses.replace(manifest.layout, storage=storage))
        layout = manifest.layout
        files.check(place, manifest)
        if state is not None:
            manifest = manifest.at(files.State.parse(state), place)
        check_resources(layout_forecast(layout), None if read_only else place)
        loaded = _load_storage(manifest, place, read_only, verify=verify or not read_only)
        replay = Replay(loaded, manifest, read_only)
        if not read_only:
            # From now on, the files belong to this run. Syncs after `state` are no longer valid.
            manifest.save(place)
        return replay

    @staticmethod
    def grow(directory: str | os.PathLike[str], capacity: int) -> None:
        """Enlarge the replay on disk to `capacity` frames, so that a finished run can be extended.

        Raises ReplayError if frames were already overwritten. If the process is killed, the old or the new replay is
        intact.
        """
        files.grow(Path(directory), capacity)

    def __len__(self) -> int:
        """Return the number of transitions that can be sampled."""
        return self._ring.transitions

    @property
    def written(self) -> int:
        """The number of frames written so far, including overwritten ones."""
        return self._ring.written

    @property
    def newest_frame(self) -> Frame:
        """A copy of the frame that was written last."""
        frames = np.empty((1, *self.layout.frame_shape), self.layout.dtype)
        self._storage.frames.gather(np.array([self._newest_frame()]), out=frames)
        newest: Frame = frames[0]
        return newest

    @property
    def needs_sync(self) -> bool:
        """True if half of the margin is used. Then write a checkpoint before the next iteration of the loop."""
        since = self.written - max(self._manifest.state.written, self.layout.capacity)
        # One less than half: an iteration may write two frames, the last of an episode and the first of the next.
        return bool(self._manifest.syncs) and since >= self.layout.margin // 2 - 1

    def start(self, frame: Frame) -> None:
        """Add the first frame of an episode. If the previous episode is unfinished, it ends at its last frame."""
        _check_frame(frame, self.layout)
        self._append(frame, age=0)

    def add(self, action: ArrayLike, reward: float, terminated: bool, frame: Frame) -> None:
        """Add the action [A] taken in the last frame, its reward, and the next frame.

        `terminated` means that the task itself ended the episode; it is False at a time limit.
        """
        _check_frame(frame, self.layout)
        row = _check_action(action, self.layout)
        _check_outcome(reward, terminated)
        newest = self._newest_frame()
        self._append(frame, age=int(self._storage.age[newest % self.layout.capacity]) + 1)
        self._storage.write_step(newest, row, reward, terminated)

    def transitions(self) -> Counters:
        """Return all transitions [N] that can be sampled, oldest first, for `take`."""
        return self._ring.usable_counters()

    def take(
        self,
        transitions: Counters,
        buffer: int = 0,
        *,
        n_step: int = 1,
        gamma: float = 1.0,
        window: int = 0,
        sequence: bool = False,
    ) -> Batch:
        """Return the given transitions [B] as a batch. The other arguments are those of `sample`."""
        usable = self._ring.usable(transitions)
        if transitions.ndim != 1 or not len(transitions) or not usable.all():
            bad = transitions[~usable][:5].tolist()
            raise ReplayError(
                f"take requires [B] transitions of this replay, got {list(transitions.shape)}, unknown: {bad}"
            )
        return self._fill_batch(transitions, buffer, n_step, gamma, window, sequence)

    def sample(
        self,
        batch_size: int,
        rng: np.random.Generator,
        buffer: int = 0,
        *,
        n_step: int = 1,
        gamma: float = 1.0,
        window: int = 0,
        sequence: bool = False,
    ) -> Batch:
        """Sample `batch_size` transitions uniformly and independently.

        If `n_step` is above 1, `Batch.n_step` holds n-step returns discounted by `gamma`; the transitions are the same.
        If `window` is above 0, `Batch.window` holds the individual rewards and actions of that many steps, and with
        `sequence` the observation after each step instead of the last one. The tensors are views of memory that belongs
        to `buffer`. They are valid until the next call with the same `buffer`, `window`, `sequence` and value of
        `n_step > 1`. To keep two batches valid, alternate between two buffer numbers. All observations share frames: do
        not write to them.
        """
        return self._fill_batch(self._ring.draw(batch_size, rng), buffer, n_step, gamma, window, sequence)

    def sync(self) -> dict[str, Any]:
        """Write all frames durably to disk and return the state for the checkpoint.

        Call this once per checkpoint, and complete the checkpoint before you add the next frame. From then on, only the
        last two syncs can be opened.
        """
        if self.read_only:
            raise ReplayError("this replay was opened read-only")
        place = self._storage.place
        # At the previous sync, the last frame had no step yet, so save it again.
        # Frames that left the window are not needed.
        first = max(self._manifest.state.written - 1, self._ring.start)
        self._storage.save(first, self.written)
        state = files.State(self.written, len(self), self._storage.checks(self._ring.start, self.written))
        manifest = self._manifest.synced(state)
        manifest.save(place)
        self._manifest = manifest
        return dataclasses.asdict(state)

    def _append(self, frame: Frame, age: int) -> None:
        if self.read_only:
            raise ReplayError("this replay was opened read-only")
        self._check_margin()
        # The frame is written first: if the disk is full, nothing else has changed.
        self._storage.write_frame(self.written, frame)
        self._ring.append(age)

    def _check_margin(self) -> None:
        """Drop the third newest sync. Raise ReplayError if the next frame would overwrite one of the other two."""
        syncs = self._manifest.syncs
        if not syncs:
            return
        if len(syncs) > 2:
            # Update the manifest on disk before anything is overwritten.
            manifest = self._manifest.last_two()
            manifest.save(self._storage.place)
            self._manifest = manifest
        older = syncs[-2:][0].written
        limit = max(older, self.layout.capacity) + self.layout.margin
        if self.written >= limit:
            raise ReplayError(
                f"frame {self.written} would overwrite frames that the sync at {older} needs: "
                f"capacity {self.layout.capacity} and margin {self.layout.margin} allow {limit}; sync when needs_sync"
            )

    def _newest_frame(self) -> int:
        newest = self.written - 1
        if newest < 0:
            raise ReplayError("add was called before start: there is no frame in which the action was taken")
        before = (newest - 1) % self.layout.capacity
        if self._storage.age[newest % self.layout.capacity] > 0 and self._storage.terminated[before]:
            raise ReplayError("add was called after the end of the episode; call start for the next one")
        return newest

    def _fill_batch(
        self, counters: Counters, buffer: int, n_step: int, gamma: float, window: int, sequence: bool
    ) -> Batch:
        from pamd.replay.sample import Buffers  # A process that only collects data does not need torch.

        check_values("replay", Count, n_step=n_step)
        check_values("replay", Index, window=window)
        if sequence and not window:
            raise ConfigError("replay: sequence=True requires a window of at least 1 step, got 0")
        if not 0 <= gamma <= 1:
            raise ConfigError(f"replay: gamma must lie in [0, 1], got {gamma!r}")
        key = (buffer, n_step > 1, window, sequence)
        buffers = self._buffers.get(key)
        if buffers is None or len(buffers.batch) != len(counters):
            buffers = self._buffers[key] = Buffers(len(counters), self.layout, n_step > 1, window, sequence)
        return buffers.fill(self._storage, self._ring, counters, n_step, gamma)


def _load_storage(manifest: files.Manifest, directory: Path, read_only: bool, verify: bool) -> Storage:
    """Load the window of `manifest` into a storage. If `verify` is True, its checksums are verified."""
    layout, state = manifest.layout, manifest.state
    storage = Storage(layout, directory, read_only)
    first = max(0, state.written - layout.capacity)
    storage.load(first, state.written)
    ring = Ring(storage.age, layout.frame_stack, state.written)
    ring.check()
    if ring.transitions != state.transitions:
        raise ReplayError(
            f"the files in {directory} hold {ring.transitions} transitions, but {state.transitions} were saved"
        )
    if verify:
        storage.verify(state.checks, first, state.written)
    return storage


# -- Values are checked before they are stored, so that invalid ones do not cause errors a million updates later. -----


def _check_frame(frame: NDArray[Any], layout: Layout) -> None:
    """Raise an error unless `frame` is a finite array with the layout's shape and dtype."""
    if not isinstance(frame, np.ndarray) or frame.dtype != layout.dtype:
        got = getattr(frame, "dtype", type(frame).__name__)
        raise DtypeError(f"a frame must be a numpy array of {layout.dtype}, got {got}")
    if frame.shape != layout.frame_shape:
        raise ShapeError(f"a frame must be {list(layout.frame_shape)}, got {list(frame.shape)}")
    if layout.dtype != "uint8" and not np.isfinite(frame).all():
        raise ReplayError("a frame must be finite, got NaN or infinity")


def _check_action(action: ArrayLike, layout: Layout) -> NDArray[np.float32]:
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


def _check_outcome(reward: float, terminated: bool) -> None:
    """Raise an error unless `reward` is one finite number and `terminated` is a bool."""
    if np.ndim(reward) != 0:
        raise ShapeError(f"a reward must be one number, got {list(np.shape(reward))}")
    if isinstance(reward, str) or not abs(reward) <= _LARGEST_FLOAT32:
        raise ReplayError(f"a reward must be a finite float32, got {reward!r}")
    if not isinstance(terminated, bool | np.bool_):
        raise DtypeError(f"terminated must be a bool, got {terminated!r}")
