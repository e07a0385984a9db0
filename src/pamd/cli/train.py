"""`pamd train`, `pamd resume`, `pamd eval`."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import tyro

from pamd.cli.clips import prepared
from pamd.cli.display import Display
from pamd.config import override, to_tree
from pamd.configuration import RunOptions, configure
from pamd.errors import ConfigError
from pamd.training.config import Runtime, TrainConfig, read_config

__all__ = ["Settings", "evaluate", "resume", "train"]

Settings = Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="KEY=VALUE")]
Run = Annotated[Path, tyro.conf.Positional]


def train(
    task: Annotated[str | None, tyro.conf.Positional] = None,
    /,
    options: Annotated[RunOptions, tyro.conf.arg(name="")] = RunOptions(),  # noqa: B008
    config: Path | None = None,
    set_: Settings = (),
    runs: Path = Path("runs"),
    runtime: Annotated[Runtime, tyro.conf.arg(name="")] = Runtime(),  # noqa: B008
) -> None:
    """Train an agent. Rerun the same command to continue an interrupted run.

    Args:
        task: cheetah_run or any other DMControl task, gym:ID, or toy
        config: a config.json to run; override its fields with --set
        set_: any field of the config, e.g. method.objective.pairing=all learner.batch=256
        runs: directory of the run directories
    """
    from pamd.training import loop

    made = _configured(task, options, config, set_, runtime)
    with Display() as display:
        path = loop.train(prepared(made, display.say), runs, display)
        display.say(f"{path}")


def _configured(
    task: str | None, options: RunOptions, file: Path | None, settings: tuple[str, ...], runtime: Runtime
) -> TrainConfig:
    given = options.given
    if file is not None:
        words = [*([task] if task else []), *(f"--{name.replace('_', '-')}" for name in given)]
        if words:
            raise ConfigError(f"--config cannot be combined with {', '.join(words)}; override fields with --set")
        config, chosen = read_config(file), to_tree(runtime)
        changed = {name: value for name, value in chosen.items() if value != to_tree(Runtime())[name]}
        return override(dataclasses.replace(config, runtime=dataclasses.replace(config.runtime, **changed)), settings)
    if task is None:
        raise ConfigError("a task is required, e.g. `pamd train cheetah_run`, or --config")
    return configure(task, settings=settings, runtime=runtime, **given)


def resume(
    run: Run,
    /,
    decisions: int | None = None,
    device: str | None = None,
    threads: int | None = None,
) -> None:
    """Continue a run from its newest whole checkpoint, or extend a finished one.

    Args:
        run: a run directory
        decisions: a larger budget than the run's own
        device: cpu, cuda or auto; by default as the run began
        threads: CPU threads of torch; by default as the run began
    """
    from pamd.training import loop
    from pamd.training.run import RunDirectory

    config = RunDirectory.open(run).config
    given: dict[str, Any] = {
        name: value for name, value in (("device", device), ("threads", threads)) if value is not None
    }
    runtime = dataclasses.replace(config.runtime, **given)
    with Display() as display:
        prepared(config, display.say)
        loop.resume(run, runtime, display, decisions=decisions)
        display.say(f"{run}")


def evaluate(
    run: Run,
    /,
    episodes: int = 10,
    seed: int | None = None,
    video: bool = True,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Evaluate the newest checkpoint of a run, and record a video of the first episode.

    Args:
        run: a run directory
        episodes: number of episodes
        seed: of the episodes; by default the run's own
        video: whether to record the first episode
        as_json: print the result as JSON
    """
    from pamd.training import load
    from pamd.training.evaluate import evaluate as play
    from pamd.training.video import write_video

    if episodes < 1 or (seed is not None and seed < 0):
        raise ConfigError(f"eval: episodes must be at least 1 and seed at least 0, got {episodes} and {seed}")
    trained = load(run)
    config = trained.config
    row, frames = play(trained.agent, config.env, config.seed if seed is None else seed, episodes, record=video)
    path = None
    if frames:
        path = trained.path / "video" / f"evaluated-{trained.checkpoint}.mp4"
        env = trained.make_env()
        write_video(path, frames, int(env.metadata["render_fps"]))
        env.close()
    with Display() as display:
        for complaint in trained.complaints:
            display.say(f"{complaint}; evaluating the one before it")
    if as_json:
        result = {"run": str(run), "checkpoint": trained.checkpoint, **row, "video": path and str(path)}
        sys.stdout.write(json.dumps(result) + "\n")
        return
    background = " (backgrounds of training)" if "clips" in row else ""
    sys.stdout.write(f"checkpoint {trained.checkpoint}: {_returned(row, '', episodes)}{background}\n")
    if "clips" in row:
        sys.stdout.write(
            f"checkpoint {trained.checkpoint}: {_returned(row, 'unseen_', episodes)} (unseen backgrounds)\n"
        )
    if path is not None:
        sys.stdout.write(f"video: {path}\n")


def _returned(row: dict[str, float], prefix: str, episodes: int) -> str:
    mean, std = row[f"{prefix}return_mean"], row[f"{prefix}return_std"]
    return f"return {mean:.1f} ± {std:.1f} over {episodes} episodes"
