"""Exports: their content, their agent compared with the run, and refused inputs."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tests.training.runs import toy

import pamd
from pamd.cli.main import main
from pamd.configuration import configure
from pamd.envs.config import ClipRef
from pamd.errors import (
    CheckpointError,
    ConfigError,
    HubError,
    ReplayError,
    ResourceError,
    RunError,
    install_command,
)
from pamd.runs import Budget
from pamd.training import Runtime, export_run
from pamd.training import export as exporting
from pamd.training.export import _portable_config, _videos
from pamd.training.model_card import CardFacts, model_card

RECORDED = Runtime(device="cpu", threads=1, video="all", tensorboard=False, wandb=None)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pamd.train(toy(runtime=RECORDED), tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def exported(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_run(run, tmp_path_factory.mktemp("exports") / "agent")


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def copied(exported: Path, to: Path) -> Path:
    to.mkdir()
    for name in ("README.md", "config.json", "model.safetensors", "eval.jsonl"):
        (to / name).write_bytes((exported / name).read_bytes())
    return to


def test_it_has_weights_config_card_returns_and_videos_and_nothing_else(run: Path, exported: Path) -> None:
    assert files(exported) == {
        "README.md",
        "config.json",
        "eval.jsonl",
        "model.safetensors",
        "replay.mp4",
        "video/000000000.mp4",
        "video/000000030.mp4",
    }
    assert (exported / "replay.mp4").read_bytes() == (run / "video" / "000000060.mp4").read_bytes()
    assert (exported / "eval.jsonl").read_bytes() == (run / "eval.jsonl").read_bytes()
    weights = load_file(exported / "model.safetensors")
    assert weights.keys() == pamd.load(run).agent.weights().keys()
    with safe_open(exported / "model.safetensors", framework="pt") as file:
        assert file.metadata()["format"] == "pt"
    (saved,) = (run / "checkpoints").glob("*60/tensors.safetensors")
    assert (exported / "model.safetensors").stat().st_size < saved.stat().st_size / 2


@pytest.mark.parametrize("linked", [False, True], ids=["files", "links"])
def test_it_acts_and_measures_as_the_run_does(run: Path, exported: Path, tmp_path: Path, linked: bool) -> None:
    directory = exported
    if linked:  # as in the cache of a hub
        directory = tmp_path / "snapshot"
        directory.mkdir()
        for name in ("config.json", "model.safetensors"):
            (directory / name).symlink_to(exported / name)
    ours, theirs = pamd.load(run), pamd.load(directory)
    assert theirs.checkpoint == "000000060"
    env = theirs.make_env(seed=3)
    obs, _ = env.reset()
    env.close()
    np.testing.assert_array_equal(ours.act(obs), theirs.act(obs))
    z, other = (
        torch.randn(4, ours.config.method.latent_dim, generator=torch.Generator().manual_seed(s)) for s in (0, 1)
    )
    assert ours.distance is not None
    assert theirs.distance is not None
    assert torch.equal(ours.distance(z, other), theirs.distance(z, other))
    with pytest.raises(ReplayError, match="is an export and has no replay"):
        theirs.replay()


def test_loading_builds_no_environment(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("an environment was built")

    monkeypatch.setattr("pamd.training.trained.build_env", refuse)
    assert pamd.load(exported).agent.action_dim == 2


def test_nothing_of_the_machine_is_published(exported: Path) -> None:
    assert json.loads((exported / "config.json").read_text())["runtime"] == dataclasses.asdict(Runtime())
    config = pamd.configure("cheetah_run", "simsr", scale="smoke", distractor="easy")
    clip, other = (ClipRef(name, name * 64, name * 64) for name in "ab")
    assert config.env.distractor is not None
    distractor = dataclasses.replace(config.env.distractor, videos="/home/me", train=(clip,), unseen=(other,))
    config = dataclasses.replace(config, env=dataclasses.replace(config.env, distractor=distractor))
    published = _portable_config(config)
    assert "/home/me" not in json.dumps(dataclasses.asdict(published))
    assert pamd.training.run_name(published) == pamd.training.run_name(config)


def test_the_card_says_what_the_run_did(run: Path, exported: Path) -> None:
    card = (exported / "README.md").read_text()
    last = json.loads((run / "eval.jsonl").read_text().splitlines()[-1])
    mean, std = f"{last['return_mean']:.1f}", f"{last['return_std']:.1f}"
    front = card.split("---\n")[1]
    assert "library_name: pamd\npipeline_tag: reinforcement-learning\n" in front
    assert f'value: "{mean} +/- {std}"' in front
    assert f"| 60 | 60 | {last['updates']} | {len(last['returns'])} | {mean} ± {std} |" in card
    assert f"60 of 60 decisions (60 frames, {last['updates']} updates)" in card
    for target in re.findall(r"\]\(([^)]+)\)", card):
        assert (exported / target).is_file()


def test_the_code_of_the_card_runs(exported: Path) -> None:
    card = (exported / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code.replace("path/to/this/directory", str(exported)), names)
    assert names["action"].shape == (2,)


def test_a_long_run_has_a_short_table_that_ends_with_the_last_row() -> None:
    rows = [
        {"decisions": i, "frames": i, "updates": i, "return_mean": i, "return_std": 0, "returns": [i]}
        for i in range(99)
    ]
    card = model_card(CardFacts(toy(), Budget(98, 98, 98), rows, [], {}))
    table = [line for line in card.splitlines() if line.startswith("| ") and "decisions" not in line]
    assert len(table) == 12
    assert table[-1].startswith("| 98 ")
    assert "The run has no video." in card


def test_a_card_without_evaluations_claims_no_result() -> None:
    card = model_card(CardFacts(toy(), Budget(10, 10, 0), [], [], {}, repo="me/agent"))
    assert "model-index" not in card
    assert "was not evaluated" in card
    assert 'pamd.load(snapshot_download("me/agent"))' in card


def test_the_model_card_says_what_the_agent_observed() -> None:
    """An MLP also reads pictures."""
    pixels = configure("toy", scale="smoke", settings=("encoder.name=mlp",))
    for config, observed in ((pixels, "pixels"), (configure("state:cheetah_run"), "states")):
        assert config.encoder.name == "mlp"
        assert f"An agent trained from {observed} with" in model_card(CardFacts(config, Budget(), [], [], {}))


def test_videos_after_the_checkpoint_and_links_stay_behind(tmp_path: Path) -> None:
    for name in ("000000010.mp4", "evaluated-000000020.mp4", "000000030.mp4", "other.mp4"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "000000005.mp4").symlink_to(tmp_path / "other.mp4")
    found = _videos(tmp_path, 20)
    assert {name: path.name for name, path in found.items()} == {
        "replay.mp4": "evaluated-000000020.mp4",
        "video/000000010.mp4": "000000010.mp4",
    }


def test_a_directory_with_files_is_refused_and_an_empty_one_is_not(run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "model.safetensors" in files(export_run(run, tmp_path / "empty"))
    with pytest.raises(RunError, match="must be a new or empty directory"):
        export_run(run, tmp_path / "empty")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="it is a file or a link"):
        export_run(run, tmp_path / "file")
    with pytest.raises(ResourceError, match="is a file"):
        export_run(run, tmp_path / "file" / "below")


def test_a_failed_write_leaves_nothing(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> None:
        path.write_bytes(data[:10])
        if path.name == "model.safetensors":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("pamd.atomic_io.write", full)
    with pytest.raises(ResourceError, match="No space left"):
        export_run(run, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_an_export_is_not_taken_for_a_run(exported: Path, tmp_path: Path) -> None:
    before = files(exported)
    for use in (lambda: pamd.resume(exported), lambda: export_run(exported, tmp_path / "again")):
        with pytest.raises(RunError, match="is an export, not a run directory"):
            use()
    assert files(exported) == before


def test_damage_is_named(exported: Path, tmp_path: Path) -> None:
    edited = copied(exported, tmp_path / "edited")
    config = json.loads((edited / "config.json").read_text())
    (edited / "config.json").write_text(json.dumps({**config, "seed": 7}))
    with pytest.raises(CheckpointError, match=r"config\.json was edited after the export"):
        pamd.load(edited)
    (edited / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"config\.json cannot be read"):
        pamd.load(edited)
    cut = copied(exported, tmp_path / "cut")
    (cut / "model.safetensors").write_bytes((exported / "model.safetensors").read_bytes()[:1000])
    with pytest.raises(CheckpointError, match=r"model\.safetensors cannot be read"):
        pamd.load(cut)
    foreign = copied(exported, tmp_path / "foreign")
    save_file({"w": torch.zeros(1)}, foreign / "model.safetensors")
    with pytest.raises(CheckpointError, match="was not written by `pamd export`"):
        pamd.load(foreign)


@pytest.mark.parametrize("described", ["[]", "{", '{"observation_shape": 3}', "null"])
def test_malformed_metadata_is_named(exported: Path, tmp_path: Path, described: str) -> None:
    broken = copied(exported, tmp_path / "broken")
    weights = load_file(exported / "model.safetensors")
    save_file(weights, broken / "model.safetensors", {"format": "pt", "pamd": described})
    with pytest.raises(CheckpointError, match=r"model\.safetensors is malformed"):
        pamd.load(broken)


def metadata(exported: Path) -> dict[str, str]:
    with safe_open(exported / "model.safetensors", framework="pt") as file:
        found: dict[str, str] = file.metadata()
    return found


def test_weights_that_do_not_fit_are_named(exported: Path, tmp_path: Path) -> None:
    broken = copied(exported, tmp_path / "broken")
    weights = load_file(exported / "model.safetensors")
    name = sorted(weights)[0]
    renamed = {f"{k}.other" if k == name else k: v for k, v in weights.items()}
    save_file(renamed, broken / "model.safetensors", metadata(exported))
    with pytest.raises(CheckpointError, match=re.escape(f"the tensor {name!r} is missing")):
        pamd.load(broken)
    save_file({k: v for k, v in weights.items() if k != name}, broken / "model.safetensors", metadata(exported))
    with pytest.raises(CheckpointError, match=r"have [\d,]+ bytes, got [\d,]+ bytes of weights"):
        pamd.load(broken)


@pytest.mark.parametrize(
    ("field", "value"), [("observation_shape", [9, 10**6, 10**6]), ("action_dim", 10**9), ("action_dim", -1)]
)
def test_sizes_that_are_not_those_of_the_weights_allocate_nothing(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, value: object
) -> None:
    broken = copied(exported, tmp_path / "broken")
    described = {**json.loads(metadata(exported)["pamd"]), field: value}
    weights = load_file(exported / "model.safetensors")
    save_file(weights, broken / "model.safetensors", {"format": "pt", "pamd": json.dumps(described)})
    monkeypatch.setattr("pamd.training.trained.Agent", None)
    with pytest.raises((CheckpointError, ConfigError), match=r"do not fit its config|whole number of at least 0"):
        pamd.load(broken)


def test_the_code_of_the_guide_runs(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
    code, *_ = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    monkeypatch.chdir(exported.parent)
    assert exported.name == "agent"
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["action"].shape == (2,)
    assert names["distance"].shape == (1,)


class FakeClient:
    """Records the calls that huggingface_hub's client would get."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.fails = fails

    def create_repo(self, repo_id: str, **options: Any) -> None:
        self.calls.append(("create_repo", {"repo_id": repo_id, **options}))

    def upload_folder(self, **options: Any) -> None:
        self.calls.append(("upload_folder", options))
        if self.fails is not None:
            raise self.fails


