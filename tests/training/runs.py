"""Small real runs: the toy task at smoke scale."""

from __future__ import annotations

import dataclasses
import functools
import json
import tempfile
from pathlib import Path
from typing import Any

from pamd.configuration import configure
from pamd.schema import from_json, to_json
from pamd.training import Runtime, TrainConfig, run_name, train
from pamd.training.config import config_text

QUIET = Runtime(device="cpu", threads=1, video="off", tensorboard=False)


def toy(method: str = "simsr+pamd", **fields: Any) -> TrainConfig:
    """60 decisions on the toy, updates from the 20th, checkpoints every 10."""
    settings = ("learner.random_decisions=20", "env.time_limit=9")
    small = {"decisions": 60, "evaluate_every": 30, "checkpoint_every": 10, "runtime": QUIET, **fields}
    config = configure("toy", method, scale="smoke", settings=settings, **small)
    return dataclasses.replace(config, log_every=5)


def started(root: Path, config: TrainConfig) -> Path:
    """The directory of a run that was killed before it wrote anything but its config."""
    run = root / run_name(config)
    run.mkdir(parents=True)
    (run / "config.json").write_text(config_text(config))
    return run


def products(run: Path) -> dict[str, bytes]:
    """What must not depend on interruptions: logs, and the tensors of the last checkpoint."""
    last = sorted(p for p in (run / "checkpoints").iterdir() if p.name.isdigit())[-1]
    return {
        "train": (run / "train.jsonl").read_bytes(),
        "eval": (run / "eval.jsonl").read_bytes(),
        "tensors": (last / "tensors.safetensors").read_bytes(),
        "at": last.name.encode(),
    }


def undisturbed(config: TrainConfig) -> dict[str, bytes]:
    """The products of `config` trained in one go; the same config is trained once."""
    return _undisturbed(to_json(config))


@functools.cache
def _undisturbed(config: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as root:
        return products(train(from_json(TrainConfig, config, "config"), Path(root)))


def edit_config(run: Path, field: str, value: Any) -> None:
    """Change one field of the run's config.json, as a person with an editor would."""
    config = json.loads((run / "config.json").read_text())
    *parents, leaf = field.split(".")
    branch: Any = config
    for parent in parents:
        terms = {term["name"]: term["options"] for term in branch.get("terms", ())}
        branch = terms[parent] if parent in terms else branch[parent]
    branch[leaf] = value
    (run / "config.json").write_text(json.dumps(config))
