"""Training with a distractor: every preset, both sides evaluated, killed and resumed bit for bit."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.envs.clip_files import write_clip, write_clips
from tests.training.runs import products, toy
from tests.training.test_resume import DEADLY, SCRIPT

from pamd.cli.main import main
from pamd.errors import ClipError, ConfigError
from pamd.report.run import load_run
from pamd.schema import to_json
from pamd.training import resume, train
from pamd.training.config import prepare, run_name

SMALL = ["--scale", "smoke", "--decisions", "54", "--threads", "1", "--no-tensorboard", "--device", "cpu"]
SMALL += ["--evaluate-every", "54", "--checkpoint-every", "54", "--set", "env.time_limit=16"]


@pytest.mark.parametrize(
    ("method", "preset"),
    [
        ("simsr+pamd", "hard"),
        ("dbc-det+pamd", "paper-video"),
        *(
            pytest.param(method, preset, marks=pytest.mark.slow)
            for method in ("simsr+pamd", "dbc-det+pamd")
            for preset in ("paper-video", "released-video", "easy", "medium", "hard")
            if (method, preset) not in (("simsr+pamd", "hard"), ("dbc-det+pamd", "paper-video"))
        ),
    ],
)
def test_every_preset_trains(
    method: str, preset: str, tmp_path: Path, videos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "cheetah_run", "--method", method, "--distractor", preset, "--videos", str(videos), *SMALL]
    assert main([*words, "--runs", str(tmp_path / "runs"), "--video", "off"]) == 0
    assert f"distractor {preset}: 3 clips in training" in capsys.readouterr().err
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith(f"cheetah_run+{preset}_")
    row = json.loads((run / "eval.jsonl").read_text().splitlines()[-1])
    assert row["clips"] == "train"
    assert row["decisions"] == 54
    assert len(row["returns"]) == len(row["unseen_returns"]) == 1
    behind = json.loads((run / "config.json").read_text())["env"]["distractor"]
    contents = [{clip["content"] for clip in behind[side]} for side in ("train", "unseen")]
    assert contents[0]
    assert contents[1]
    assert not contents[0] & contents[1]


@pytest.fixture
def videos(tmp_path: Path) -> Path:
    return write_clips(tmp_path / "videos", 4)


@pytest.mark.parametrize(
    ("owner", "function", "call"),
    [
        ("pamd.agent:Agent", "act", 25),
        pytest.param("pamd.runs.logs:Logs", "state", 4, marks=pytest.mark.slow),
    ],
)
def test_killed_and_resumed(tmp_path: Path, videos: Path, owner: str, function: str, call: int) -> None:
    config = toy(distractor="paper-video", videos=videos)
    straight = products(train(config, tmp_path / "straight"))
    assert b"unseen_returns" in straight["eval"]
    root, file = tmp_path / "killed", tmp_path / "killed.json"
    file.write_text(to_json(config))
    words = [sys.executable, "-c", DEADLY + SCRIPT, str(file), str(root), owner, function, str(call)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (run,) = (path for path in root.iterdir() if path.is_dir())
    assert products(resume(run)) == straight


def test_a_run_goes_on_with_its_own_clips_or_not_at_all(
    tmp_path: Path, videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAMD_CACHE", str(tmp_path / "cache"))
    config = toy(distractor="video", videos=videos)
    run = train(config, tmp_path / "runs")
    shutil.rmtree(tmp_path / "cache")
    (run / "status.json").unlink()
    assert resume(run) == run  # decoded anew from the same files
    shutil.rmtree(tmp_path / "cache")
    (run / "status.json").unlink()
    for number, path in enumerate(sorted(videos.iterdir())):
        write_clip(path, 50 + number)
    with pytest.raises(ClipError, match="started with other files"):
        resume(run)
    # The same words now mean another run, not more of that one.
    assert run_name(prepare(config)) != run.name


def test_a_run_is_named_by_its_clips_and_not_by_their_place(tmp_path: Path, videos: Path) -> None:
    names = [run_name(prepare(toy(distractor="video", videos=videos)))]
    videos.rename(tmp_path / "elsewhere")
    names.append(run_name(prepare(toy(distractor="video", videos=tmp_path / "elsewhere"))))
    assert names[0] == names[1]


def test_clean_and_distracted_runs_never_share_a_curve(tmp_path: Path, videos: Path) -> None:
    runs = [train(toy("sac", distractor=name, videos=name and videos), tmp_path) for name in (None, "video")]
    assert [load_run(run).curve.task for run in runs] == ["toy", "toy + video"]
    assert "clips" not in json.loads((runs[0] / "eval.jsonl").read_text().splitlines()[0])


def test_noise_has_no_unseen_side(tmp_path: Path) -> None:
    run = train(toy("sac", distractor="noise"), tmp_path)
    assert "unseen_returns" not in (run / "eval.jsonl").read_text()


def test_training_on_unseen_clips_is_refused(tmp_path: Path, videos: Path) -> None:
    config = toy("sac", distractor="video", videos=videos)
    with pytest.raises(ConfigError, match="split must be train"):
        train(_on_unseen(config), tmp_path)


def _on_unseen(config):  # type: ignore[no-untyped-def]
    from pamd.settings import override

    return override(config, ("env.distractor.split=unseen",))


def test_eval_says_both(tmp_path: Path, videos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(toy("sac", distractor="video", videos=videos), tmp_path / "runs")
    assert main(["eval", str(run), "--episodes", "1"]) == 0
    printed = capsys.readouterr().out
    assert "backgrounds of training" in printed
    assert "unseen backgrounds" in printed
    assert list((run / "video").glob("evaluated-*.mp4"))


def test_preview(tmp_path: Path, videos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import imageio.v3 as iio

    words = ["envs", "preview", "toy", "--distractor", "paper-video", "--videos", str(videos), "--size", "24"]
    words += ["--episodes", "2", "--decisions", "9", "--out", str(tmp_path / "out"), "--set", "strength=0.8"]
    assert main(words) == 0
    assert "4 clips" not in capsys.readouterr().out
    assert iio.imread(tmp_path / "out" / "toy_paper-video.png").shape == (4 * 24 * 2, 8 * 24 * 2, 3)
    assert (tmp_path / "out" / "toy_paper-video.mp4").stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["train", "toy", *SMALL, "--distractor", "papervideo"], "Did you mean 'paper-video'"),
        (["train", "toy", *SMALL, "--videos", "nowhere"], "require a distractor"),
        (["train", "toy", *SMALL, "--distractor", "video", "--videos", "nowhere"], "does not exist"),
        (["train", "toy", *SMALL, "--distractor", "noise", "--videos", "nowhere"], "shows no videos"),
        (["envs", "preview", "toy", "--set", "hue=1"], "name one"),
        (["envs", "preview", "toy", "--distractor", "video", "--set", "hu=1"], "Did you mean 'hue'"),
        (["envs", "preview", "toy", "--episodes", "0"], "at least 1"),
    ],
)
def test_bad_words(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())
