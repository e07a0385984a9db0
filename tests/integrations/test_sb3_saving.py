"""Saving, loading and continuing a model with a metric works as in SB3."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import DQN, SAC
from tests.integrations.pictures import ALGORITHMS, METHOD, Pictures, make, same

import pamd
from pamd.errors import ConfigError
from pamd.integrations.sb3 import with_metric

ROOT = Path(__file__).parents[2]

CONTINUE = """
import sys
import numpy as np, torch
from tests.integrations.pictures import ALGORITHMS, METHOD, Pictures
from pamd.integrations.sb3 import with_metric
name, folder = sys.argv[1:]
torch.set_num_threads(1)
model = with_metric(ALGORITHMS[name], METHOD).load(f"{folder}/model.zip", env=Pictures(name == "DQN"), device="cpu")
if name != "PPO":
    model.load_replay_buffer(f"{folder}/replay.pkl")
model.set_random_seed(5)
model.learn(32, reset_num_timesteps=False).save(f"{folder}/continued.zip")
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DQN", "SAC", "PPO"])
def test_a_loaded_model_continues_in_a_new_process_as_if_it_had_never_stopped(name: str, tmp_path: Path) -> None:
    model = make(name, "LatentPolicy").learn(32)
    save(model, tmp_path)
    words = [sys.executable, "-c", CONTINUE, name, str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    other = with_metric(ALGORITHMS[name], METHOD).load(tmp_path / "continued.zip", device="cpu")
    check_continued(model, other)


def test_a_loaded_model_continues_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    model = make("DQN", "LatentPolicy").learn(32)
    save(model, tmp_path)
    other = with_metric(DQN, METHOD).load(tmp_path / "model.zip", env=Pictures(discrete=True), device="cpu")
    other.load_replay_buffer(tmp_path / "replay.pkl")
    other.set_random_seed(5)
    other.learn(32, reset_num_timesteps=False)
    check_continued(model, other)


def save(model: Any, folder: Path) -> None:
    model.save(folder / "model.zip")
    if hasattr(model, "replay_buffer"):
        model.save_replay_buffer(folder / "replay.pkl")


def check_continued(model: Any, other: Any) -> None:
    """`other` was saved with `model`, and has learned for 32 decisions more; so does `model` now."""
    model.set_env(Pictures(isinstance(model, DQN)))  # SB3 begins a new episode after load; so does this
    model.set_random_seed(5)
    model.learn(32, reset_num_timesteps=False)
    assert other.num_timesteps == model.num_timesteps == 64
    assert same(model, other)
    assert_equal(model.metric.state_dict(), other.metric.state_dict())
    assert_equal(model.metric.optimizer.state_dict()["state"], other.metric.optimizer.state_dict()["state"])


def assert_equal(left: Any, right: Any) -> None:
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_equal(left[key], right[key])
    else:
        assert torch.equal(torch.as_tensor(left), torch.as_tensor(right))


def test_parameters_can_be_read_and_set() -> None:
    model, other = make("DQN").learn(12), make("DQN", seed=1)
    parameters = model.get_parameters()
    assert {"metric", "metric.optimizer"} <= parameters.keys()
    other.set_parameters(parameters)
    assert same(model, other)
    assert_equal(model.metric.state_dict(), other.metric.state_dict())


def test_a_method_without_networks_of_its_own_is_saved_too() -> None:
    method = pamd.method("mico", latent_dim=6)
    model, file = make("DQN", "LatentPolicy", method=method).learn(12), io.BytesIO()
    assert model.metric.optimizer is None
    model.save(file)
    file.seek(0)
    assert same(model, with_metric(DQN, method).load(file, device="cpu"))


def test_a_file_of_other_options_is_refused() -> None:
    file = io.BytesIO()
    make("DQN").save(file)
    file.seek(0)
    with pytest.raises(ConfigError, match=r"saved from with_metric\('simsr\+pamd', weight=1.0\).*'mico'"):
        with_metric(DQN, "mico").load(file, device="cpu")


def test_the_metric_never_moves_the_global_generators() -> None:
    def draws(plain: bool) -> tuple[float, float]:
        make("SAC", plain=plain)
        return float(torch.rand(())), float(np.random.random())  # noqa: NPY002

    assert draws(plain=True) == draws(plain=False)
    assert issubclass(with_metric(SAC, "mico"), SAC)
