"""Clips on a terminal: a bar while they are decoded, and a line about which ones a run uses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from pamd.cli.progress import Steps
from pamd.envs import DistractorConfig, EnvConfig, prepare_env
from pamd.training.config import TrainConfig

__all__ = ["prepared", "prepared_env"]

_NAMES = 5


def prepared(config: TrainConfig, say: Callable[[str], None]) -> TrainConfig:
    """`config` with its clips chosen and decoded, and told."""
    return dataclasses.replace(config, env=prepared_env(config.env, say))


def prepared_env(config: EnvConfig, say: Callable[[str], None]) -> EnvConfig:
    """`config` with its clips chosen and decoded, and told."""
    with Steps() as steps:
        made = prepare_env(config, lambda done, total, name: steps("decoding clips", done, total))
    if made.distractor is not None:
        say(_described(made.distractor, config.size))
    return made


def _described(distractor: DistractorConfig, size: int) -> str:
    from pamd.envs.distractors.cache import cache_directory, forecast

    if not distractor.has_clips:
        return f"distractor {distractor.name}: no clips, so none that training does not show"
    sides = []
    for refs, side in ((distractor.train, "in training"), (distractor.unseen, "unseen")):
        names = ", ".join(ref.name for ref in refs[:_NAMES]) + (", ..." if len(refs) > _NAMES else "")
        sides.append(f"{len(refs)} clips {side} ({names})")
    most = forecast(len(distractor.train) + len(distractor.unseen), size, distractor.frames) / 1e6
    where = f"at most {most:.0f} MB in {cache_directory()}"
    return f"distractor {distractor.name}: {'; '.join(sides)}; {where}"
