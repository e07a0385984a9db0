"""Prepare clips with a progress bar, and report which clips a run uses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from pamd.cli.progress import Steps
from pamd.envs import DistractorConfig, EnvConfig, prepare_env
from pamd.training.config import TrainConfig

__all__ = ["prepare_clips", "prepare_env_clips"]

_NAMES = 5


def prepare_clips(config: TrainConfig, say: Callable[[str], None]) -> TrainConfig:
    """Choose and decode the clips of `config`, report them with `say`, and return the completed config."""
    return dataclasses.replace(config, env=prepare_env_clips(config.env, say))


def prepare_env_clips(config: EnvConfig, say: Callable[[str], None]) -> EnvConfig:
    """Choose and decode the clips of `config`, report them with `say`, and return the completed config."""
    with Steps() as steps:
        made = prepare_env(config, lambda done, total, name: steps("decoding clips", done, total))
    if made.distractor is not None:
        say(_describe(made.distractor, config.size))
    return made


def _describe(distractor: DistractorConfig, size: int) -> str:
    from pamd.envs.distractors.cache import cache_directory, forecast

    if not distractor.has_clips:
        return f"distractor {distractor.name} has no clips, so there are no unseen backgrounds"
    sides = []
    for refs, side in ((distractor.train, "in training"), (distractor.unseen, "unseen")):
        names = ", ".join(ref.name for ref in refs[:_NAMES]) + (", ..." if len(refs) > _NAMES else "")
        sides.append(f"{len(refs)} clips {side} ({names})")
    most = forecast(len(distractor.train) + len(distractor.unseen), size, distractor.frames) / 1e6
    where = f"at most {most:.0f} MB in {cache_directory()}"
    return f"distractor {distractor.name}: {'; '.join(sides)}; {where}"
