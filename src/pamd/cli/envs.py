"""`pamd envs preview`: what the agent sees, for a person."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import tyro
from numpy.typing import NDArray
from rich.console import Console

from pamd.durable import check_directory
from pamd.errors import ConfigError

if TYPE_CHECKING:
    from pamd.envs import EnvConfig
    from pamd.envs.distractors.config import Split

__all__ = ["envs"]

FILM_SIZE = 252
COLUMNS = 8

Picture = NDArray[np.uint8]


def envs(
    what: Annotated[Literal["preview"], tyro.conf.Positional],
    task: Annotated[str, tyro.conf.Positional],
    /,
    distractor: str | None = None,
    videos: Path | None = None,
    set_: Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="KEY=VALUE")] = (),
    size: int = 84,
    render: Literal["standard", "fast"] = "fast",
    episodes: int = 3,
    decisions: int = 60,
    seed: int = 0,
    output: Path = Path("preview"),
) -> None:
    """Write a contact sheet (.png) and a film (.mp4) of a task as the agent sees it, under random actions.

    With a distractor that has clips, the sheet shows those of training first, then those that training never shows.

    Args:
        what: preview.
        task: cheetah_run or any other task.
        distractor: see `pamd list distractors`.
        videos: a folder of videos or pictures for it.
        set_: any field of the distractor, e.g. strength=0.5 jitter=2
        size: pixels a side that the agent sees.
        render: standard is how the paper's scale draws; without a GPU it takes half a minute.
        episodes: rows of the sheet, on each side of the split.
        decisions: in each episode.
        output: the folder for both files.
    """
    from pamd.cli.clips import prepared_env
    from pamd.configuration import override
    from pamd.envs import EnvConfig, named_distractor
    from pamd.training.video import write_video

    if min(episodes, decisions) < 1 or seed < 0:
        raise ConfigError("preview: episodes and decisions must be at least 1, and seed at least 0")
    check_directory(output, "--output")
    console = Console(stderr=True)

    def say(message: str) -> None:
        console.print(message, highlight=False, soft_wrap=True)

    behind = named_distractor(distractor, videos)
    if set_ and behind is None:
        raise ConfigError("--set changes a distractor: name one, e.g. --distractor video")
    behind = override(behind, set_)
    config = prepared_env(EnvConfig(task, size=size, render=render, distractor=behind), say)
    rows, film, rate = _filmed(config, episodes, decisions, seed)
    name = task.replace(":", "-").replace("/", "-") + (f"_{behind.name}" if behind else "")
    output.mkdir(parents=True, exist_ok=True)
    sheet, video = output / f"{name}.png", output / f"{name}.mp4"
    _write_sheet(sheet, rows)
    write_video(video, film, rate)
    say(f"{sheet}\n{video}")


def _filmed(config: EnvConfig, episodes: int, decisions: int, seed: int) -> tuple[list[Picture], list[Picture], int]:
    """Rows of the sheet, each [size, COLUMNS * size, 3]; the film at FILM_SIZE; its frame rate."""
    from pamd.envs import build_env
    from pamd.envs.distractors.compose import to_size

    splits: list[Split] = ["train", "unseen"] if config.distractor and config.distractor.has_clips else ["train"]
    rows: list[Picture] = []
    film: list[Picture] = []
    rate = 30
    for split in splits:
        behind = config.distractor and dataclasses.replace(config.distractor, split=split)
        env = build_env(dataclasses.replace(config, distractor=behind), seed=seed)
        rate = int(env.metadata["render_fps"])
        rng = np.random.default_rng(seed)
        try:
            for _ in range(episodes):
                seen: list[Picture] = []
                _, info = env.reset()
                over = False
                while len(seen) <= decisions and not over:
                    seen.append(info["frame"].transpose(1, 2, 0))
                    film.append(to_size(seen[-1], FILM_SIZE))
                    action = rng.uniform(-1, 1, env.action_space.shape or ()).astype(np.float32)
                    _, _, terminated, truncated, info = env.step(action)
                    over = terminated or truncated
                shown = np.linspace(0, len(seen) - 1, COLUMNS).astype(int)
                rows.append(np.concatenate([seen[index] for index in shown], axis=1))
        finally:
            env.close()
    return rows, film, rate


def _write_sheet(path: Path, rows: list[Picture]) -> None:
    import imageio.v3 as iio

    picture = np.concatenate(rows)
    doubled = picture.repeat(2, axis=0).repeat(2, axis=1) if picture.shape[1] < 1000 else picture
    iio.imwrite(path, doubled)
