"""Start, resume and extend runs. A run that is rejected changes no file."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pamd import atomic_io
from pamd.errors import CheckpointError, ConfigError, PamdError, ResourceError, RunError, RunInterrupted
from pamd.precision import has_bfloat16
from pamd.replay import Replay
from pamd.replay.layout import StorageName
from pamd.runs import RunDirectory
from pamd.runs.checkpoints import list_checkpoints
from pamd.runs.files import refuse_linked_directories, remove_temporary, shared_files, temporaries
from pamd.runs.identity import tree_identity
from pamd.runs.logs import convert_errors
from pamd.runs.status import write_text
from pamd.runs.versions import processor, write_versions
from pamd.schema import to_tree
from pamd.training import checkpoint
from pamd.training.config import Runtime, TrainConfig, config_text, prepare, read_config, run_name
from pamd.training.loop import Observer, run_loop
from pamd.training.preflight import check_run
from pamd.training.process import default_threads, stop_signals, torch_threads
from pamd.training.session import Session, replay_plan


class SilentObserver:
    """Shows nothing."""

    def progress(self, session: Session) -> None:
        pass

    def say(self, message: str) -> None:
        pass


def train(config: TrainConfig, root: str | Path = "runs", observer: Observer | None = None) -> Path:
    """Train and return the run directory. An interrupted run of the same config is resumed.

    A finished run of the same config with a smaller budget is extended.
    """
    if not isinstance(config, TrainConfig):
        hint = f"; pass pamd.configure({config!r})" if isinstance(config, str) else ""
        raise ConfigError(f"train takes a TrainConfig, got a {type(config).__name__}{hint}")
    config, observer = prepare(config), observer or SilentObserver()
    run = RunDirectory(Path(root) / run_name(config))
    if not run.config_file.exists():
        return _train_new(run, config, observer)
    # The task of the file is the given one, or the file is refused. So it may be trusted like the given one.
    before = read_config(RunDirectory.open(run.path).config_file, config.runtime, trust=True)
    if tree_identity(to_tree(before)) != tree_identity(to_tree(config)):
        raise RunError(f"{run.path} contains a run with another config; remove it, or choose another --runs directory")
    decisions = max(before.decisions, config.decisions)
    if before.decisions > config.decisions and not run.finished(decisions):
        observer.say(f"{run.path} has a larger budget and continues to {decisions} decisions")
    return _run(run, dataclasses.replace(before, decisions=decisions), observer)


def _train_new(run: RunDirectory, config: TrainConfig, observer: Observer) -> Path:
    """Train a run that has no config.json yet. A run that is rejected leaves no directory."""
    new, storage = not run.path.exists(), check_run(config, run.path)
    try:
        run.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot create the run directory {run.path}: {error}") from None
    try:
        write_text(run.config_file, config_text(config))
    except ResourceError:
        with suppress(OSError):
            run.path.rmdir()  # Only if it is empty.
        raise
    return _run(run, config, observer, storage, new=new)


def resume(
    path: str | Path,
    runtime: Runtime | None = None,
    observer: Observer | None = None,
    *,
    decisions: int | None = None,
    trust: bool = False,
) -> Path:
    """Resume the run in `path` from its newest complete checkpoint. `decisions` raises its budget.

    A task that imports a module (`gym:module:ID`) requires `trust`.
    """
    run = RunDirectory.open(Path(path))
    config = read_config(run.config_file, runtime, trust=trust)
    if decisions is not None and decisions < config.decisions:
        raise ConfigError(f"{path} has a budget of {config.decisions} decisions; it cannot be lowered to {decisions}")
    return _run(run, dataclasses.replace(config, decisions=decisions or config.decisions), observer or SilentObserver())


def _run(
    run: RunDirectory,
    config: TrainConfig,
    observer: Observer,
    storage: StorageName | None = None,
    new: bool = False,
) -> Path:
    """Train to the end of the budget. If `new`, this call created the directory, and removes it if it is rejected."""
    if run.finished(config.decisions):
        observer.say(f"{run.path} is already finished; to extend it, raise --decisions above {config.decisions}")
        return run.path
    storage = storage or check_run(config, run.path)
    with _locked(run, observer, new), torch_threads(config.runtime.threads or default_threads(config.env)) as threads:
        try:
            session = _open(run, config, threads, observer, storage)
        except BaseException:
            # A rejected run changes nothing: a new one leaves no directory, and an existing one keeps its status.
            if new:
                shutil.rmtree(run.path, ignore_errors=True)
            raise
        try:
            with stop_signals() as stop:
                run_loop(session, observer, stop)
            run.write_status("finished", session.budget, seconds=round(session.seconds, 1))
        except RunInterrupted:
            run.write_status("interrupted", session.budget)
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, PamdError) else f"{type(error).__name__}: {error}"
            run.write_status("failed", session.budget, error=reason)
            raise
        finally:
            session.close()
    return run.path


@contextmanager
def _locked(run: RunDirectory, observer: Observer, new: bool) -> Iterator[None]:
    """Lock the run. If that is not possible at all, a `new` run leaves no directory."""
    with ExitStack() as stack:
        try:
            stack.enter_context(run.locked(say=observer.say))
        except ResourceError:
            if new:
                shutil.rmtree(run.path, ignore_errors=True)
            raise
        yield


def _open(run: RunDirectory, config: TrainConfig, threads: int, observer: Observer, storage: StorageName) -> Session:
    """Start a session, or restore it from its newest checkpoint."""
    refuse_linked_directories(run.path)
    for path in temporaries(run.path):
        remove_temporary(path)
    for path in shared_files(run.path):
        with convert_errors(path):
            atomic_io.unshare(path)
    session = Session(run, config, threads, storage)
    try:
        _make_room(run, config)
        _begin_or_restore(session, observer)
        session.versions = write_versions(run.path, session.versions)
    except BaseException:
        session.close()
        raise
    return session


def _make_room(run: RunDirectory, config: TrainConfig) -> None:
    """Enlarge the replay of a run whose budget was raised, and store the new budget."""
    if config.decisions > run.config_tree()["decisions"]:
        # The replay is enlarged first, so that the run matches its config after a kill between the two steps.
        if list_checkpoints(run.checkpoints):
            Replay.grow(run.replay, replay_plan(config)[0].capacity)
        write_text(run.config_file, config_text(config))


def _begin_or_restore(session: Session, observer: Observer) -> None:
    saved = list_checkpoints(session.run.checkpoints)
    for path in saved:
        try:
            found = checkpoint.read(path)
            session.restore(found)
        except CheckpointError as error:
            observer.say(f"{error}; using the previous checkpoint")
            continue
        observer.say(f"resuming {session.run.path} from checkpoint {path.name}")
        threads = found.state.get("threads", session.threads)  # Earlier versions did not store it.
        if threads != session.threads:
            observer.say(
                f"threads: the run used {threads} and continues with {session.threads}, which rounds sums differently:"
                f" results will differ from those of an uninterrupted run; --threads {threads} keeps them equal"
            )
        # Earlier versions did not store it.
        before = session.versions[-1].get("processor") if session.versions else None
        if before not in (None, processor()):
            observer.say(
                f"processor: the run used {before!r} and continues with {processor()!r}, which may round sums"
                " differently: results may differ from those of an uninterrupted run"
            )
        _say_precision(session, observer, found.state.get("bfloat16"))  # Earlier versions did not store it.
        return
    if saved:
        raise CheckpointError(
            f"{session.run.checkpoints} has no complete checkpoint; delete the run directory to start again"
        )
    session.begin()
    _say_precision(session, observer)
    if notice := session.storage_notice():
        observer.say(notice)


def _say_precision(session: Session, observer: Observer, before: bool | None = None) -> None:
    """Say if a bfloat16 run is slow here, or rounds differently than on the device `before` the interruption."""
    fast = has_bfloat16(session.device)
    if session.config.precision == "float32":
        return
    if not fast:
        observer.say(
            f"precision: this device ({session.device.type}) has no bfloat16 arithmetic, so an update takes several"
            " times as long as in float32"
        )
    if before is not None and before != fast:
        observer.say(
            f"precision: the run used a device with{'' if before else 'out'} bfloat16 arithmetic and continues"
            f" with{'' if fast else 'out'} it, which rounds differently: results will differ from those of an"
            " uninterrupted run"
        )
