"""Run directories in all states that can occur on disk."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.report.runs import DEMO, PAMD, write_run

from pamd.errors import RunError
from pamd.report.run import load_run, load_runs
from pamd.runs.identity import method_label


def test_the_committed_runs_are_found_below_their_directory() -> None:
    runs = load_runs([DEMO])
    assert [(run.curve.method, run.seed, run.finished) for run in runs] == [
        ("dbc-det+pamd", 0, True),
        ("dbc-det", 0, True),
    ]
    assert runs[0].budget == runs[0].evaluated == 10_000
    assert runs[0].curve.seconds == [None] * 11


def test_a_directory_given_twice_counts_once() -> None:
    assert len(load_runs([DEMO, PAMD, Path(os.path.relpath(PAMD))])) == 2


def test_a_half_written_last_line_is_left_out_and_said(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    with (run / "eval.jsonl").open("ab") as file:
        file.write('{"decisions": 3000, "fra\u00e9'.encode()[:-1])  # cut within a character, as a crash may
    loaded = load_run(run)
    assert loaded.curve.decisions == [0, 1000, 2000]
    assert loaded.notices == ("eval.jsonl: the last line is incomplete and was dropped",)
    assert load_run(write_run(tmp_path, seed=1)).notices == ()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"\0\0\0\0", "line 4 is damaged"),
        (b'{"decisions": 30', "line 4 is damaged"),
        (b"", "line 4 is damaged"),
        (b'{"decisions": 3000}', "line 4: frames must be a whole number of at least 0, got None"),
        (b'{"decisions": 1500, "frames": 1, "updates": 1, "returns": [1]}', "1500 come after 2000"),
        (b'{"decisions": 3000, "frames": 1, "updates": 1, "returns": [NaN]}', "finite"),
        (b'{"decisions": 3000, "frames": 1, "updates": 1, "returns": []}', "finite"),
    ],
)
def test_other_damage_is_an_error_that_names_the_place(tmp_path: Path, line: bytes, says: str) -> None:
    run = write_run(tmp_path)
    with (run / "eval.jsonl").open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(RunError, match=says) as caught:
        load_run(run)
    assert run.name in str(caught.value)


def test_wall_time_is_interpolated_within_the_timing_and_never_beyond(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    (run / "timing.jsonl").write_text('{"decisions": 500, "seconds": 10}\n{"decisions": 1500, "seconds": 50}\n')
    assert load_run(run).curve.seconds == [0, 30, None]


def test_two_directories_of_one_run_are_an_error(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a")
    shutil.copytree(run, tmp_path / "b" / run.name)
    with pytest.raises(RunError, match="have the same name"):
        load_runs([tmp_path / "a", tmp_path / "b"])
    (tmp_path / "b" / run.name).rename(tmp_path / "b" / "renamed")
    with pytest.raises(RunError, match="have the same config"):
        load_runs([tmp_path / "a", tmp_path / "b"])


@pytest.mark.parametrize("change", [{"runtime__threads": 2}, {"decisions": 1000}, {"pamd": "9.9"}])
def test_another_runtime_budget_or_version_is_the_same_run(tmp_path: Path, change: dict[str, Any]) -> None:
    write_run(tmp_path, name="a")
    write_run(tmp_path, name="b", **change)
    with pytest.raises(RunError, match="have the same config"):
        load_runs([tmp_path])


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    write_run(tmp_path, name="runs1")
    with pytest.raises(RunError, match="near: runs1"):
        load_runs([tmp_path / "runs2"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match="empty is not a run directory and contains none"):
        load_runs([tmp_path / "empty"])
    (tmp_path / "runs1" / "config.json").unlink()
    with pytest.raises(RunError, match="evaluations but no config"):
        load_runs([tmp_path])


def test_unreadable_configs_are_named(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    text = (run / "config.json").read_text()
    for damaged in (text[:100], "[]", text.replace('"decisions"', '"decision"'), ""):
        (run / "config.json").write_text(damaged)
        with pytest.raises(RunError, match=r"config\.json (cannot be read|is not the config of a run)"):
            load_run(run)
    (run / "config.json").write_text(text.replace('"seed": 0', '"seed": "zero"'))
    with pytest.raises(RunError, match="seed must be int, got 'zero'"):
        load_run(run)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"env__distractor": "video"}, "env.distractor must be dict, got 'video'"),
        ({"env__distractor": {"source": "video"}}, "env.distractor.name must be str, got None"),
        ({"replay": [1]}, "replay must be dict, got [1]"),
        ({"env__action_repeat": 2.5}, "env.action_repeat must be int, got 2.5"),
        ({"learner": "sac"}, "learner must be dict, got 'sac'"),
        ({"scale": {"name": "cpu"}}, "scale must be str, got {'name': 'cpu'}"),
    ],
)
def test_a_value_of_another_type_is_named(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    run = write_run(tmp_path)
    config = json.loads((run / "config.json").read_text())
    for key, value in change.items():
        *parents, leaf = key.split("__")
        (config[parents[0]] if parents else config)[leaf] = value
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match=re.escape(says)):
        load_run(run)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("5", "must be a record, got 5"),
        ('{"decisions": 9000, "frames": 9, "updates": 9}', "returns must be finite numbers, got []"),
        (
            '{"decisions": "abc", "frames": 9, "updates": 9, "returns": [1]}',
            "decisions must be a whole number of at least 0, got 'abc'",
        ),
        (
            '{"decisions": 9000, "frames": "abc", "updates": 9, "returns": [1]}',
            "frames must be a whole number of at least 0, got 'abc'",
        ),
        ('{"decisions": 9000, "frames": 9, "updates": 9, "returns": ["a"]}', "returns must be finite numbers"),
    ],
)
def test_a_row_that_is_no_evaluation_is_named_with_its_line(tmp_path: Path, row: str, says: str) -> None:
    run = write_run(tmp_path)
    with (run / "eval.jsonl").open("a") as file:
        file.write(row + "\n")
    line = len((run / "eval.jsonl").read_text().splitlines())
    with pytest.raises(RunError, match=re.escape(f"eval.jsonl, line {line}") + ".*" + re.escape(says)):
        load_run(run)


@pytest.mark.parametrize(
    ("learner", "method", "name"),
    [
        ("sac", "none", "sac"),
        ("sac", "simsr+pamd", "simsr+pamd"),
        ("drqv2", "none", "drqv2"),
        ("drqv2", "simsr+pamd", "drqv2:simsr+pamd"),
    ],
)
def test_a_run_is_called_by_its_method_and_a_learner_other_than_sac(learner: str, method: str, name: str) -> None:
    assert method_label(learner, method) == name


def test_a_layout_of_a_later_version_is_refused_with_the_version_that_wrote_it(tmp_path: Path) -> None:
    run = write_run(tmp_path, layout=4)
    with pytest.raises(RunError, match=r"config\.json has layout 4 \(pamd 0\.0\.0 wrote it\).*reads layout 3"):
        load_run(run)


def test_the_first_layout_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    config = json.loads((run / "config.json").read_text())
    del config["layout"]
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match=r"has layout 1 .*Train the run again, or read it with the version that wrote"):
        load_run(run)


def test_a_run_before_its_first_evaluation_is_there(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    (run / "eval.jsonl").unlink()
    (run / "status.json").write_text('{"state": "running"}')
    loaded = load_run(run)
    assert (loaded.evaluated, loaded.finished, loaded.state) == (-1, False, "running")
