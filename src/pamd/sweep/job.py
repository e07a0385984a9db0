"""One run of a sweep, and its execution by a worker on any machine."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from pamd.errors import PamdError, RunError, RunInterrupted
from pamd.runs import RunDirectory
from pamd.schema import from_json, to_json
from pamd.training import TrainConfig, prepare, run_name, train

_PATIENCE = 90.0
"""Seconds to wait for a locked run. After a crash of the sweep, its workers still write their checkpoints."""


class Outcome(NamedTuple):
    """The outcome of an attempt. `died` means that the worker ended without a report; the run can be resumed."""

    state: Literal["finished", "failed", "interrupted", "died"]
    error: str = ""


@dataclass(frozen=True)
class Job:
    """A run in the directory `runs`, which all workers must be able to access under that path."""

    label: str
    config: TrainConfig
    runs: Path

    @cached_property
    def name(self) -> str:
        """The name of the run directory. It contains the config's hash, so equal computations have the same name."""
        return run_name(self.config)

    @property
    def path(self) -> Path:
        return self.runs / self.name

    def request(self) -> tuple[str, str]:
        """Return the arguments of `run_job` as text."""
        return to_json(self.config), str(self.runs)


def jobs(labeled: Iterable[tuple[str, TrainConfig]], runs: Path) -> list[Job]:
    """Return one job per labeled config. If a run has several budgets, the largest one is used."""
    runs = runs.expanduser().absolute()  # A worker may have another working directory.
    made: dict[str, Job] = {}
    for label, config in labeled:
        # Background videos are part of the run name, so they must be chosen first.
        job = Job(label, prepare(config), runs)
        if job.name not in made or job.config.decisions > made[job.name].config.decisions:
            made[job.name] = job
    return list(made.values())


def run_job(config: str, runs: str) -> Outcome:
    """Train a run and return its outcome. Never raises, because the outcome is sent to another process or machine."""
    directory = Path(runs)
    try:
        if not directory.is_dir():
            raise RunError(f"{directory} does not exist here; --runs must be storage that all machines share")
        parsed = from_json(TrainConfig, config, "the config of a run")
        path = directory / run_name(parsed)
        if (path / "config.json").exists():
            _wait_for(path)
        train(parsed, directory)
    except RunInterrupted as stopped:
        return Outcome("interrupted", str(stopped))
    except KeyboardInterrupt:
        return Outcome("interrupted", "stopped before its checkpoint")
    except PamdError as error:
        return Outcome("failed", str(error))
    except Exception as error:
        # This is a bug in pamd or a library, so the message must include its location in the code.
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome("failed", f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})")
    return Outcome("finished")


def _wait_for(path: Path) -> None:
    """Wait until the run in `path` is unlocked. Raises RunError if another process keeps it locked."""
    run = RunDirectory.open(path)
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            with run.locked():
                return
        except RunError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
