"""One run of a sweep, and how any worker on any machine carries it out."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from pamd.config import from_json, to_json
from pamd.errors import PamdError, RunError, RunInterrupted
from pamd.training import RunDirectory, TrainConfig, prepare, run_name, train

__all__ = ["Job", "Outcome", "carry_out", "jobs"]

_PATIENCE = 90.0
"""Seconds to wait for whoever holds a run: after a crash of the sweep its workers still write their checkpoints."""


class Outcome(NamedTuple):
    """How an attempt ended. `died`: the worker did not live to say; the run can go on from its last checkpoint."""

    state: Literal["finished", "failed", "interrupted", "died"]
    error: str = ""


@dataclass(frozen=True)
class Job:
    """A run to be carried out below `root`, which every worker must see under that path."""

    label: str
    config: TrainConfig
    root: Path

    @cached_property
    def name(self) -> str:
        """Of its run directory: from the config's hash, so the same computation is one job."""
        return run_name(self.config)

    @property
    def path(self) -> Path:
        return self.root / self.name

    def request(self) -> tuple[str, str]:
        """What `carry_out` needs, as text."""
        return to_json(self.config), str(self.root)


def jobs(runs: Iterable[tuple[str, TrainConfig]], root: Path) -> list[Job]:
    """A job for every labelled config, each computation once."""
    root = root.expanduser().absolute()  # a worker may have another working directory
    made: dict[str, Job] = {}
    for label, config in runs:
        # Clips of a distractor are chosen, and become part of a run's name, before it begins.
        job = Job(label, prepare(config), root)
        made.setdefault(job.name, job)
    return list(made.values())


def carry_out(config: str, root: str) -> Outcome:
    """Run to the end, or to a reason why not. Raises nothing: the reason must cross processes and machines."""
    place = Path(root)
    try:
        if not place.is_dir():
            raise RunError(f"{place} is not there on this machine; --root must be storage that all machines share")
        made = from_json(TrainConfig, config, "the config of a run")
        _wait_for(RunDirectory.create(place, made))
        train(made, place)
    except RunInterrupted as stopped:
        return Outcome("interrupted", str(stopped))
    except KeyboardInterrupt:
        return Outcome("interrupted", "stopped before its checkpoint")
    except PamdError as error:
        return Outcome("failed", str(error))
    except Exception as error:
        # A defect, ours or a library's: its place in the code is worth more than one line.
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome("failed", f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})")
    return Outcome("finished")


def _wait_for(run: RunDirectory) -> None:
    """Return once nobody holds the run; RunError where somebody keeps it."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            run.lock()
        except RunError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        else:
            run.unlock()
            return
