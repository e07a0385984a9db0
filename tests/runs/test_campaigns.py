"""Campaigns: a Parquet file of runs gives the same report as their directories, and bad files give our errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.report.runs import write_run

from pamd.cli.main import main
from pamd.errors import RunError
from pamd.report import load_run, page
from pamd.report.run import read_runs
from pamd.runs.campaigns import FILES, campaign_runs, read_packed, write_campaign


def _runs(root: Path) -> Path:
    for method in ("dbc-det", "dbc-det+pamd"):
        for seed in range(3):
            run = write_run(root, method, seed, [0.0, 5.0 * seed, 10.0 + seed])
            (run / "train.jsonl").write_text('{"kind": "update", "effective_rank": 3.5}\n')
    (run / "status.json").write_text(json.dumps({"state": "finished", "time": 1.7e9, "seconds": 12.5}))
    return root


def _packed(tmp_path: Path) -> Path:
    assert main(["pack", str(_runs(tmp_path / "runs")), "--out", str(tmp_path / "packed.parquet")]) == 0
    return tmp_path / "packed.parquet"


def _tables(runs: list[Path], out: Path) -> dict[str, str]:
    page.build(runs, out)
    return {path.name: path.read_text() for path in sorted((out / "tables").glob("*.csv"))}


def test_a_packed_campaign_gives_the_tables_of_its_directories(tmp_path: Path) -> None:
    packed = _packed(tmp_path)
    expected = _tables([tmp_path / "runs"], tmp_path / "one")
    assert {"summary.csv", "returns-cpu.csv"} <= set(expected)
    assert _tables([packed], tmp_path / "two") == expected


def test_every_file_of_a_run_is_kept_to_the_last_byte(tmp_path: Path) -> None:
    for run in campaign_runs(_packed(tmp_path)):
        for name in FILES:
            file = tmp_path / "runs" / run.name / name
            if file.exists():
                assert read_packed(run, name) == file.read_bytes()
            else:
                with pytest.raises(FileNotFoundError, match=name):
                    read_packed(run, name)


def test_campaigns_and_directories_mix_and_one_run_of_a_campaign_can_be_named(tmp_path: Path) -> None:
    packed = _packed(tmp_path)
    more = write_run(tmp_path / "more", "dbc-det", 7)
    runs, unreadable = read_runs([packed, tmp_path / "more"])
    assert (len(runs), unreadable) == (7, [])
    assert load_run(campaign_runs(packed)[0]).seed == 0
    (one,), _ = read_runs([campaign_runs(packed)[2]])
    assert one.seed == 2
    _, (missing,) = read_runs([packed / "other"])
    assert "has no run 'other'" in missing.reason
    assert main(["pack", str(packed), str(more), "--out", str(tmp_path / "both.parquet")]) == 0
    assert len(campaign_runs(tmp_path / "both.parquet")) == 7


def test_a_run_that_is_in_a_campaign_and_in_a_directory_counts_once(tmp_path: Path) -> None:
    runs, unreadable = read_runs([_packed(tmp_path), tmp_path / "runs"])
    assert len(runs) == 6
    assert len(unreadable) == 6
    assert "one run must not count twice" in unreadable[0].reason


def test_a_replaced_campaign_is_read_again(tmp_path: Path) -> None:
    packed = _packed(tmp_path)
    before = campaign_runs(packed)
    write_campaign([(before[0].name, {name: read_packed(before[0], name) for name in ("config.json",)})], packed)
    assert campaign_runs(packed) == before[:1]


def test_reports_and_packing_need_no_torch(tmp_path: Path) -> None:
    packed = _packed(tmp_path)
    words = [
        ["pack", str(packed), "--out", f"{tmp_path}/again.parquet"],
        ["report", str(packed), "--out", f"{tmp_path}/r"],
    ]
    check = f"assert not any(map(main, {words!r})); assert 'torch' not in sys.modules"
    code = f"import sys; from pamd.cli.main import main; {check}"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "again.parquet").read_bytes() == packed.read_bytes()


def _refused(path: Path, match: str) -> None:
    with pytest.raises(RunError, match=match):
        read_runs([path])


def test_a_file_that_is_not_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no runs here")
    _refused(tmp_path / "notes.txt", "cannot be read as a campaign")
    (tmp_path / "empty.parquet").write_bytes(b"")
    _refused(tmp_path / "empty.parquet", "cannot be read as a campaign")


def test_other_schemas_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": ["a"], "x": [1]}), tmp_path / "other.parquet")
    _refused(tmp_path / "other.parquet", "is not a campaign of runs: `pamd pack")
    schema = pa.schema([("name", pa.string()), ("config.json", pa.int64())], metadata={"pamd.campaign": "1"})
    pq.write_table(pa.table([["a"], [1]], schema=schema), tmp_path / "typed.parquet")
    _refused(tmp_path / "typed.parquet", "it must have text in name, config.json")


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9, 0.999])
def test_a_truncated_campaign_is_refused(tmp_path: Path, share: float) -> None:
    data = _packed(tmp_path).read_bytes()
    (tmp_path / "cut.parquet").write_bytes(data[: int(len(data) * share)])
    _refused(tmp_path / "cut.parquet", "cannot be read as a campaign")


def test_a_damaged_page_is_refused(tmp_path: Path) -> None:
    packed = _packed(tmp_path)
    data = bytearray(packed.read_bytes())
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    packed.write_bytes(data)
    _refused(packed, "cannot be read as a campaign")


def test_hostile_nesting_makes_a_run_unreadable_and_names_it(tmp_path: Path) -> None:
    packed = tmp_path / "deep.parquet"
    write_campaign([("deep", {"config.json": b"[" * 100_000 + b"]" * 100_000})], packed)
    runs, (unreadable,) = read_runs([packed])
    assert runs == []
    assert unreadable.name == "deep"
    assert "nested" in unreadable.reason


@pytest.mark.parametrize("name", ["../run", "a/b", "..", ""])
def test_a_name_must_not_lead_out_of_the_campaign(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunError, match="named like a directory"):
        write_campaign([(name, {})], tmp_path / "out.parquet")
    schema = pa.schema([(column, pa.string()) for column in ("name", *FILES)], metadata={"pamd.campaign": "1"})
    row = [[name], *([None] for _ in FILES)]
    pq.write_table(pa.table(row, schema=schema), tmp_path / "hostile.parquet")
    _refused(tmp_path / "hostile.parquet", "named like a directory")


def test_an_empty_campaign_and_two_runs_of_one_name_are_refused(tmp_path: Path) -> None:
    write_campaign([], tmp_path / "empty.parquet")
    _refused(tmp_path / "empty.parquet", "contains no run")
    with pytest.raises(RunError, match="two runs named 'a'"):
        write_campaign([("a", {}), ("a", {})], tmp_path / "twice.parquet")


def test_the_command_refuses_other_file_names_and_missing_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = _runs(tmp_path / "runs")
    assert main(["pack", str(runs), "--out", str(tmp_path / "runs.csv")]) == 2
    assert "must be a file that ends with .parquet" in capsys.readouterr().err
    assert main(["pack", str(tmp_path / "runz"), "--out", str(tmp_path / "x.parquet")]) == 2
    assert "near: runs" in capsys.readouterr().err


def test_a_campaign_of_another_version_may_have_more_or_fewer_files(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs")
    columns = {"name": "a", "config.json": (run / "config.json").read_text(), "notes.txt": "new"}
    schema = pa.schema([(name, pa.string()) for name in columns], metadata={"pamd.campaign": "1"})
    pq.write_table(pa.table([[text] for text in columns.values()], schema=schema), tmp_path / "other.parquet")
    (loaded,), _ = read_runs([tmp_path / "other.parquet"])
    assert (loaded.name, loaded.evaluated) == ("a", -1)
