"""`pamd envs preview`: show what the agent sees."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pamd.atomic_io import check_directory
from pamd.cli.console import print_text
from pamd.cli.parser import Metavar
from pamd.errors import ConfigError

if TYPE_CHECKING:
    import gymnasium

    from pamd.envs import EnvConfig
    from pamd.envs.config import Split

_VIDEO_SIZE = 252
_COLUMNS = 8

_Picture = NDArray[np.uint8]


def envs(
    what: Literal["preview"],
    task: str,
    /,
    distractor: str | None = None,
    videos: Path | None = None,
    set_: Annotated[tuple[str, ...], Metavar("KEY=VALUE")] = (),
    size: int = 84,
    render: Literal["standard", "fast"] = "fast",
    scene: Literal["stock", "released-dbc"] = "stock",
    episodes: int = 3,
    decisions: int = 60,
    seed: int = 0,
    out: Path = Path("preview"),
    egl_device: int | None = None,
) -> None:
    """Write a contact sheet (.png) and a video (.mp4) of a task as the agent sees it, with random actions.

    If the background uses videos, the sheet shows the training videos first and the unseen videos below.

    Args:
        what: the subcommand
        task: a task; see `pamd list tasks`
        distractor: moving background; see `pamd list distractors` (default: none)
        videos: directory of videos or images for the background (default: videos from installed packages)
        set_: any field of the distractor, e.g. strength=0.5 jitter=2
        size: height and width of the agent's images in pixels
        render: standard is the rendering of the paper scale, which takes half a minute without a GPU
        scene: colors of floor and sky: the suite's own, or the colors of the released DBC code
        episodes: rows of the sheet for training backgrounds, and as many for unseen ones
        decisions: decisions per episode
        seed: seed of the task and the random actions
        out: output directory
        egl_device: number of the EGL device that renders; see `pamd doctor` (default: MuJoCo's choice)
    """
    from pamd.cli.console import prepare_env_clips
    from pamd.envs import EnvConfig, choose_egl_device, named_distractor
    from pamd.settings import override
    from pamd.training.evaluate import write_video

    if min(episodes, decisions) < 1 or seed < 0:
        raise ConfigError("preview: episodes and decisions must be at least 1, and seed at least 0")
    check_directory(out, "--out")
    choose_egl_device(egl_device)
    background = named_distractor(distractor, videos)
    if set_ and background is None:
        raise ConfigError("--set requires --distractor: name one, e.g. --distractor video")
    background = background and override(background, set_)
    config = EnvConfig(task, size=size, render=render, distractor=background, scene=scene)
    config = prepare_env_clips(config, print_text)
    rows, frames, rate = _record(config, episodes, decisions, seed)
    name = task.replace(":", "-").replace("/", "-") + (f"_{background.name}" if background else "")
    name += f"_{scene}" if scene != "stock" else ""
    out.mkdir(parents=True, exist_ok=True)
    sheet, video = out / f"{name}.png", out / f"{name}.mp4"
    _write_sheet(sheet, rows)
    write_video(video, frames, rate)
    print_text(f"{sheet}\n{video}")


def _record(config: EnvConfig, episodes: int, decisions: int, seed: int) -> tuple[list[_Picture], list[_Picture], int]:
    """Return the rows of the sheet [size, _COLUMNS * size, 3], the video frames at _VIDEO_SIZE and the frame rate."""
    from pamd.envs import build_env
    from pamd.envs.distractors.compose import to_size

    splits: list[Split] = ["train", "unseen"] if config.distractor and config.distractor.has_clips else ["train"]
    rows: list[_Picture] = []
    frames: list[_Picture] = []
    rate = 30
    for split in splits:
        background = config.distractor and dataclasses.replace(config.distractor, split=split)
        env = build_env(dataclasses.replace(config, distractor=background), seed=seed)
        rate = int(env.metadata["render_fps"])
        rng = np.random.default_rng(seed)
        try:
            for _ in range(episodes):
                seen = _play(env, decisions, rng)
                frames += [to_size(picture, _VIDEO_SIZE) for picture in seen]
                shown = np.linspace(0, len(seen) - 1, _COLUMNS).astype(int)
                rows.append(np.concatenate([seen[index] for index in shown], axis=1))
        finally:
            env.close()
    return rows, frames, rate


def _play(env: gymnasium.Env[Any, Any], decisions: int, rng: np.random.Generator) -> list[_Picture]:
    """Return the images [size, size, 3] of one episode with random actions, at most `decisions` + 1."""
    seen: list[_Picture] = []
    _, info = env.reset()
    over = False
    while len(seen) <= decisions and not over:
        seen.append(info["frame"].transpose(1, 2, 0))
        action = rng.uniform(-1, 1, env.action_space.shape or ()).astype(np.float32)
        _, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    return seen


def _write_sheet(path: Path, rows: list[_Picture]) -> None:
    import imageio.v3 as iio

    picture = np.concatenate(rows)
    doubled = picture.repeat(2, axis=0).repeat(2, axis=1) if picture.shape[1] < 1000 else picture
    iio.imwrite(path, doubled)
