"""Control tasks with pixel or state observations as Gymnasium environments. Each environment family is one file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pamd.envs.backend import import_simulator, probe_backends
from pamd.envs.config import EnvConfig, NoiseConfig, Scene, noise, shows_videos
from pamd.envs.distractors import DistractorConfig, distractor
from pamd.envs.egl import choose_egl_device, egl_devices
from pamd.envs.task import (
    DEFAULT_TIME_LIMIT,
    FAMILIES,
    Outcome,
    Task,
    default_action_repeat,
    default_frame_stack,
    episode_frames,
    least_shape,
    make_task,
    observes_states,
    refuse_import,
    resolve_env,
    scenes,
    trust_flag,
)
from pamd.errors import ConfigError
from pamd.schema import Count, check_values

if TYPE_CHECKING:
    from pamd.envs.distractors.split import Report
    from pamd.envs.wrappers import Episodes

__all__ = [
    "FAMILIES",
    "DistractorConfig",
    "EnvConfig",
    "NoiseConfig",
    "Outcome",
    "Scene",
    "Task",
    "build_env",
    "choose_egl_device",
    "default_action_repeat",
    "default_frame_stack",
    "egl_devices",
    "elsewhere",
    "least_shape",
    "make_env",
    "named_distractor",
    "named_noise",
    "observes_states",
    "prepare_env",
    "probe_backends",
    "refuse_import",
    "resolve_env",
    "scenes",
    "shows_videos",
    "trust_flag",
    "unseen",
]


def make_env(
    task: str,
    *,
    seed: int = 0,
    size: int = 84,
    frame_stack: int | None = None,
    action_repeat: int | None = None,
    camera: int = 0,
    render: Literal["standard", "fast"] = "standard",
    antialias: int = 1,
    time_limit: int | None = None,
    options: Mapping[str, Any] | None = None,
    render_size: int | None = None,
    distractor: str | DistractorConfig | None = None,
    videos: str | Path | None = None,
    noise: str | NoiseConfig | None = None,
    scene: Scene = "stock",
) -> Episodes:
    """Make the environment for `task`. Most options are fields of `EnvConfig`.

    `distractor` is the name of a preset (`pamd list distractors`) or a `DistractorConfig`. `videos` is a folder of
    background videos. `noise` is the name of a preset or a `NoiseConfig` for a `state:` task. `options` go to
    `gymnasium.make` for a `gym:` task.

    Observations are uint8 [3 * frame_stack, size, size], oldest frame first, or float32 [n * frame_stack] for a
    `state:` task. By default, 3 images or 1 state are stacked. Actions are float32 [A] in [-1, 1]. `info["frame"]` is
    the newest frame, and `info["frames"]` is the number of simulator frames of the step. `render()` returns RGB
    [render_size, render_size, 3]; `render_size` defaults to `size`.
    """
    background = named_distractor(distractor, videos)
    stack = default_frame_stack(task) if frame_stack is None else frame_stack
    noise_config = named_noise(noise)
    config = EnvConfig(
        task,
        size=size,
        frame_stack=stack,
        action_repeat=action_repeat,
        camera=camera,
        render=render,
        antialias=antialias,
        time_limit=time_limit,
        options=dict(options or {}),
        distractor=background,
        noise=noise_config,
        scene=scene,
    )
    return build_env(config, seed=seed, render_size=render_size)


def named_distractor(given: str | DistractorConfig | None, videos: str | Path | None = None) -> DistractorConfig | None:
    """Return the distractor of a preset, or the given config, with `videos` as its folder of videos."""
    if given is None and videos is not None:
        raise ConfigError("videos require a distractor that shows them, e.g. paper-video")
    if isinstance(given, str):
        return distractor(given, videos=videos)
    if given is not None and not isinstance(given, DistractorConfig):
        raise ConfigError(f"a distractor must be the name of a preset or a DistractorConfig, got {given!r}")
    if given is not None and videos is not None:
        return dataclasses.replace(given, videos=str(Path(videos).expanduser().absolute()))
    return given


def named_noise(given: str | NoiseConfig | None) -> NoiseConfig | None:
    """Return the noise of a preset, or the given config."""
    return noise(given) if isinstance(given, str) else given


def unseen(config: EnvConfig) -> EnvConfig | None:
    """Return `config` with unseen background clips or a shifted noise mean; None if it has neither clips nor noise."""
    if config.noise is not None:
        moved = config.noise.mean + config.noise.shift * config.noise.deviation
        return dataclasses.replace(config, noise=dataclasses.replace(config.noise, mean=moved))
    distractor = config.distractor
    if distractor is not None and distractor.has_clips and distractor.split == "train":
        return dataclasses.replace(config, distractor=dataclasses.replace(distractor, split="unseen"))
    return None


def elsewhere(
    config: EnvConfig,
    *,
    distractor: str | DistractorConfig | None = None,
    videos: str | Path | None = None,
    camera: int | None = None,
    noise: str | NoiseConfig | None = None,
    report: Report | None = None,
) -> EnvConfig:
    """Return `config`, in which an agent was trained, with another background, camera or noise. None keeps it.

    The background shows only clips that the agent was not trained with.
    """
    changed = config if camera is None else dataclasses.replace(config, camera=camera)
    if noise is not None:
        before, after = config.noise, named_noise(noise)
        assert after is not None
        if before is None or before.coordinates != after.coordinates:
            had = "no noise" if before is None else f"{before.coordinates} coordinates of noise"
            raise ConfigError(
                f"noise {after.name!r} has {after.coordinates} coordinates, and the agent was trained with {had}: it"
                " cannot read other observations"
            )
        changed = dataclasses.replace(changed, noise=after)
    if distractor is None and videos is not None and config.distractor is not None:
        distractor = dataclasses.replace(config.distractor, train=(), unseen=())
    background = named_distractor(distractor, videos)
    if background is None:
        return resolve_env(changed)
    # The number of training clips is that of a training with this background. Nothing is trained here.
    background = dataclasses.replace(background, split="unseen", train_clips=None)
    changed = resolve_env(dataclasses.replace(changed, distractor=background))
    from pamd.envs.distractors.split import prepare

    trained = () if config.distractor is None else config.distractor.train
    return dataclasses.replace(changed, distractor=prepare(background, config.size, report, trained))


def prepare_env(config: EnvConfig, report: Report | None = None) -> EnvConfig:
    """Choose and decode the clips of the distractor, and return `config` with their digests.

    A config without clips is returned unchanged.

    Call this before a run writes its config, so that the saved config identifies the clips.
    """
    if config.distractor is None:
        return config
    from pamd.envs.distractors.split import prepare

    return dataclasses.replace(config, distractor=prepare(config.distractor, config.size, report))


def build_env(config: EnvConfig, *, seed: int = 0, render_size: int | None = None) -> Episodes:
    """Build the environment of `config`."""
    import_simulator("gymnasium")  # The import is slow, and users who only compute distances do not need it.
    from pamd.envs.wrappers import Episodes, FrameStack, TaskEnv, blaming

    if render_size is not None:
        check_values(config.what, Count, render_size=render_size)
    config = resolve_env(config)
    repeat = config.action_repeat
    assert repeat is not None
    with blaming(config, "cannot be built"):
        task = make_task(config)
    env = TaskEnv(_distracted(task, config, repeat), config, render_size)
    return Episodes(FrameStack(env, config.frame_stack), seed)


def _distracted(task: Task, config: EnvConfig, repeat: int) -> Task:
    distractor = prepare_env(config).distractor
    if distractor is None:
        return task
    from pamd.envs.distractors.task import Distracted

    frames = episode_frames(task, config) or DEFAULT_TIME_LIMIT
    return Distracted(task, distractor, size=config.size, action_repeat=repeat, frames=frames)
