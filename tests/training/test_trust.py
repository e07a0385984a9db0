"""A file must not choose code to run: a task that imports a module requires trust."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.training.runs import toy

import pamd
from pamd.cli.main import main
from pamd.configuration import configure
from pamd.errors import RunError, TaskError
from pamd.runs.identity import identity_digest, tree_identity
from pamd.training import Runtime
from pamd.training.config import TrainConfig, config_text, read_config

QUIET = Runtime(device="cpu", threads=1, video="off", tensorboard=False)
TASK = "gym:somebodys_env:Somebodys-v0"
SIZE = configure("toy", scale="smoke").env.size
REFUSAL = "imports the Python module 'somebodys_env'"
MODULE = """
import pathlib
import gymnasium
import numpy as np

pathlib.Path(__file__).with_name("imported").touch()


class Dot(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = gymnasium.spaces.Box(0, 1, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (2,))

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, False, False, {}

    def render(self):
        return np.zeros((12, 12, 3), np.uint8)


gymnasium.register("Somebodys-v0", Dot, max_episode_steps=5)
"""


def dot(**options: Any) -> TrainConfig:
    settings = ("learner.random_decisions=20", "env.time_limit=5")
    small = {"decisions": 30, "evaluate_every": 30, "checkpoint_every": 10, "runtime": QUIET, **options}
    return configure(TASK, "simsr+pamd", scale="smoke", settings=settings, **small)


def forget() -> None:
    import gymnasium

    sys.modules.pop("somebodys_env", None)
    gymnasium.registry.pop("Somebodys-v0", None)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run on an environment of somebody's module."""
    root = tmp_path_factory.mktemp("trust")
    (root / "somebodys_env.py").write_text(MODULE)
    sys.path.insert(0, str(root))
    yield pamd.train(dot(), root / "runs")
    sys.path.remove(str(root))
    forget()


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run in a process that has not imported the module."""
    forget()
    mark(trained).unlink(missing_ok=True)
    return Path(shutil.copytree(trained, tmp_path / trained.name))


def mark(trained: Path) -> Path:
    return trained.parents[1] / "imported"


def test_no_command_imports_what_a_file_names(
    run: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = str(run / "config.json")
    refused = (
        ["eval", str(run)],
        ["resume", str(run), "--decisions", "40"],
        ["train", "--config", config, "--runs", str(tmp_path / "more")],
        ["bench", "--config", config, "--seconds", "1"],
        ["diagnose", "latents", str(run)],
    )
    for words in refused:
        assert main(words) == 2, words
        assert REFUSAL in capsys.readouterr().err
    export = tmp_path / "export"
    accepted = (
        ["export", str(run), str(export)],
        ["verify", str(run)],
        ["pack", str(run), "--out", str(tmp_path / "runs.parquet")],
    )
    for words in accepted:
        assert main(words) == 0, (words, capsys.readouterr().err)
    assert pamd.report.load_runs([run])[0].finished
    assert main(["eval", str(export)]) == 2
    for source in (run, export):
        loaded = pamd.load(source)
        assert loaded.agent.observation_shape == (9, SIZE, SIZE)
        with pytest.raises(TaskError, match=REFUSAL):
            loaded.make_env()
    with pytest.raises(TaskError, match=REFUSAL):
        pamd.resume(run, decisions=40)
    with pytest.raises(TaskError, match=REFUSAL):
        read_config(run / "config.json")
    assert not mark(trained).exists()
    assert "trust=True)" in (export / "README.md").read_text()
    assert "--config config.json --trust" in (export / "README.md").read_text()


def test_trust_is_given_by_an_option(run: Path, trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(run), "--trust", "--episodes", "1", "--no-video"]) == 0
    assert "return 5.0" in capsys.readouterr().out
    assert mark(trained).exists()
    forget()
    assert pamd.load(run, trust=True).make_env().action_space.shape == (2,)
    forget()
    pamd.resume(run, decisions=32, trust=True)


def test_an_imported_module_is_trusted(run: Path) -> None:
    import somebodys_env  # type: ignore[import-not-found]  # noqa: F401

    pamd.load(run).make_env().close()


def test_options_of_a_constructor_require_trust(tmp_path: Path) -> None:
    """Gymnasium's adapter for old environments, for example, imports the module in its option `env_id`."""
    config = configure("gym:HalfCheetah-v5", scale="smoke", settings=("env.options.xml_file=their.xml",))
    (tmp_path / "config.json").write_text(config_text(config))
    with pytest.raises(TaskError, match=r"passes options to its constructor \(xml_file\)"):
        read_config(tmp_path / "config.json")
    assert read_config(tmp_path / "config.json", trust=True) == config


def test_the_command_that_names_the_task_continues_its_run(run: Path, trained: Path) -> None:
    assert pamd.train(dot(decisions=32), run.parent) == run
    assert mark(trained).exists()


def test_a_file_with_the_name_of_another_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A digest of eight digits can be met on purpose; the whole config cannot."""
    config = toy()
    monkeypatch.setattr("pamd.runs.identity.identity_digest", lambda identity: "12345678")
    (tmp_path / (name := pamd.training.run_name(config))).mkdir()
    tree = json.loads(config_text(config))
    tree["learner"]["options"]["batch"] = 8
    (tmp_path / name / "config.json").write_text(json.dumps(tree))
    assert identity_digest(tree_identity(tree)) != "12345678"
    with pytest.raises(RunError, match="contains a run with another config"):
        pamd.train(config, tmp_path)


def test_agents_are_loaded_without_their_simulator(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pamd.training.trained.build_env", lambda *_, **__: pytest.fail("an environment was built"))
    state = next((run / "checkpoints").glob("*30")) / "state.json"
    assert json.loads(state.read_text())["observation_shape"] == [9, SIZE, SIZE]
    assert pamd.load(run).agent.action_dim == 2
