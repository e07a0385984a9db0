"""Training: the loop, evaluation, checkpoints, logs and the run directory."""

from __future__ import annotations

from pamd.runs import RunDirectory
from pamd.training.config import Runtime, TrainConfig, prepare, run_name
from pamd.training.export import export_run
from pamd.training.run import resume, train
from pamd.training.trained import Trained, load

__all__ = [
    "RunDirectory",
    "Runtime",
    "TrainConfig",
    "Trained",
    "export_run",
    "load",
    "prepare",
    "resume",
    "run_name",
    "train",
]
