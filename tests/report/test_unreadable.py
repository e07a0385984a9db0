"""An unreadable run does not prevent the report. It is listed with the reason, and no other files are read."""

from __future__ import annotations

import hashlib
import html
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.runs import write_run
from tests.report.test_artifact import EXPERIMENTS, write_artifact
from tests.training.runs import edit_config, toy

from pamd.cli.main import main
from pamd.configuration import configure
from pamd.envs.distractors import DistractorConfig
from pamd.errors import RunError
from pamd.report import page
from pamd.report.comparison import compare
from pamd.report.run import Run, load_run, load_runs, read_runs
from pamd.report.sections import Content
from pamd.report.sections.runs import provenance
from pamd.runs.identity import tree_identity
from pamd.runs.logs import LOGS
from pamd.schema import to_tree
from pamd.training import checkpoint
from pamd.training import config as training

STUDIES = Path(__file__).parents[2] / "studies"


def content(runs: list[Run], out: Path) -> Content:
    return Content(compare(runs), (), out, np.random.default_rng(0))


def unreadable(*paths: Path) -> dict[str, str]:
    return {one.name: one.reason for one in read_runs(paths).unreadable}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run as training leaves it after 40 decisions, with two checkpoints."""
    config = toy(decisions=40)
    run = tmp_path / "runs" / training.run_name(config)
    run.mkdir(parents=True)
    (run / "config.json").write_text(training.config_text(config))
    row = {"decisions": 40, "frames": 80, "updates": 20, "returns": [1.0]}
    for name, rows in (("train", []), ("eval", [row]), ("timing", [])):
        (run / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for decisions in (30, 40):
        checkpoint.write(run / "checkpoints", decisions, {}, checkpoint_state(run, config, decisions))
    return run


def checkpoint_state(run: Path, config: training.TrainConfig, decisions: int) -> dict[str, Any]:
    """The state of a checkpoint that confirms the logs as they are now."""
    logs = {name: (run / f"{name}.jsonl").read_bytes() for name in LOGS}
    return {
        "config": tree_identity(to_tree(config)),
        "budget": {"decisions": decisions, "frames": 2 * decisions, "updates": max(0, decisions - 20)},
        **{"seconds": 1.0, "evaluated_at": 40, "last_return": 1.0, "episode": [0.0, 0], "metrics": {}},
        "replay": {"written": 0, "transitions": 0, "checks": {}},
        "logs": {name: {"bytes": len(log), "sha256": hashlib.sha256(log).hexdigest()} for name, log in logs.items()},
    }


def test_bad_runs_are_listed_beside_a_good_one(tmp_path: Path) -> None:
    runs, out = tmp_path / "runs", tmp_path / "out"
    write_run(runs, name="good")
    for index, name in enumerate(("config", "log", "no-config", "repeated"), start=1):
        write_run(runs, name=name, seed=index)
    (runs / "config" / "config.json").write_text("{")
    (runs / "log" / "eval.jsonl").write_text("{}\n")
    (runs / "no-config" / "config.json").unlink()
    shutil.copy(runs / "good" / "config.json", runs / "repeated" / "config.json")
    write_run(runs, name="same-seed", log_every=7)
    text = page.build([runs], out).read_text()
    reasons = {
        "config": f"{runs}/config/config.json cannot be read",
        "log": f"{runs}/log/eval.jsonl, line 1: decisions must be a whole number",
        "no-config": "has evaluations but no config.json",
        "repeated": f"{runs}/good and {runs}/repeated have the same config",
        "same-seed": "are both seed 0 of dbc-det",
    }
    for name, reason in reasons.items():
        assert f"{name} cannot be read and is excluded; the reason is below." in text
        assert f"<code>{runs}/{name}</code>: " in text
        assert html.escape(reason) in text
    assert "dbc-det on cheetah_run: 1 run, 1 seed, 2k decisions per run." in text
    assert "Unreadable and not counted: config, log, no-config, repeated, same-seed." in text


def test_where_no_run_can_be_read_the_error_names_each(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (write_run(tmp_path, name=name) / "config.json").write_text("[]")
    with pytest.raises(RunError, match=r"no run can be read: .*a/config\.json .*b/config\.json"):
        page.build([tmp_path], tmp_path / "out")


def test_the_command_says_what_it_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "runs", name="good")
    (write_run(tmp_path / "runs", name="bad", seed=1) / "eval.jsonl").write_text("\n")
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"not counted: {tmp_path}/runs/bad/eval.jsonl, line 1 is damaged")


def test_results_json_lists_what_is_unreadable(tmp_path: Path) -> None:
    good, bad = (write_run(tmp_path / "runs", name=name, seed=seed) for seed, name in enumerate(("good", "bad")))
    (bad / "eval.jsonl").write_text("5\n")
    write_artifact(EXPERIMENTS.get("table1"), [("norm", good), ("norm", bad)], tmp_path / "out", "cpu", {})
    content = json.loads((tmp_path / "out" / "results.json").read_text())
    assert "must be a record, got 5" in content["unreadable"]["bad"]
    assert [row["seeds"] for row in content["rows"]] == [1]


@pytest.mark.parametrize("name", ["config.json", "eval.jsonl", "timing.jsonl"])
@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_only_regular_files_are_read(tmp_path: Path, name: str, kind: str) -> None:
    run = write_run(tmp_path / "runs")
    (run / name).rename(tmp_path / "elsewhere")
    make = {"link": lambda path: path.symlink_to(tmp_path / "elsewhere"), "pipe": os.mkfifo, "directory": os.mkdir}
    make[kind](run / name)
    if name == "config.json" and kind != "link":
        # A directory without a config is no run; its evaluations need one.
        with pytest.raises(RunError, match=r"has evaluations but no config\.json"):
            load_runs([tmp_path / "runs"])
        return
    says = {"link": "symbolic link", "pipe": "not a regular file", "directory": "directory"}[kind]
    with pytest.raises(RunError, match=f"{name} cannot be read: .*{says}"):
        load_runs([tmp_path / "runs"])


def test_links_to_pictures_videos_and_directories_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "section.json").write_text(
        '{"title": "SECRET", "paragraphs": [], "tables": [], "figures": [{"file": "key", "caption": ""}]}'
    )
    for name in ("key.png", "key.mp4"):
        (secret / name).write_bytes(b"SECRET")
    run = write_run(tmp_path / "runs", name="run")
    (run / "status.json").symlink_to(secret / "section.json")
    (run / "diagnostics").mkdir()
    (run / "diagnostics" / "linked").symlink_to(secret)
    for name, figure in (("up", "../../../../secret/key"), ("link", "key")):
        (run / "diagnostics" / name).mkdir()
        section = {"title": "SECRET", "paragraphs": [], "tables": [], "figures": [{"file": figure, "caption": ""}]}
        (run / "diagnostics" / name / "section.json").write_text(json.dumps(section))
    (run / "diagnostics" / "link" / "key.png").symlink_to(secret / "key.png")
    (run / "video").mkdir()
    (run / "video" / "1.mp4").symlink_to(secret / "key.mp4")
    other = write_run(tmp_path / "runs", name="other", seed=1)
    (other / "video").symlink_to(secret)
    text = page.build([tmp_path / "runs"], tmp_path / "out").read_text()
    assert "SECRET" not in text
    assert "U0VDUkVU" not in text  # the same in base64
    assert "run: diagnostics/up cannot be shown" in text
    assert "run: diagnostics/link cannot be shown" in text


def test_a_link_to_a_run_elsewhere_is_named_and_not_followed(tmp_path: Path) -> None:
    run, elsewhere = write_run(tmp_path / "runs", name="run"), write_run(tmp_path / "elsewhere", name="other", seed=1)
    (tmp_path / "runs" / "latest").symlink_to(run)
    (tmp_path / "runs" / "away").symlink_to(elsewhere)
    found = read_runs([tmp_path / "runs"])
    assert [run.name for run in found.runs] == ["run"]
    assert unreadable(tmp_path / "runs") == {
        "away": f"{tmp_path}/runs/away is a symbolic link to another directory; pass {elsewhere} instead"
    }
    assert [run.name for run in load_runs([tmp_path / "runs" / "away"])] == ["other"]  # given by name: meant


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("seed", 7, "seed was 0 and is 7"),
        ("env.task", "cheetah_run", "env.task was 'toy' and is 'cheetah_run'"),
        ("learner.options.batch", 8, "learner.options.batch was 16 and is 8"),
        ("decisions", 20, "decisions was at least 40 and is 20"),
    ],
)
def test_an_edited_config_is_refused_by_field(run: Path, tmp_path: Path, field: str, value: Any, says: str) -> None:
    assert load_run(run).verified == "checkpoint 000000040"
    edit_config(run, field, value)
    (reason,) = unreadable(run).values()
    assert reason == f"{run}/config.json was edited after checkpoint 000000040 was made: {says}"
    if field == "env.task":
        write_run(run.parent, seed=9)
        assert html.escape(reason) in page.build([run.parent], tmp_path / "out").read_text()


def rewrite(name: str, old: bytes, new: bytes) -> Callable[[Path], object]:
    return lambda run: (run / name).write_bytes((run / name).read_bytes().replace(old, new))


def append(name: str, row: bytes) -> Callable[[Path], object]:
    return lambda run: (run / name).write_bytes((run / name).read_bytes() + row)


EDITS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a return": (rewrite("eval.jsonl", b"1.0", b"9.0"), "eval.jsonl was edited or damaged: its first"),
    "a row less": (rewrite("eval.jsonl", b"\n", b""), "eval.jsonl was edited or damaged: 1 of the"),
    "no file": (lambda run: (run / "eval.jsonl").unlink(), "eval.jsonl is missing"),
    "a pipe": (lambda run: ((run / "train.jsonl").unlink(), os.mkfifo(run / "train.jsonl")), "not a regular file"),
    "a row more": (append("train.jsonl", b"{}\n"), "train.jsonl was edited: 3 bytes were written after checkpoint"),
}


@pytest.mark.parametrize("kind", EDITS)
def test_an_edited_log_is_shown_and_left_out_of_all_results(
    run: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "status.json").write_text(json.dumps({"state": "finished", "decisions": 40}))
    assert (load_run(run).verified, load_run(run).score) == ("checkpoint 000000040", 1.0)
    edit, says = EDITS[kind]
    edit(run)
    (reason,) = unreadable(run).values()
    assert says in reason
    if kind == "a return":
        write_run(run.parent, seed=9, name="good")
        assert main(["report", str(run.parent), "--out", str(tmp_path / "out")]) == 0
        assert f"not counted: {reason}" in capsys.readouterr().err
        text = (tmp_path / "out" / "index.html").read_text()
        assert html.escape(reason) in text
        assert f"Unreadable and not counted: {run.name}." in text


def test_rows_after_the_checkpoint_of_an_active_run_are_not_counted(run: Path) -> None:
    edit_config(run, "decisions", 60)
    row = {"decisions": 60, "frames": 120, "updates": 40, "returns": [1000.0]}
    append("eval.jsonl", json.dumps(row).encode() + b"\n")(run)
    loaded = load_run(run)
    assert (loaded.evaluated, loaded.finished) == (40, False)
    assert loaded.notices == ("eval.jsonl: rows after the newest checkpoint were dropped; nothing confirms them",)


def test_logs_that_a_resume_cut_back_to_an_older_checkpoint_are_not_edited(run: Path, tmp_path: Path) -> None:
    (run / "checkpoints" / "000000040" / "tensors.safetensors").write_bytes(b"")
    config = toy(decisions=40)
    (run / "eval.jsonl").write_text("")
    checkpoint.write(run / "checkpoints", 30, {}, checkpoint_state(run, config, 30))
    loaded = load_run(run)
    assert (loaded.verified, loaded.evaluated) == ("checkpoint 000000030", -1)
    assert "This config and the logs are confirmed by checkpoint 000000030." in provenance(content([loaded], tmp_path))


def test_budget_runtime_and_version_may_change(run: Path) -> None:
    edit_config(run, "decisions", 60)
    edit_config(run, "runtime.threads", 2)
    edit_config(run, "pamd", "9.9.9")
    loaded = load_run(run)
    assert (loaded.verified, loaded.finished) == ("checkpoint 000000040", False)


def test_a_damaged_checkpoint_gives_way_to_the_one_before(run: Path) -> None:
    edit_config(run, "seed", 7)
    (run / "checkpoints" / "000000040" / "state.json").write_text("{}")
    assert "after checkpoint 000000030 was made: seed was 0 and is 7" in unreadable(run)[run.name]
    (run / "checkpoints" / "000000030" / "complete.json").unlink()
    loaded = load_run(run)
    assert (loaded.verified, loaded.notices) == (
        "",
        ("no checkpoint can be read, so config.json and the logs cannot be confirmed",),
    )


def test_without_a_checkpoint_the_digest_in_the_name_confirms_the_config(run: Path, tmp_path: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    assert load_run(run).verified == "the digest in its name"
    assert "This config is confirmed by the digest in its name." in provenance(content([load_run(run)], tmp_path))
    edit_config(run, "seed", 7)
    assert load_run(run).verified == ""
    assert "This config is not confirmed" in provenance(content([load_run(run)], tmp_path))


def test_published_results_are_confirmed_by_the_digest_in_their_names() -> None:
    assert {run.verified for run in load_runs([STUDIES / "learners" / "runs.parquet"])} == {"the digest in its name"}


def test_the_identity_of_a_config_is_what_a_checkpoint_holds() -> None:
    config = configure("toy", scale="smoke", distractor=DistractorConfig("noise", source="noise"))
    assert tree_identity(json.loads(training.config_text(config))) == tree_identity(to_tree(config))
    tree = to_tree(config)
    tree["env"]["distractor"] |= {"train": ["a" * 64], "videos": "/somewhere"}
    assert tree_identity(tree)["env"]["distractor"]["videos"] is None