@pytest.mark.parametrize(("flags", "private"), [([], None), (["--private"], True)])
def test_the_command_exports_and_uploads(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    private: bool | None,
) -> None:
    client = FakeClient()
    monkeypatch.setattr(exporting, "hub_client", lambda: client)
    out = str(tmp_path / "agent")
    assert main(["export", str(run), out, "--push-to-hub", "me/agent", *flags]) == 0
    assert client.calls == [
        ("create_repo", {"repo_id": "me/agent", "private": private, "exist_ok": True}),
        ("upload_folder", {"repo_id": "me/agent", "folder_path": out, "commit_message": "Upload agent"}),
    ]
    assert capsys.readouterr().out.splitlines() == [out, "https://huggingface.co/me/agent"]
    assert 'snapshot_download("me/agent")' in (tmp_path / "agent" / "README.md").read_text()


def test_a_failed_upload_is_one_line_and_keeps_the_export(exported: Path) -> None:
    client = FakeClient(ValueError("401 Unauthorized\nlong body"))
    with pytest.raises(HubError, match=r"^cannot upload to me/agent: 401 Unauthorized; the export in \S+ is complete$"):
        exporting.push(exported, "me/agent", client)
    with pytest.raises(ConfigError, match="OWNER/NAME"):
        exporting.push(exported, "agent", client)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["export", "nowhere", "out"], "is not a run directory"),
        (["export", "RUN", "out", "--private"], "--private requires --push-to-hub"),
        (["export", "RUN", "out", "--push-to-hub", "agent"], "must be OWNER/NAME, got 'agent'"),
        (["export", "RUN", "out", "--push-to-hub", "me/agent"], install_command("hub")),
        (["export", "RUN", "RUN"], "must be a new or empty directory"),
    ],
)
def test_wrong_words_get_one_line_and_write_nothing(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # as where it is not installed
    assert main([str(run) if word == "RUN" else word for word in words]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())
