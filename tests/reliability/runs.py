"""The runs that reliability tests interrupt or damage, and the bytes of a run that must not depend on interruptions.

The runs are small, but cover all storages, both learners and moving backgrounds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pamd.configuration import split_name
from pamd.errors import CheckpointError
from pamd.methods import method
from pamd.replay.files import Manifest
from pamd.training import checkpoint

__all__ = ["CHECKPOINT_EVERY", "DECISIONS", "SCENARIOS", "SIZES", "Scenario", "differing", "only_run", "products"]

DECISIONS = 120
CHECKPOINT_EVERY = 4
CAPACITY = 45
"""The replay capacity, less than half of the frames of a run, so that frames are overwritten."""

SIZES = (
    "learner.batch=8",
    "learner.random_decisions=16",
    "learner.hidden=16",
    "learner.updates_per_decision=0.25",
    "method.latent_dim=8",
    "encoder.filters=4",
)


@dataclass(frozen=True)
class Scenario:
    """One kind of run."""

    task: str
    storage: str
    method: str
    background: str | None = None
    mirror: bool = False
    """Whether the run also writes TensorBoard logs and records a video."""

    @property
    def most(self) -> int:
        """The maximum number of interruptions per run. MuJoCo and OpenGL start several times slower than toy."""
        return 60 if self.task.startswith("toy") else 12

    @property
    def name(self) -> str:
        return " ".join([self.task, self.method, self.storage, *([self.background] if self.background else [])])

    def words(self, runs: Path, decisions: int = DECISIONS) -> list[str]:
        """Return the arguments of `pamd` that start or continue this run in `runs`."""
        options = {
            "--method": self.method,
            "--scale": "smoke",
            "--decisions": decisions,
            "--checkpoint-every": CHECKPOINT_EVERY,
            "--evaluate-every": DECISIONS // 2,
            "--log-every": 20,
            "--capacity": CAPACITY,
            "--storage": self.storage,
            "--threads": 1,
            "--device": "cpu",
            "--video": "last" if self.mirror else "off",
            "--runs": runs,
            **({"--distractor": self.background} if self.background else {}),
        }
        words = [str(word) for pair in options.items() for word in pair]
        transition = method(split_name(self.method)[1]).term("transition")
        sizes = (*SIZES, *(() if transition is None else ("method.transition.members=2",)))
        return ["train", self.task, *words, *([] if self.mirror else ["--no-tensorboard"]), "--set", *sizes]


SCENARIOS = (
    Scenario("toy", "memory", "simsr+pamd", mirror=True),
    Scenario("cartpole_swingup", "mmap", "sac"),
    Scenario("toy", "mmap", "drqv2:simsr+pamd"),
    Scenario("cheetah_run", "memory", "simsr+pamd", "paper-video"),
    Scenario("toy:goal", "mmap", "mico"),
    Scenario("cartpole_swingup", "memory", "drqv2"),
    Scenario("toy", "memory", "dbc", "paper-video"),
    Scenario("walker_walk", "mmap", "drqv2:mico", "released-video"),
    Scenario("toy", "memory", "dbc-det+pamd", "paper-video"),
    Scenario("cartpole_swingup", "memory", "simsr"),
    Scenario("toy", "mmap", "drqv2", "paper-video"),
    Scenario("cheetah_run", "mmap", "deepmdp", "paper-video"),
)
"""Run number i uses scenario i modulo the number of scenarios."""

_STEP = ("actions", "rewards", "terminated")
"""Columns of the step after a frame. The newest frame has no step yet."""


def products(run: Path) -> dict[str, bytes]:
    """Return config, logs, the last checkpoint, the replay's window and the videos, without wall-clock times."""
    contents = {name: (run / name).read_bytes() for name in ("config.json", "train.jsonl", "eval.jsonl")}
    contents["timing.jsonl"] = _without_clock(run / "timing.jsonl")
    last = _last(run / "checkpoints")
    contents["tensors.safetensors"] = (last / "tensors.safetensors").read_bytes()
    contents["state.json"] = last.name.encode() + _state(last / "state.json")
    for path in sorted((run / "video").glob("*.mp4")):
        contents[path.name] = path.read_bytes()
    return contents | _replay(run / "replay")


def _last(checkpoints: Path) -> Path:
    newest, _ = checkpoint.newest(checkpoints)
    if newest is None:
        raise CheckpointError(f"{checkpoints} has no complete checkpoint")
    return newest.path


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> dict[str, int]:
    """Return the number of different or missing bytes of each file that differs."""
    names = {**one, **other}
    counts = {name: _count(one.get(name, b""), other.get(name, b"")) for name in names}
    return {name: count for name, count in counts.items() if count or (name in one) != (name in other)}


def _count(one: bytes, other: bytes) -> int:
    length = min(len(one), len(other))
    a, b = (np.frombuffer(data[:length], np.uint8) for data in (one, other))
    return int(np.count_nonzero(a != b)) + abs(len(one) - len(other))


def _without_clock(path: Path) -> bytes:
    """Return the budget of every row. The other fields of timing.jsonl are times."""
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    return json.dumps([[row[name] for name in ("decisions", "frames", "updates")] for row in rows]).encode()


def _state(path: Path) -> bytes:
    state: dict[str, Any] = json.loads(path.read_bytes())
    del state["seconds"], state["logs"]["timing"]
    return json.dumps(state, sort_keys=True).encode()


def _replay(directory: Path) -> dict[str, bytes]:
    """Return the rows of every column that can be sampled. Other rows do not matter."""
    manifest = Manifest.load(directory)
    layout, written = manifest.layout, manifest.state.written
    window: NDArray[np.int64] = np.arange(max(0, written - layout.capacity), written)
    contents = {}
    for name, column in layout.columns.items():
        rows = np.fromfile(directory / column.file, np.uint8).reshape(layout.slots, column.row_bytes)
        taken = window[:-1] if name in _STEP else window
        contents[f"replay/{column.file}"] = rows[taken % layout.slots].tobytes()
    return contents


def only_run(runs: Path) -> Path:
    """Return the one run directory in `runs`."""
    (run,) = (path for path in runs.iterdir() if path.is_dir())
    return run
