"""`pamd train`, `pamd resume`, `pamd eval`."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated

from pamd.cli.console import Display, prepare_clips
from pamd.cli.parser import Metavar
from pamd.configuration import RunOptions, configure, name_changes
from pamd.envs import choose_egl_device, trust_flag
from pamd.errors import ConfigError, ResourceError
from pamd.schema import to_tree
from pamd.settings import override
from pamd.table import counted
from pamd.training.config import Runtime, TrainConfig, read_config

Settings = Annotated[tuple[str, ...], Metavar("KEY=VALUE")]

RUN_GROUPS = {
    "agent": ("learner", "fidelity", "schedule", "gamma", "isolate_metric", "precision"),
    "task": ("action_repeat", "time_limit", "distractor", "videos", "noise", "scene", "camera", "render"),
    "replay": ("capacity", "storage"),
    "evaluation and logs": (
        *("evaluate_every", "evaluate_unit", "evaluate_episodes", "evaluate_on", "video"),
        *("checkpoint_every", "log_every", "tensorboard", "wandb"),
    ),
}
"""Options shared by `pamd train` and `pamd sweep`, in the order of the help text."""
GROUPS = {
    "train": {
        "run": ("method", "scale", "decisions", "seed", "runs", "label", "config", "trust", "set_"),
        **RUN_GROUPS,
        "machine": ("device", "threads", "memory", "egl_device"),
    }
}


def train(
    task: str | None = None,
    /,
    options: RunOptions = RunOptions(),  # noqa: B008
    config: Path | None = None,
    set_: Settings = (),
    runs: Path = Path("runs"),
    runtime: Runtime = Runtime(),  # noqa: B008
    trust: bool = False,
    egl_device: int | None = None,
) -> None:
    """Train an agent. Rerun the same command to continue an interrupted run.

    Args:
        task: a task, e.g. cheetah_run, state:cheetah_run, metaworld:reach-v3, gym:ID or toy; see `pamd list tasks`
        config: a config.json to train from, instead of a task and options; override its fields with --set
        set_: any field of the config, e.g. method.metric.pairing=all learner.batch=256
        runs: parent directory of the runs
        trust: import the module that the task of --config names, as in gym:module:ID
        egl_device: number of the EGL device that renders; see `pamd doctor` (default: MuJoCo's choice)
    """
    from pamd.training import train as train_run

    choose_egl_device(egl_device)
    made = build_config("train", task, options, config, set_, runtime, trust)
    with Display() as display:
        if options.precision == "auto":
            display.say(f"precision: {made.precision} (auto)")
        path = train_run(prepare_clips(made, display.say), runs, display)
        display.say(f"next: `pamd eval {path}{trust_flag(made.env)}` or `pamd report {runs}`")
    sys.stdout.write(f"{path}\n")


def build_config(
    command: str,
    task: str | None,
    options: RunOptions,
    file: Path | None,
    settings: tuple[str, ...],
    runtime: Runtime,
    trust: bool = False,
) -> TrainConfig:
    """Return the config of `pamd train` and `pamd bench`: from a file, or from a task and options."""
    given = options.given
    if file is not None:
        words = [*([task] if task else []), *(f"--{name.replace('_', '-')}" for name in given)]
        if words:
            raise ConfigError(f"--config cannot be combined with {', '.join(words)}; override fields with --set")
        config, chosen = read_config(file, trust=trust), to_tree(runtime)
        changed = {name: value for name, value in chosen.items() if value != to_tree(Runtime())[name]}
        if settings and "label" not in changed:
            changed["label"] = None  # The settings may change what the label of the file says.
        runtime = dataclasses.replace(config.runtime, **changed)
        return name_changes(override(dataclasses.replace(config, runtime=runtime), settings))
    if task is None:
        raise ConfigError(f"a task or --config is required, e.g. `pamd {command} cheetah_run`")
    return configure(task, settings=settings, runtime=runtime, **given)


def resume(
    run: Path,
    /,
    decisions: int | None = None,
    device: str | None = None,
    threads: int | None = None,
    trust: bool = False,
    egl_device: int | None = None,
) -> None:
    """Continue a run from its newest complete checkpoint, or extend a finished one.

    Args:
        run: a run directory
        decisions: a new budget, larger than the run's (default: the run's)
        device: cpu, cuda or auto (default: the run's)
        threads: CPU threads of torch (default: the run's)
        trust: import the module that the run's task names, as in gym:module:ID
        egl_device: number of the EGL device that renders; see `pamd doctor` (default: MuJoCo's choice)
    """
    from pamd.runs import RunDirectory
    from pamd.training import resume as resume_run

    choose_egl_device(egl_device)
    config = read_config(RunDirectory.open(run).config_file, trust=trust)
    chosen = {name: value for name, value in (("device", device), ("threads", threads)) if value is not None}
    runtime = dataclasses.replace(config.runtime, **chosen)  # type: ignore[arg-type]
    with Display() as display:
        prepare_clips(config, display.say)
        resume_run(run, runtime, display, decisions=decisions, trust=trust)
    sys.stdout.write(f"{run}\n")


def evaluate(
    run: Path,
    /,
    episodes: int = 10,
    seed: int | None = None,
    distractor: str | None = None,
    videos: Path | None = None,
    camera: int | None = None,
    noise: str | None = None,
    video: bool = True,
    json_: bool = False,
    trust: bool = False,
    egl_device: int | None = None,
) -> None:
    """Evaluate the newest checkpoint of a run, and record a video of the first episode.

    By default, the environment is that of the training. A background from --distractor or --videos shows no clip that
    the agent was trained with.

    Args:
        run: a run directory
        distractor: another background; a name from `pamd list distractors` (default: the run's)
        videos: directory of videos or images for the background (default: the run's)
        camera: index of another camera of the model (default: the run's)
        noise: another noise of a state: task; a name from `pamd list noises` (default: the run's)
        episodes: number of episodes
        seed: seed of the episodes (default: the run's)
        video: record the first episode
        json_: print the result as JSON
        trust: import the module that the run's task names, as in gym:module:ID
        egl_device: number of the EGL device that renders; see `pamd doctor` (default: MuJoCo's choice)
    """
    from pamd.report.markup import file_name
    from pamd.training import load
    from pamd.training.evaluate import evaluate as play
    from pamd.training.evaluate import write_video
    from pamd.training.process import torch_threads

    if episodes < 1 or (seed is not None and seed < 0):
        raise ConfigError(f"eval: episodes must be at least 1 and seed at least 0, got {episodes} and {seed}")
    choose_egl_device(egl_device)
    trained = load(run, trust=trust)
    config = trained.config
    given = {"distractor": distractor, "videos": videos, "camera": camera, "noise": noise}
    where = ", ".join(f"{name} {value}" for name, value in given.items() if value is not None)
    env = trained.make_env(distractor=distractor, videos=videos, camera=camera, noise=noise)
    env_config, rate = env.unwrapped.config, int(env.metadata["render_fps"])  # type: ignore[attr-defined]
    env.close()
    with Display() as display:
        for complaint in trained.complaints:
            display.say(f"{complaint}; evaluating the previous one")
        display.say(f"playing {episodes} episodes of {config.env.task}{f' with {where}' if where else ''}")
    with torch_threads(1):  # Each pass reads one observation, so more threads would only wait.
        row, frames = play(trained.agent, env_config, config.seed if seed is None else seed, episodes, record=video)
    path = None
    if frames:
        place = f"-{file_name(where.replace(' ', '-').replace(',', ''))}" if where else ""
        path = trained.path / "video" / f"evaluated-{trained.checkpoint}{place}.mp4"
        try:
            write_video(path, frames, rate)
        except ResourceError as error:  # The run may be on a full disk or a read-only one. The result is known.
            path = None
            with Display() as display:
                display.say(f"no video: {error}")
    if json_:
        result = {
            "run": str(run),
            "checkpoint": trained.checkpoint,
            **({"elsewhere": where} if where else {}),
            **row,
            "video": path and str(path),
        }
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        sys.stdout.write(_format_result(row, trained.checkpoint, where, episodes, path))


def _format_result(row: dict[str, float], checkpoint: str, where: str, episodes: int, video: Path | None) -> str:
    """Return the lines that `pamd eval` prints. `where` describes an environment other than that of the training."""
    background = f" ({where})" if where else " (backgrounds of training)" if "clips" in row else ""
    lines = [f"checkpoint {checkpoint}: {_format_return(row, '', episodes)}{background}"]
    if "clips" in row:
        lines.append(f"checkpoint {checkpoint}: {_format_return(row, 'unseen_', episodes)} (unseen backgrounds)")
    if video is not None:
        lines.append(f"video: {video}")
    return "\n".join(lines) + "\n"


def _format_return(row: dict[str, float], prefix: str, episodes: int) -> str:
    mean, std = row[f"{prefix}return_mean"], row[f"{prefix}return_std"]
    rate = row.get(f"{prefix}success_mean")
    success = "" if rate is None else f", success in {round(rate * episodes)}"
    return f"return {mean:.1f} ± {std:.1f} over {counted(episodes, 'episode')}{success}"
