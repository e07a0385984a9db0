"""The command line interface, end to end."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pamd
from pamd.cli.main import main
from pamd.envs import FAMILIES
from pamd.envs.toy import Toy
from pamd.errors import install_command
from pamd.methods import PIPELINES, names

NAMED = ["sac", "deepmdp", "dbc", "dbc-det", "mico", "simsr", "simsr+pamd", "dbc-det+pamd", "simsr+mlp"]
NAMED += ["dbc-unit+pamd", "dbc-normed", "rap", "dbc-det+diagonal", "simsr+adaptive-diagonal", "dbc-det+pamd-lowrank"]
SMALL = ["--scale", "smoke", "--decisions", "60", "--threads", "1", "--no-tensorboard", "--device", "cpu"]


def test_train_resume_eval_and_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = str(tmp_path / "runs")
    assert main(["train", "toy", "--method", "dbc-det+pamd", *SMALL, "--runs", runs]) == 0
    (run,) = (tmp_path / "runs").iterdir()
    said = capsys.readouterr()
    assert said.out == f"{run}\n"
    assert f"next: `pamd eval {run}`" in said.err
    runtime = json.loads((run / "config.json").read_text())["runtime"]
    given = {"device": "cpu", "threads": 1, "tensorboard": False}
    assert runtime == {**given, "label": None, "memory": None, "video": "last", "wandb": None}
    assert main(["resume", str(run)]) == 0
    said = capsys.readouterr()
    assert (said.out, "already finished" in said.err) == (f"{run}\n", True)
    assert main(["eval", str(run), "--episodes", "2"]) == 0
    assert "over 2 episodes" in capsys.readouterr().out
    assert main(["eval", str(run), "--episodes", "2", "--no-video", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["returns"]) == 2
    assert (run / "video" / "evaluated-000000060.mp4").stat().st_size > 500
    (run / "video").rename(tmp_path / "video")
    (run / "video").write_text("a file, so that no video can be written, as on a read-only disk")
    assert main(["eval", str(run), "--episodes", "2", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["video"] is None
    assert "no video: cannot write the video" in said.err
    again = ["train", "--config", str(run / "config.json"), "--runs", str(tmp_path / "again"), "--threads", "1"]
    assert main([*again, "--set", "decisions=55", "method.metric.weight=0.25"]) == 0
    (other,) = (tmp_path / "again").iterdir()
    config = json.loads((other / "config.json").read_text())
    assert config["decisions"] == 55
    (metric,) = (term for term in config["method"]["terms"] if term["name"] == "metric")
    assert metric["options"]["weight"] == 0.25


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["trian"], "Did you mean 'train'"),
        (["train", "cheetah_rnu", *SMALL], "cheetah_run"),
        (["train", "toy", "--method", "simsr+pmad", *SMALL], "'pamd'"),
        (["train", "toy", *SMALL, "--set", "method.latent_dmi=3"], "latent_dim"),
        (["train", "toy", *SMALL, "--set", "learner.lr=1e-3"], "Did you mean 'learner.learning_rate'?"),
        (["train", "toy", *SMALL, "--set", "lr=1e-3"], "Did you mean 'learner.learning_rate'?"),
        (["list", "foo"], "unknown argument 'foo'. Valid: augmentations"),
        (["train"], "a task or --config is required"),
        (["train", "--config", "x.json", "--seed", "7"], "--seed"),
        (["train", "toy", *SMALL[:2], "--decisions", "10"], "decisions must exceed learner.random_decisions"),
        (["train", "toy", *SMALL, "--capacity", "10"], "replay.capacity"),
        (
            ["train", "toy", "--method", "sac", *SMALL, "--set", "method.metric.distance.name=pamd"],
            "--set method.metric={} adds it",
        ),
        (["train", "toy", *SMALL, "--set", "seed.foo=3"], "has no fields"),
        (["train", "toy", *SMALL, "--wandb", "project"], install_command("wandb")),
        (["train", "toy", *SMALL, "--set", "runtime.device=tpu"], "tpu"),
        (["train", "toy", *SMALL, "--method", "drqv3"], "Did you mean 'drqv2'"),
        (["train", "toy", *SMALL, "--learner", "drqv2", "--method", "sac:simsr"], "cannot be combined"),
        (["eval", "nowhere", "--episodes", "0"], "at least 1"),
        (["train", "toy", "--config", "x.json"], "--config cannot be combined with toy"),
        (["train", "--config", "nowhere.json"], "cannot read the config file"),
        (["resume", "nowhere"], "is not a run directory"),
        (["eval", "nowhere"], "is not a run directory"),
        (["list", "scales", "--diff", "a", "b"], "compares methods"),
        (["list", "scales", "--table"], "--table shows methods"),
    ],
)
def test_bad_words_get_one_clear_line(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "wandb", None)  # as where it is not installed
    assert main(words) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.startswith("pamd: ")
    assert "Traceback" not in error


def test_a_directory_of_runs_suggests_its_newest_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for age, name in enumerate(["new", "old"]):
        file = tmp_path / name / "config.json"
        file.parent.mkdir()
        file.write_text("{}")
        os.utime(file, (1e9 - age, 1e9 - age))
    assert main(["eval", str(tmp_path)]) == 2
    assert f"Did you mean {tmp_path / 'new'}?" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["methods", "distances", "operators", "scales", "tasks", "distractors", "learners"])
def test_list(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", what]) == 0
    expected = {"methods": "simsr+pamd", "distances": "pamd-lowrank", "operators": "independent", "scales": "cpu"}
    expected |= {"distractors": "released-video", "learners": "drqv2: gamma=0.99"}
    assert expected.get(what, "cheetah_run") in capsys.readouterr().out


def test_a_list_is_kept_until_the_source_changes(tmp_path: Path) -> None:
    """The second process prints the same without torch. A changed file of the package is noticed."""
    package = tmp_path / "source" / "pamd"
    shutil.copytree(Path(pamd.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    code = "import sys; from pamd.cli.main import main; main(['list', 'operators']); print('torch' in sys.modules)"

    def listed() -> list[str]:
        made = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(package.parent), "PAMD_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=True,
        )
        return made.stdout.splitlines()

    *names, imported = listed()
    assert imported == "True"
    assert listed() == [*names, "False"]
    (tmp_path / "cache" / "names" / "operators.json").write_text("[]")  # damaged
    assert listed() == [*names, "True"]
    value = package / "operators" / "value.py"
    value.write_text(value.read_text().replace('register("value")', 'register("worth")'))
    assert any(line.startswith("worth: ") for line in listed())


def test_the_tasks_of_a_plug_in_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    class Pond(Toy):
        """Tasks in the water."""

        bare = False

        @classmethod
        def tasks(cls) -> tuple[str, ...]:
            return ()

    class Field(Toy):
        @classmethod
        def tasks(cls) -> tuple[str, ...]:
            return ()

    class Zoo(Toy):
        @classmethod
        def tasks(cls) -> tuple[str, ...]:
            return ("zoo:otter",)

    FAMILIES.register("pond")(Pond)
    FAMILIES.register("field")(Field)
    FAMILIES.register("zoo")(Zoo)
    try:
        assert main(["list", "tasks"]) == 0
    finally:
        FAMILIES.unregister("pond")
        FAMILIES.unregister("field")
        FAMILIES.unregister("zoo")
    lines = capsys.readouterr().out.splitlines()
    assert "pond:NAME: Tasks in the water." in lines
    assert {"zoo:otter: action repeat 1", "field: action repeat 1"} <= set(lines)
    assert {"toy: action repeat 1", "toy:goal: action repeat 1"} <= set(lines)


def test_diff(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "methods", "--diff", "simsr", "simsr+pamd"]) == 0
    assert "distance.name" in capsys.readouterr().out
    assert main(["list", "methods", "--diff", "simsr@paper", "simsr@released"]) == 0
    assert "metric.pairing" in capsys.readouterr().out


def test_the_family_is_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "methods", "--table"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    titles = "method comparator target latent space model reward head other losses citation"
    assert head.split() == titles.split()
    by_name = {row.split()[0]: row for row in rows}
    assert {*PIPELINES, "simsr+pamd", "dbc-det+pamd", "dbc-unit+pamd", "mico+pamd", "rap+pamd"} == by_name.keys()
    for word in ("rap+pamd", "pamd", "rap", "layernorm", "gaussian", "of the state", "Chen & Pan 2022; PAMD"):
        assert word in by_name["rap+pamd"]
    assert "ball" in by_name["dbc-normed"]
    assert "taco, curl" in by_name["taco"]
    assert main(["list", "methods", "--table", "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(names())


def test_damaged_runs_get_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "toy", "--method", "sac", *SMALL, "--runs", str(tmp_path), "--video", "off"]) == 0
    (run,) = tmp_path.iterdir()
    newest = run / "checkpoints" / "000000060" / "tensors.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    assert main(["eval", str(run), "--episodes", "1"]) == 0
    assert "evaluating the previous one" in capsys.readouterr().err
    (run / "status.json").write_text("{")
    assert main(["resume", str(run)]) == 0
    (run / "config.json").write_bytes(b"\xff\xfe\x00")
    assert main(["resume", str(run)]) == 2
    assert main(["train", "--config", str(run / "config.json")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_name_does_not_lead_out_of_the_runs_directory(tmp_path: Path) -> None:
    words = ["train", "toy", "--method", "sac", *SMALL, "--runs", str(tmp_path / "runs"), "--video", "off"]
    assert main([*words, "--set", "method.name=../../elsewhere"]) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["runs"]


def test_doctor_judges_the_back_end_that_training_would_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MUJOCO_GL", "nonsense")
    assert main(["doctor"]) == 1
    assert "nonsense" in capsys.readouterr().out


def test_doctor_says_where_no_run_could_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--runs", "/dev/null"]) == 1
    assert "/dev/null is a file" in capsys.readouterr().out


def test_doctor_refuses_an_egl_device_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--egl-device", "99"]) == 2
    assert "--egl-device must be" in capsys.readouterr().err


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "egl" in out
    assert "GB free" in out
    assert "clips in installed packages" in out


def test_help_and_import_are_quick_and_need_no_torch() -> None:
    code = "import sys, pamd; from pamd.cli.main import main; main(['--help']); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pamd COMMAND" in done.stdout


@pytest.mark.parametrize("fidelity", ["paper", pytest.param("released", marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", NAMED)
def test_every_method_trains_end_to_end(method: str, fidelity: str, tmp_path: Path) -> None:
    words = ["train", "toy", "--method", method, "--fidelity", fidelity, *SMALL, "--runs", str(tmp_path)]
    assert main([*words, "--video", "off"]) == 0
    (run,) = tmp_path.iterdir()
    assert json.loads((run / "status.json").read_text())["state"] == "finished"


def test_a_real_task_trains_end_to_end(tmp_path: Path) -> None:
    assert main(["train", "cartpole_swingup", "--method", "simsr+pamd", *SMALL, "--runs", str(tmp_path)]) == 0
    (run,) = tmp_path.iterdir()
    last = json.loads((run / "eval.jsonl").read_text().splitlines()[-1])
    assert last["decisions"] == 60
    assert last["frames"] == 240
    assert list((run / "video").glob("*.mp4"))


def test_the_metric_is_isolated_on_request(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    assert main(["train", "toy", "--method", "dbc-det+pamd", "--isolate-metric", *SMALL, "--runs", runs]) == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert json.loads((run / "config.json").read_text())["isolate_metric"] is True
    assert main(["resume", str(run)]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["report", "runs", "--out", "PLACE"],
        ["sweep", "--tasks", "toy", "--methods", "sac", "--plan", "--runs", "PLACE"],
        ["reproduce", "parameter-match", "--runs", "PLACE"],
        ["envs", "preview", "toy", "--out", "PLACE"],
    ],
)
def test_a_place_that_is_none_is_said_before_any_work(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.touch()
    assert main([word.replace("PLACE", str(file / "below")) for word in words]) == 2
    assert f"must be a directory, but {file} is a file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["verdicts", "verdicts-states"])
def test_the_verdicts_have_moved_to_a_study(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", name]) == 2
    assert "python -m studies.verdicts" in capsys.readouterr().err


def test_the_old_name_of_an_option_names_the_new_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "table1", "--artefact-only"]) == 2
    assert "unknown option --artefact-only; use --report-only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["train", "toy", "--storage", "compressed"], "--storage compressed was removed: use --storage mmap"),
        (["reproduce", "verdicts", "--rung", "states"], "use `python -m studies.verdicts run [--rung RUNG]`"),
        (["diagnose", "exact", "--distortion", "2"], "use `pamd diagnose dimension --within X`"),
    ],
)
def test_a_removed_option_names_its_replacement(words: list[str], says: str, capsys: Any) -> None:
    assert main(words) == 2
    assert says in capsys.readouterr().err


def test_old_names_of_options_are_announced_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = ["--set", "method.objective.weight=0.25", "method.objective.pairing=all"]
    words = ["train", "toy", "--method", "dbc-det", *SMALL, *old, "--video", "off", "--runs", str(tmp_path)]
    assert main(words) == 0
    line = "pamd: the option 'method.objective' is now called 'method.metric'; the old name will be removed"
    assert capsys.readouterr().err.count(line) == 1


def test_missing_packages_are_installed_from_the_clone() -> None:
    root = Path(__file__).parents[2]
    assert install_command("lab") == f"pip install -e '.[lab]' in {root}"
