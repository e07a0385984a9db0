"""`pamd train`, `pamd resume`, `pamd eval`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from pamd.cli.clips import prepared
from pamd.cli.display import Display
from pamd.config import from_json
from pamd.configuration import configure, override
from pamd.errors import CheckpointError, ConfigError
from pamd.training.config import Runtime, TrainConfig

__all__ = ["Settings", "Storage", "evaluate", "resume", "train"]

Storage = Literal["memory", "mmap", "compressed"]
Settings = Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="KEY=VALUE")]


@dataclass(frozen=True)
class Named:
    """What a run is made of, by name; what is not said stays as the scale and the method have it."""

    method: str | None = None
    """see `pamd list methods` (default simsr+pamd)."""
    fidelity: Literal["paper", "released"] | None = None
    """follow the paper's text (default) or the released code where they differ."""
    scale: str | None = None
    """paper (default), cpu or smoke."""
    seed: int | None = None
    decisions: int | None = None
    """budget; one decision = one update = action_repeat simulator frames."""
    schedule: Literal["sequential", "joint"] | None = None
    """one step per loss as released, or one backward pass for all."""
    isolate_metric: tyro.conf.FlagCreatePairsOff[bool] = False
    """a second encoder learns from the metric loss alone, beside an agent that has none."""
    action_repeat: int | None = None
    """simulator frames of a decision; default: the paper's for the task."""
    render: Literal["standard", "fast"] | None = None
    """dm_control's own pixels, or without shadows, reflections and multisampling."""
    distractor: str | None = None
    """what is behind the task, e.g. paper-video; see `pamd list distractors`."""
    videos: Path | None = None
    """a folder of videos or pictures for it; default: what installed packages carry."""
    capacity: int | None = None
    """transitions that the replay holds."""
    storage: Storage | None = None
    """where the replay keeps its frames."""
    evaluate_every: int | None = None
    """decisions between evaluations."""
    evaluate_episodes: int | None = None
    checkpoint_every: int | None = None
    """decisions between checkpoints."""

    def said(self) -> dict[str, Any]:
        """Words for `configure`."""
        # By identity: 0 equals False and is something that was said.
        return {name: value for name, value in vars(self).items() if value is not None and value is not False}


@dataclass(frozen=True)
class How:
    """How a run is carried out: nothing that it computes."""

    device: str | None = None
    """cpu, cuda or auto (default)."""
    threads: int | None = None
    """CPU threads of torch."""
    video: Literal["off", "last", "all"] | None = None
    """which evaluations are filmed (default last)."""
    tensorboard: bool = True
    """write the same numbers for TensorBoard."""
    wandb: str | None = None
    """a Weights & Biases project."""

    def applied(self, runtime: Runtime) -> Runtime:
        """`runtime` with what was said."""
        # A TensorBoard that was not refused is left as the config has it.
        said = {name: value for name, value in vars(self).items() if value is not None and value is not True}
        return dataclasses.replace(runtime, **said)


def train(
    task: Annotated[str | None, tyro.conf.Positional] = None,
    /,
    named: Annotated[Named, tyro.conf.arg(name="")] = Named(),  # noqa: B008
    config: Path | None = None,
    set_: Settings = (),
    runs: Path = Path("runs"),
    how: Annotated[How, tyro.conf.arg(name="")] = How(),  # noqa: B008
) -> None:
    """Train from pixels; a run of the same config that was interrupted goes on.

    Args:
        task: cheetah_run or any other DMControl task, gym:ID, or toy.
        config: a config.json to run instead of naming things; --set still applies.
        set_: any field of the config, e.g. method.objective.pairing=all
        runs: where run directories are made.
    """
    from pamd.training import loop

    if config is not None:
        made = _from_file(config, task, named.said())
    elif task is None:
        raise ConfigError("name a task, e.g. `pamd train cheetah_run`, or give --config")
    else:
        made = configure(task, **named.said())
    made = override(dataclasses.replace(made, runtime=how.applied(made.runtime)), set_)
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
