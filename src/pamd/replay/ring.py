"""Index arithmetic of the ring buffer in plain numpy.

Frames are numbered from 0 in the order in which they are written. Frame `c` is in slot `c % capacity`. Transition `c`
is the step from frame `c` to frame `c + 1`. The only record of episodes is the age of each frame. With capacity 8, ten
frames written, two episodes and a stack of 2:

    frame c      0  1 | 2  3  4  5  6  7  8  9     frames 0 and 1 are overwritten; the window is 2 to 9
    slot         0  1   2  3  4  5  6  7  0  1
    age          0  1   2  3  4  0  1  2  3  4     age 0: the first frame of an episode
    usable              -  +  -  +  +  +  +  -     transition c: needs frames c - 1 to c + 1 of one episode

Transition 2 needs frame 1, which is gone. There is no step from frame 4, the last of its episode, to frame 5.
Transition 5 begins an episode: its stack repeats frame 5 and needs no older frame. Frame 9 is the newest, and the step
from it is not known yet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pamd.errors import ReplayError

Counters = NDArray[np.int64]

# Below this fraction of usable transitions (many tiny episodes), listing them all is faster than rejection sampling.
_LEAST_ACCEPTANCE = 0.25


class Ring:
    """The window of the newest `capacity` frames and the transitions in it."""

    def __init__(self, age: NDArray[np.int32], frame_stack: int, written: int = 0) -> None:
        """`age` [capacity] is shared with the storage. It is 0 for the first frame of an episode, then 1, 2, ..."""
        self.age = age
        self.frame_stack = frame_stack
        self.written = written
        self.transitions = len(self.usable_counters())

    @property
    def capacity(self) -> int:
        return len(self.age)

    @property
    def start(self) -> int:
        """The oldest frame of the window; the newest is `written - 1`."""
        return max(0, self.written - self.capacity)

    def append(self, age: int) -> None:
        """Add frame `written` with its age in the episode."""
        if self.written >= self.capacity:
            # The new frame takes the slot of the oldest one. Count before its age is overwritten.
            self.transitions -= self._count_lost_with_oldest()
        self.age[self.written % self.capacity] = age
        self.written += 1
        # The capacity is at least frame_stack + 1, so the transition to the new frame is usable.
        self.transitions += age > 0

    def age_of(self, counters: Counters) -> Counters:
        """Return the age of each frame in its episode. [...] -> [...]"""
        return self.age[counters % self.capacity].astype(np.int64)

    def usable(self, counters: Counters) -> NDArray[np.bool_]:
        """Return whether each transition exists and all frames of both stacks are in the window. [...] -> [...]"""
        inside = (counters >= self.start) & (counters < self.written - 1)
        # Frame c + 1 continues the episode of frame c exactly if its age is one more. A new episode has age 0.
        unbroken = self.age_of(counters + 1) == self.age_of(counters) + 1
        whole = self._first_frame(counters) >= self.start
        return np.asarray(inside & unbroken & whole)

    def usable_counters(self) -> Counters:
        """Return all usable transitions [N], oldest first."""
        counters = np.arange(self.start, self.written - 1, dtype=np.int64)
        return counters[self.usable(counters)]

    def steps_ahead(self, counters: Counters, n_step: int) -> Counters:
        """Return the number of steps [B], at most `n_step`, from each transition [B] in the same episode and window."""
        k = np.arange(1, n_step + 1)
        frames = counters[:, None] + k
        # The frames of the next episode have smaller ages, so the matching ages come first.
        same_episode = self.age_of(frames) == self.age_of(counters)[:, None] + k
        return np.asarray((same_episode & (frames < self.written)).sum(axis=1))

    def frames_of(self, counters: Counters, *ends: Counters, ahead: int = 1, last: Counters | None = None) -> Counters:
        """Return the frames [B, frame_stack + ahead] of transitions [B] and the states after each of `ahead` steps.

        The first `frame_stack` frames are the state. The state after k steps begins at frame k. If there are only
        `last` [B] steps, the newest frame is repeated after them.

        For each of `ends` [B], `frame_stack` more columns are the state after that many steps. If a stack begins before
        the episode, the first frame of the episode is repeated. All states of a row belong to the same episode, so they
        are clipped at the same frame, and the state and the next state can share frames.
        """
        stack, run = np.arange(1 - self.frame_stack, 1), np.arange(1 - self.frame_stack, ahead + 1)
        if last is not None:
            run = np.minimum(run, last[:, None])
        later = [(counters + steps)[:, None] + stack for steps in ends]
        frames = np.concatenate([counters[:, None] + run, *later], axis=1)
        first_of_episode = counters - self.age_of(counters)
        return np.asarray(np.maximum(frames, first_of_episode[:, None]))

    def draw(self, amount: int, rng: np.random.Generator) -> Counters:
        """Draw usable transitions [amount] uniformly and independently."""
        if amount < 1 or self.transitions < amount:
            raise ReplayError(f"a batch of {amount} was requested, but the replay holds {self.transitions} transitions")
        if self.transitions < _LEAST_ACCEPTANCE * (self.written - 1 - self.start):
            every = self.usable_counters()
            return every[rng.integers(len(every), size=amount)]
        # Rejection sampling: nearly every transition is usable, so this costs less than a list of all of them.
        drawn = np.empty(amount, np.int64)
        filled = 0
        while filled < amount:
            candidates = rng.integers(self.start, self.written - 1, size=amount - filled)
            accepted = candidates[self.usable(candidates)]
            drawn[filled : filled + len(accepted)] = accepted
            filled += len(accepted)
        return drawn

    def check(self) -> None:
        """Raise ReplayError unless the ages form consecutive episodes."""
        counters = np.arange(self.start, self.written, dtype=np.int64)
        age = self.age_of(counters)
        broken = (age < 0) | (age > counters)
        broken[1:] |= (age[1:] != 0) & (age[1:] != age[:-1] + 1)
        if broken.any():
            at = int(np.argmax(broken))
            before = age[max(0, at - 1) : at].tolist()
            raise ReplayError(
                f"frame {counters[at]} of the replay has age {age[at]} after {before or 'none'}; "
                "an age must be 0 or one more than the age before"
            )

    def _first_frame(self, counters: Counters) -> Counters:
        """Return the oldest frame of each state's stack. A stack does not reach back beyond the episode's start."""
        return counters - np.minimum(self.frame_stack - 1, self.age_of(counters))

    def _count_lost_with_oldest(self) -> int:
        """Count the transitions that need the oldest frame. There are several if it is the first of an episode."""
        needing = np.arange(self.start, self.start + self.frame_stack, dtype=np.int64)
        return int(np.count_nonzero(self.usable(needing) & (self._first_frame(needing) == self.start)))
