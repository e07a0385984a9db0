"""A simple reference replay that stores every transition with its full stacks."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pamd.replay import Replay

FRAME_SHAPE = (2, 3, 4)
ACTION_DIM = 2
FIELDS = ("obs", "action", "reward", "next_obs", "not_done")


@dataclass(frozen=True)
class Event:
    """One frame and the step that led to it; `action` is None for the first frame of an episode."""

    frame: np.ndarray
    action: np.ndarray | None = None
    reward: float = 0.0
    terminated: bool = False


@dataclass(frozen=True)
class Transition:
    oldest: int
    obs: np.ndarray
    action: np.ndarray
    reward: np.float32
    next_obs: np.ndarray
    not_done: float


@functools.cache
def frame_of(number: int, shape: tuple[int, int, int] = FRAME_SHAPE) -> np.ndarray:
    """A frame that no other number has, and in which every pixel matters."""
    pixels = np.random.default_rng(number).integers(0, 256, np.prod(shape), dtype=np.uint8)
    pixels[:4] = np.frombuffer(np.uint32(number).tobytes(), np.uint8)
    return pixels.reshape(shape)


def events_of(lengths: Iterable[int], shape: tuple[int, int, int] = FRAME_SHAPE) -> list[Event]:
    """Episodes of so many steps; the action and the reward of a step name the frame it was taken from."""
    events: list[Event] = []
    for episode, length in enumerate(lengths):
        events.append(Event(frame_of(len(events), shape)))
        for step in range(length):
            number = len(events)
            action = np.array([number - 1, np.sin(number)], np.float32)
            terminated = step == length - 1 and episode % 2 == 0
            events.append(Event(frame_of(number, shape), action, float(np.cos(number)), terminated))
    return events


def random_events(seed: int, count: int, longest: int = 9, shape: tuple[int, int, int] = FRAME_SHAPE) -> list[Event]:
    lengths = np.random.default_rng(seed).integers(0, longest + 1, count)
    return events_of(lengths[: int(np.searchsorted(np.cumsum(lengths + 1), count)) + 1], shape)[:count]


def play(target: Any, events: Sequence[Event]) -> Any:
    for event in events:
        if event.action is None:
            target.start(event.frame)
        else:
            target.add(event.action, event.reward, event.terminated, event.frame)
    return target


class Reference:
    def __init__(self, capacity: int, frame_stack: int) -> None:
        self.capacity = capacity
        self.written = 0
        self._stack: deque[tuple[int, np.ndarray]] = deque(maxlen=frame_stack)
        self._all: dict[int, Transition] = {}

    def start(self, frame: np.ndarray) -> None:
        self._stack.extend([(self.written, frame)] * (self._stack.maxlen or 0))
        self.written += 1

    def add(self, action: np.ndarray, reward: float, terminated: bool, frame: np.ndarray) -> None:
        oldest, obs = self._stack[0][0], self._stacked()
        self._stack.append((self.written, frame))
        not_done = 0.0 if terminated else 1.0
        self._all[self.written - 1] = Transition(oldest, obs, action, np.float32(reward), self._stacked(), not_done)
        self.written += 1

    def transitions(self) -> dict[int, Transition]:
        """Those of which every frame is among the newest `capacity`."""
        return {number: item for number, item in self._all.items() if item.oldest >= self.written - self.capacity}

    def _stacked(self) -> np.ndarray:
        return np.concatenate([frame for _, frame in self._stack])


def assert_rows(batch: Any, expected: Sequence[Transition]) -> None:
    """Every row of the batch is the expected transition, exactly."""
    assert len(batch) == len(expected)
    for name in FIELDS:
        wanted = np.stack([getattr(item, name) for item in expected])
        np.testing.assert_array_equal(getattr(batch, name).numpy(), wanted, err_msg=name)


def assert_same(replay: Replay, reference: Reference) -> None:
    """The replay holds what the reference holds, no more and no less."""
    expected = reference.transitions()
    assert replay.written == reference.written
    assert len(replay) == len(expected)
    assert replay.transitions().tolist() == sorted(expected)
    if expected:
        assert_rows(replay.take(replay.transitions()), [expected[number] for number in sorted(expected)])


def assert_sampled(batch: Any, reference: Reference) -> list[int]:
    """Every row of the batch is a transition that the reference holds; their numbers."""
    numbers = [int(number) for number in batch.action[:, 0].numpy()]
    assert_rows(batch, [reference.transitions()[number] for number in numbers])
    return numbers
