"""The runs that are interrupted: small, but with every storage, both learners and moving backgrounds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["CHECKPOINT_EVERY", "DECISIONS", "SCENARIOS", "Scenario"]

DECISIONS = 120
CHECKPOINT_EVERY = 4
CAPACITY = 45
"""Less than half of the frames of a run, so that the replay overwrites frames and a resume depends on its margin."""

_SIZES = (
    "learner.batch=8",
    "learner.random_decisions=16",
    "learner.hidden=16",
    "learner.updates_per_decision=0.25",
    "method.latent_dim=8",
    "method.ensemble=2",
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
    """Whether the run also writes for TensorBoard and records a video."""

    @property
    def most(self) -> int:
        """Interruptions of one run. A start of MuJoCo and OpenGL takes several times as long as one of the toy."""
        return 60 if self.task.startswith("toy") else 12

    @property
    def name(self) -> str:
        return " ".join([self.task, self.method, self.storage, *([self.background] if self.background else [])])

    def words(self, runs: Path, decisions: int = DECISIONS) -> list[str]:
        """The words of `pamd` that start this run, or continue it, below `runs`."""
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
        return ["train", self.task, *words, *([] if self.mirror else ["--no-tensorboard"]), "--set", *_SIZES]


SCENARIOS = (
    Scenario("toy", "memory", "simsr+pamd", mirror=True),
    Scenario("cartpole_swingup", "mmap", "sac"),
    Scenario("toy", "compressed", "drqv2:simsr+pamd"),
    Scenario("cheetah_run", "memory", "simsr+pamd", "paper-video"),
    Scenario("toy:goal", "mmap", "mico"),
    Scenario("cartpole_swingup", "compressed", "drqv2"),
    Scenario("toy", "memory", "dbc", "paper-video"),
    Scenario("walker_walk", "mmap", "drqv2:mico", "released-video"),
    Scenario("toy", "compressed", "dbc-det+pamd", "paper-video"),
    Scenario("cartpole_swingup", "memory", "simsr"),
    Scenario("toy", "mmap", "drqv2", "paper-video"),
    Scenario("cheetah_run", "compressed", "deepmdp", "paper-video"),
)
"""Run number i is scenario i modulo their number."""
