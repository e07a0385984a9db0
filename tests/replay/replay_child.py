"""A loop that writes, checkpoints and resumes until someone kills it. Arguments: directory, storage."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.replay.replay_reference import ACTION_DIM, play, random_events

from pamd.replay import Replay, ReplayConfig

CAPACITY, FRAME_STACK, MARGIN, INTERVAL = 120, 3, 60, 25
SHAPE = (3, 48, 48)
EVENTS = 3000


def kept_states(directory: Path) -> list[dict[str, Any]]:
    """What the two newest checkpoints hold, oldest first."""
    paths = sorted(directory.glob("checkpoint-*.json"))
    return [json.loads(path.read_text()) for path in paths][-2:]


def newest_checkpoint(directory: Path) -> int:
    """Frames written at the newest checkpoint, by its name alone: another process may be replacing them."""
    return max((int(path.stem.partition("-")[2]) for path in directory.glob("checkpoint-*.json")), default=0)


def checkpoint(directory: Path, replay: Replay) -> None:
    state = replay.sync()
    temporary = directory / "checkpoint.tmp"
    temporary.write_text(json.dumps(state))
    os.replace(temporary, directory / f"checkpoint-{state['written']:08d}.json")
    for path in sorted(directory.glob("checkpoint-*.json"))[:-2]:
        path.unlink()


def main(directory: Path, storage: str) -> None:
    os.fsync = lambda handle: None  # A kill loses nothing that was written; and it would wait there most of the time.
    events = random_events(3, EVENTS, shape=SHAPE)
    states = kept_states(directory)
    if states:
        replay = Replay.open(directory / "replay", state=states[-1])
    else:
        replay = Replay.create(
            ReplayConfig(CAPACITY, storage),
            frame_shape=SHAPE,
            action_dim=ACTION_DIM,
            frame_stack=FRAME_STACK,
            margin=MARGIN,
            directory=directory / "replay",
            overwrite=True,
        )
    for event in events[replay.written :]:
        play(replay, [event])
        if replay.needs_sync or replay.written % INTERVAL == 0:
            checkpoint(directory, replay)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
