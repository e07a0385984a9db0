"""A run on windows, or on augmentations of its own, resumes exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.training.runs import products, toy, undisturbed

from pamd.agent import Agent
from pamd.errors import RunInterrupted
from pamd.training import resume, train


@pytest.mark.parametrize(("method", "learner"), [("curl", "drqv2"), ("taco", "drqv2"), ("mrq", "sac"), ("spr", "sac")])
def test_stopped_between_checkpoints(
    method: str, learner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Episodes of 9 decisions and a replay that wraps around: windows end early at ends and at the newest frame.
    config = toy(method, learner=learner, capacity=25)
    update, made = Agent.update, []

    def interrupted(self: Agent, *arguments: Any) -> Any:
        made.append(self.updates)
        if len(made) == 15:
            raise KeyboardInterrupt
        return update(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Agent, "update", interrupted)
        with pytest.raises((KeyboardInterrupt, RunInterrupted)):
            train(config, tmp_path)
    (run,) = (path for path in tmp_path.iterdir() if path.is_dir())
    resume(run)
    assert products(run) == undisturbed(config)
