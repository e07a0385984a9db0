"""The interrupted runs. They are small, but cover all storages, both learners and moving backgrounds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["CHECKPOINT_EVERY", "DECISIONS", "SCENARIOS", "Scenario"]

DECISIONS = 120
CHECKPOINT_EVERY = 4
CAPACITY = 45
"""The replay capacity, less than half of the frames of a run, so that frames are overwritten."""

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
"""Run number i uses scenario i modulo the number of scenarios."""
