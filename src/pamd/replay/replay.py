"""The replay: frames go in one by one, batches of stacked transitions come out.

Exact resume rests on one rule. Only the newest `capacity` frames, the window, are ever sampled, and the files have room
for `margin` more. A run that is killed has written past its last checkpoint, but only into rows that neither of the two
newest checkpoints' windows needs: `add` and `start` refuse to go further, and `needs_sync` says so in good time.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pamd.errors import ConfigError, ReplayError
from pamd.replay import files
from pamd.replay.compressed import zstd
from pamd.replay.frames import Frame
from pamd.replay.inputs import check_frame, check_outcome, checked_action
from pamd.replay.layout import MINIMUM_MARGIN, Layout, ReplayConfig
from pamd.replay.resources import check_resources, forecast
from pamd.replay.ring import Counters, Ring
from pamd.replay.storage import Storage

if TYPE_CHECKING:
    from pamd.replay.sample import Buffers
    from pamd.types import Batch

__all__ = ["Replay"]


class Replay:
    """Made by `create` or `open`. Not for two threads at once."""

    def __init__(self, storage: Storage, manifest: files.Manifest, read_only: bool = False) -> None:
        self.layout = manifest.layout
        self.read_only = read_only
        self._storage = storage
        self._manifest = manifest
        self._ring = Ring(storage.age, self.layout.frame_stack, manifest.state.written)
        self._buffers: dict[int, Buffers] = {}

    @staticmethod
    def create(
        config: ReplayConfig,
        *,
        frame_shape: tuple[int, int, int],
        action_dim: int,
        frame_stack: int = 3,
        margin: int = 0,
        directory: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ) -> Replay:
        """An empty replay of frames [C, H, W]. Without a directory it lives in memory only and cannot `sync`.

        `margin`: at least twice the number of frames written between two checkpoints, and two.
        """
        layout = Layout(config.capacity, margin, frame_shape, action_dim, frame_stack, config.storage)
        if directory is None and config.storage == "mmap":
            raise ConfigError("replay: storage 'mmap' needs a directory")
        if config.storage == "compressed":
            zstd()  # Missing, it is missed before any file is made.
        if directory is not None and margin < MINIMUM_MARGIN:
            raise ConfigError(f"replay: with a directory margin must be at least {MINIMUM_MARGIN}, got {margin}")
        manifest = files.Manifest(layout)
        place = None if directory is None else Path(directory)
        if place is not None and (place / files.MANIFEST).exists() and not overwrite:
            raise ReplayError(f"{place} holds a replay already: open it, or create with overwrite=True")
        check_resources(forecast(config, layout.frame_shape, action_dim, margin), place)
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
        storage: str | None = None,
    ) -> Replay:
        """A replay as it was at the last sync, or at the one whose `state` a checkpoint kept: one of the last two.

        `storage`: another than it was written with; `mmap` reads a large replay without loading it.
        """
        place = Path(directory)
        manifest = files.Manifest.load(place)
        if storage is not None:
            ReplayConfig(storage=storage)
            manifest = dataclasses.replace(manifest, layout=dataclasses.replace(manifest.layout, storage=storage))
        layout = manifest.layout
        files.check(place, layout)
        if state is not None:
            manifest = manifest.at(files.State.of(state), place)
        config = ReplayConfig(layout.capacity, layout.storage)
        cost = forecast(config, layout.frame_shape, layout.action_dim, layout.margin)
        check_resources(cost, None if read_only else place)
        replay = Replay(_loaded(manifest, place, read_only), manifest, read_only)
        if not read_only:
            # From here on the files follow this run; a sync that came after `state` holds no longer.
            manifest.save(place)
        return replay

    def __len__(self) -> int:
        """The number of transitions that can be sampled."""
        return self._ring.transitions

    @property
    def written(self) -> int:
        """The number of frames written so far, overwritten ones included."""
        return self._ring.written

    @property
    def needs_sync(self) -> bool:
        """True where half of the margin is used up: checkpoint before the next iteration of the loop."""
        since = self.written - max(self._manifest.state.written, self.layout.capacity)
        # One less than half: an iteration may write two frames, the last of an episode and the first of the next.
        return bool(self._manifest.syncs) and since >= self.layout.margin // 2 - 1

    def start(self, frame: Frame) -> None:
        """The first frame [C, H, W] of an episode. One that is under way is left at its last frame."""
        check_frame(frame, self.layout)
        self._append(frame, age=0)

    def add(self, action: ArrayLike, reward: float, terminated: bool, frame: Frame) -> None:
        """What was done in the last frame, what came of it, and the frame that followed.

        `action`: [A]; `frame`: [C, H, W]; `terminated`: the episode is over for good, which a time limit is not.
        """
        check_frame(frame, self.layout)
        row = checked_action(action, self.layout)
        check_outcome(reward, terminated)
        newest = self._newest_frame()
        self._append(frame, age=int(self._storage.age[newest % self.layout.capacity]) + 1)
        self._storage.write_step(newest, row, reward, terminated)

    def transitions(self) -> Counters:
        """[N]: all transitions that can be sampled, oldest first, for `take`."""
        return self._ring.usable_counters()

    def take(self, transitions: Counters, buffer: int = 0) -> Batch:
        """The given transitions [B] as a batch; `buffer` as in `sample`."""
        usable = self._ring.usable(transitions)
        if transitions.ndim != 1 or not len(transitions) or not usable.all():
            bad = transitions[~usable][:5].tolist()
            raise ReplayError(
                f"take wants [B] transitions of this replay, got {list(transitions.shape)}, unknown: {bad}"
            )
        return self._filled(transitions, buffer)

    def sample(self, batch_size: int, rng: np.random.Generator, buffer: int = 0) -> Batch:
        """`batch_size` transitions, uniform and independent of each other.

        The tensors are views of memory that belongs to `buffer` and hold until the next call with the same `buffer`;
        two numbers in turn keep two batches alive. `obs` and `next_obs` share frames: do not write into them.
        """
        return self._filled(self._ring.draw(batch_size, rng), buffer)

    def sync(self) -> dict[str, int]:
        """Make all that was written durable; the state to keep in the checkpoint.

        Once per checkpoint, and complete the checkpoint before the next frame: from then on the last two syncs can be
        opened again, and no others.
        """
        if self.read_only:
            raise ReplayError("this replay was opened read-only")
        place = self._storage.place
        # The last frame at the sync before had no step yet; frames that left the window are not needed.
        first = max(self._manifest.state.written - 1, self._ring.start)
        self._storage.save(first, self.written)
        state = files.State(self.written, len(self))
        manifest = self._manifest.synced(state)
        manifest.save(place)
        self._manifest = manifest
        return dataclasses.asdict(state)

    def _append(self, frame: Frame, age: int) -> None:
        if self.read_only:
            raise ReplayError("this replay was opened read-only")
        self._check_margin()
        # The frame first: where the disk is full, nothing else has changed.
        self._storage.frames.write(self.written, frame)
        self._ring.append(age)

    def _check_margin(self) -> None:
        """Let go of the third-last sync, then see that the next frame spares the other two."""
        syncs = self._manifest.syncs
        if not syncs:
            return
        if len(syncs) > 2:
            # On disk as well, before anything is overwritten.
            manifest = self._manifest.last_two()
            manifest.save(self._storage.place)
            self._manifest = manifest
        older = syncs[-2:][0].written
        limit = max(older, self.layout.capacity) + self.layout.margin
        if self.written >= limit:
            raise ReplayError(
                f"frame {self.written} would overwrite what the older of the last two syncs, at {older}, needs: "
                f"capacity {self.layout.capacity} and margin {self.layout.margin} allow {limit}; sync when needs_sync"
            )

    def _newest_frame(self) -> int:
        newest = self.written - 1
        if newest < 0:
            raise ReplayError("add before start: the replay has no frame that an action could follow")
        before = (newest - 1) % self.layout.capacity
        if self._storage.age[newest % self.layout.capacity] > 0 and self._storage.terminated[before]:
            raise ReplayError("add after the end: the episode has terminated; start the next one")
        return newest

    def _filled(self, counters: Counters, buffer: int) -> Batch:
        from pamd.replay.sample import Buffers  # Imported here: a process that only collects needs no torch.

        buffers = self._buffers.get(buffer)
        if buffers is None or len(buffers.batch) != len(counters):
            buffers = self._buffers[buffer] = Buffers(len(counters), self.layout)
        return buffers.fill(self._storage, self._ring, counters)


def _loaded(manifest: files.Manifest, directory: Path, read_only: bool) -> Storage:
    """The storage with the window of `manifest` in it, checked."""
    layout, state = manifest.layout, manifest.state
    storage = Storage(layout, directory, read_only)
    storage.load(max(0, state.written - layout.capacity), state.written)
    ring = Ring(storage.age, layout.frame_stack, state.written)
    ring.check()
    if ring.transitions != state.transitions:
        raise ReplayError(
            f"the files in {directory} give {ring.transitions} transitions, {state.transitions} were saved"
        )
    return storage
