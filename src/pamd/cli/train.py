"""`pamd train`, `pamd resume`, `pamd eval`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from pamd.cli.clips import prepared
from pamd.cli.display import Display
from pamd.config import from_json
from pamd.configuration import configure, override
from pamd.errors import CheckpointError, ConfigError
from pamd.training.config import TrainConfig

__all__ = ["evaluate", "resume", "train"]

Settings = Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="KEY=VALUE")]


def train(
    task: Annotated[str | None, tyro.conf.Positional] = None,
    /,
    method: str | None = None,
    fidelity: Literal["paper", "released"] | None = None,
    scale: str | None = None,
    seed: int | None = None,
    decisions: int | None = None,
    schedule: Literal["sequential", "joint"] | None = None,
    isolate_metric: tyro.conf.FlagCreatePairsOff[bool] = False,
    action_repeat: int | None = None,
    render: Literal["standard", "fast"] | None = None,
    distractor: str | None = None,
    videos: Path | None = None,
    capacity: int | None = None,
    storage: Literal["memory", "mmap", "compressed"] | None = None,
    evaluate_every: int | None = None,
    evaluate_episodes: int | None = None,
    checkpoint_every: int | None = None,
    config: Path | None = None,
    set_: Settings = (),
    runs: Path = Path("runs"),
    device: str | None = None,
    threads: int | None = None,
    video: Literal["off", "last", "all"] | None = None,
    tensorboard: bool = True,
    wandb: str | None = None,
) -> None:
    """Train from pixels; a run of the same config that was interrupted goes on.

    Args:
        task: cheetah_run or any other DMControl task, gym:ID, or toy.
        method: see `pamd list methods` (default simsr+pamd).
        fidelity: follow the paper's text (default) or the released code where they differ.
        scale: paper (default), cpu or smoke.
        decisions: budget; one decision = one update = action_repeat simulator frames.
        schedule: one step per loss as released, or one backward pass for all.
        isolate_metric: a second encoder learns from the metric loss alone, beside an agent that has none.
        distractor: what is behind the task, e.g. paper-video; see `pamd list distractors`.
        videos: a folder of videos or pictures for it; default: what installed packages carry.
        config: a config.json to run instead of naming things; --set still applies.
        set_: any field of the config, e.g. method.objective.pairing=all
        runs: where run directories are made.
        wandb: a Weights & Biases project.
    """
    from pamd.training import loop

    said: dict[str, Any] = {
        "method": method,
        "fidelity": fidelity,
        "scale": scale,
        "schedule": schedule,
        "isolate_metric": isolate_metric or None,
        "seed": seed,
        "decisions": decisions,
        "action_repeat": action_repeat,
        "render": render,
        "distractor": distractor,
        "videos": videos,
        "capacity": capacity,
        "storage": storage,
        "evaluate_every": evaluate_every,
        "evaluate_episodes": evaluate_episodes,
        "checkpoint_every": checkpoint_every,
    }
    named = {name: value for name, value in said.items() if value is not None}
    how: dict[str, Any] = {"device": device, "threads": threads, "video": video, "wandb": wandb}
    how["tensorboard"] = None if tensorboard else False  # said only as --no-tensorboard
    if config is not None:
        made = _from_file(config, task, named)
    elif task is None:
        raise ConfigError("name a task, e.g. `pamd train cheetah_run`, or give --config")
    else:
        made = configure(task, **named)
    runtime = dataclasses.replace(made.runtime, **{k: v for k, v in how.items() if v is not None})
    made = override(dataclasses.replace(made, runtime=runtime), set_)
    with Display() as display:
        path = loop.train(prepared(made, display.say), runs, display)
        display.say(f"{path}")


def _from_file(path: Path, task: str | None, named: dict[str, Any]) -> TrainConfig:
    """The config in a file, which says everything: words beside it would be a second opinion."""
    words = [*([task] if task else []), *(f"--{name.replace('_', '-')}" for name in named)]
    if words:
        raise ConfigError(f"--config says all that {', '.join(words)} would say, not both; change a field with --set")
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"there is no config file {path} that can be read: {error}") from None
    return from_json(TrainConfig, text, str(path))


def resume(
    run: Annotated[Path, tyro.conf.Positional], /, device: str | None = None, threads: int | None = None
) -> None:
    """Go on with a run from its newest whole checkpoint.

    Args:
        run: a run directory.
    """
    from pamd.training import loop
    from pamd.training.run import RunDirectory

    runtime = RunDirectory.open(run).config.runtime
    runtime = dataclasses.replace(runtime, device=device or runtime.device, threads=threads or runtime.threads)
    with Display() as display:
        prepared(RunDirectory.open(run).config, display.say)
        loop.resume(run, runtime, display)
        display.say(f"{run}")


def evaluate(
    run: Annotated[Path, tyro.conf.Positional], /, episodes: int = 10, seed: int | None = None, video: bool = True
) -> None:
    """Evaluate the newest checkpoint of a run, and film its first episode.

    Args:
        run: a run directory.
        seed: of the evaluation episodes; default the run's own.
    """
    from pamd.training import checkpoint
    from pamd.training.evaluate import evaluate as play
    from pamd.training.evaluate import load_agent
    from pamd.training.run import RunDirectory
    from pamd.training.video import write_video

    if episodes < 1 or (seed is not None and seed < 0):
        raise ConfigError(f"eval: episodes must be at least 1 and seed at least 0, got {episodes} and {seed}")
    opened = RunDirectory.open(run)
    config = opened.config
    found, complaints = checkpoint.newest(opened.checkpoints)
    if found is None:
        raise CheckpointError(" ".join([f"{run} has no whole checkpoint to evaluate.", *complaints]))
    agent, rate = load_agent(config, found[0])
    row, frames = play(agent, config.env, config.seed if seed is None else seed, episodes, film=video)
    with Display() as display:
        for complaint in complaints:
            display.say(f"{complaint}; evaluating the one before")
        seen = " before the clips of training" if "clips" in row else ""
        returned = f"{row['return_mean']:.1f} ± {row['return_std']:.1f}"
        display.say(f"checkpoint {found[2].name}: return {returned} over {episodes}{seen}")
        if "clips" in row:
            returned = f"{row['unseen_return_mean']:.1f} ± {row['unseen_return_std']:.1f}"
            display.say(f"checkpoint {found[2].name}: return {returned} over {episodes} before unseen clips")
        if frames:
            path = opened.video / f"evaluated-{found[2].name}.mp4"
            write_video(path, frames, rate)
            display.say(f"{path}")
