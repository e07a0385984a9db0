"""Count the files and the depth of calls of one `Agent.update`: `python tools/update_path.py [--source SRC] [--show]`.

A reader follows one update from `Agent.update` to the value of the distance. The fewer files and calls are on the way,
the easier that is. Only frames of the package count, lambdas and comprehensions included. Torch's own calls between two
of them do not count. Compare numbers of the same version of Python: from 3.12 on, a comprehension is not a frame.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
METHODS = ("simsr+pamd", "dbc-det+pamd")
BATCH, ACTIONS = 8, 6
UPDATES = 2
"""The actor may learn in every second update."""


class Call(NamedTuple):
    """One function of the package that an update calls."""

    file: str
    name: str
    line: int


class UpdatePath(NamedTuple):
    """What one update crosses."""

    files: set[str]
    deepest: list[Call]
    """The longest chain of calls, from `Agent.update`."""
    value: list[Call]
    """The longest chain of calls from `Agent.update` to the value of a distance."""


def trace(method: str, schedule: str, package: Path) -> UpdatePath:
    """Make updates of one method at the sizes of scale `cpu`, and record the calls of the last ones."""
    import torch

    import pamd
    from pamd.types import Batch

    config = pamd.configure("cheetah_run", method, scale="cpu", schedule=schedule)
    shape = config.env.picture_shape
    agent = pamd.Agent(config.agent, observation_shape=shape, action_dim=ACTIONS, seed=0)
    obs, next_obs = (torch.randint(0, 256, (BATCH, *shape), dtype=torch.uint8) for _ in range(2))
    batch = Batch(obs, torch.rand(BATCH, ACTIONS), torch.rand(BATCH), next_obs, torch.ones(BATCH))
    for _ in range(UPDATES):  # The first updates fill caches.
        agent.update(batch)
    found = UpdatePath(set(), [], [])

    def record(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(f"{package}/"):
            return
        chain = _chain(frame, package)
        found.files.add(chain[-1].file)
        if len(chain) > len(found.deepest):
            found.deepest[:] = chain
        of_distance = chain[-1].file.startswith("distances/") and chain[-1].name.split(".")[-1].startswith("_value")
        if of_distance and len(chain) > len(found.value):
            found.value[:] = chain

    sys.setprofile(record)
    try:
        for _ in range(UPDATES):
            agent.update(batch)
    finally:
        sys.setprofile(None)
    return found


def _chain(frame: FrameType, package: Path) -> list[Call]:
    """Return the calls of the package from `Agent.update` to this frame."""

    def upwards() -> Iterator[Call]:
        at: FrameType | None = frame
        while at is not None:
            if at.f_code.co_filename.startswith(f"{package}/"):
                file = str(Path(at.f_code.co_filename).relative_to(package))
                yield Call(file, at.f_code.co_qualname, at.f_code.co_firstlineno)
            at = at.f_back

    return list(upwards())[::-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="the directory of the package pamd")
    parser.add_argument("--show", action="store_true", help="print the chains and the files")
    options = parser.parse_args()
    package = (options.source / "pamd").resolve()
    sys.path.insert(0, str(package.parent))
    for method in METHODS:
        for schedule in ("sequential", "joint"):
            found = trace(method, schedule, package)
            numbers = f"{len(found.files)} files, depth {len(found.deepest)}, depth to the value {len(found.value)}"
            print(f"{method}, {schedule}: {numbers}")
            if options.show:
                for title, chain in (("deepest", found.deepest), ("value", found.value)):
                    print(f"  {title}:", *(f"    {call.file}:{call.line} {call.name}" for call in chain), sep="\n")
                print("  files:", *(f"    {file}" for file in sorted(found.files)), sep="\n")


if __name__ == "__main__":
    main()
