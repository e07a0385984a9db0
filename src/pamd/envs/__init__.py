"""Pixel control tasks as Gymnasium environments. A new file here is a new family of them, with no other edit."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pamd.config import build, check_whole
from pamd.envs.backend import Backend, import_simulator, probe_backends
from pamd.envs.config import EnvConfig
from pamd.envs.distractors import DistractorConfig, distractor
from pamd.envs.task import FAMILIES, Outcome, Task, default_action_repeat, make_task
from pamd.errors import ConfigError

if TYPE_CHECKING:
    from pamd.envs.distractors.split import Report
    from pamd.envs.vector import Workers
    from pamd.envs.wrappers import Episodes

__all__ = [
    "FAMILIES",
    "Backend",
    "DistractorConfig",
    "EnvConfig",
    "Outcome",
    "Task",
    "build_env",
    "default_action_repeat",
    "distractor",
    "make_env",
    "make_vector_env",
    "named_distractor",
    "prepare_env",
    "probe_backends",
]


def make_env(
    task: str,
    *,
    seed: int = 0,
    size: int = 84,
    frame_stack: int = 3,
    action_repeat: int | None = None,
    camera: int = 0,
    render: Literal["standard", "fast"] = "standard",
    family: Literal["bisimulation", "independent"] | None = None,
    time_limit: int | None = None,
    render_size: int | None = None,
    distractor: str | DistractorConfig | None = None,
    videos: str | Path | None = None,
) -> Episodes:
    """The environment of `task`; options as in `EnvConfig`.

    `distractor` is the name of a preset (`pamd list distractors`) or a config of your own; `videos` a folder for it.

    Observations are uint8 [3 * frame_stack, size, size], frames oldest first; actions float32 [A] in [-1, 1]. Every
    `info` has `frame`, the newest frame by itself, uint8 [3, size, size], and `frames`, the number of simulator frames
    that the step took. `render()` gives RGB [render_size, render_size, 3] (default `size`).
    """
    behind = named_distractor(distractor, videos)
    config = EnvConfig(task, size, frame_stack, action_repeat, camera, render, family, time_limit, behind)
    return build_env(config, seed=seed, render_size=render_size)


def named_distractor(given: str | DistractorConfig | None, videos: str | Path | None = None) -> DistractorConfig | None:
    """A distractor by its preset's name, or as it is; with a folder of videos."""
    if given is None and videos is not None:
        raise ConfigError("videos need a distractor that shows them: name one, e.g. paper-video")
    if isinstance(given, str):
        return distractor(given, videos=videos)
    if given is not None and videos is not None:
        return dataclasses.replace(given, videos=str(Path(videos).expanduser().absolute()))
    return given


def prepare_env(config: EnvConfig, report: Report | None = None) -> EnvConfig:
    """`config` with the clips of its distractor chosen, named by content and decoded; the same where it has none.

    Done before a run writes its config or spawns its workers, so that all of them mean the same clips.
    """
    if config.distractor is None:
        return config
    from pamd.envs.distractors.split import prepare

    return dataclasses.replace(config, distractor=prepare(config.distractor, config.size, report))


def build_env(config: EnvConfig, *, seed: int = 0, render_size: int | None = None) -> Episodes:
    """The environment that `config` describes."""
    import_simulator("gymnasium")  # Here and not above: it is neither a light import nor needed by the plug-in.
    from pamd.envs.wrappers import Episodes, FrameStack, PixelEnv

    if render_size is not None:
        check_whole(config.what, "render_size", render_size, 1)
    repeat = config.action_repeat or default_action_repeat(config.task, config.family)
    env = PixelEnv(
        _distracted(make_task(config), config, repeat),
        size=config.size,
        action_repeat=repeat,
        time_limit=config.time_limit,
        render_size=render_size,
    )
    return Episodes(FrameStack(env, config.frame_stack), seed)


def _distracted(task: Task, config: EnvConfig, repeat: int) -> Task:
    if config.distractor is None:
        return task
    from pamd.envs.distractors.task import SUITE_FRAMES, Distracted

    behind = prepare_env(config).distractor
    assert behind is not None
    frames = config.time_limit or task.time_limit or SUITE_FRAMES
    return Distracted(task, behind, size=config.size, action_repeat=repeat, frames=frames)


def make_vector_env(task: str, count: int, *, seed: int = 0, render_size: int | None = None, **options: Any) -> Workers:
    """`count` copies of the environment of `task`, each in a spawned process, as one Gymnasium vector environment.

    `options` are the fields of `EnvConfig`. How episodes follow each other is told at `pamd.envs.vector.Workers`.
    """
    import_simulator("gymnasium")
    from pamd.envs.vector import Workers

    check_whole(f"environment {task!r}", "count", count, 1)
    check_whole(f"environment {task!r}", "seed", seed, 0)
    behind = named_distractor(options.pop("distractor", None), options.pop("videos", None))
    config = build(EnvConfig, {"task": task, **options}, f"environment {task!r}")
    config = prepare_env(dataclasses.replace(config, distractor=behind))
    return Workers(config, count, seed, render_size)
