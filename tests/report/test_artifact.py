"""The page, its tables and results.json come from the same cells."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from tests.report.runs import write_run

from pamd.cli.reproduce import write_artifact
from pamd.errors import RunError
from pamd.experiments import EXPERIMENTS


def test_the_page_its_tables_and_results_json_count_the_same_seeds(tmp_path: Path) -> None:
    """Two methods, three seeds; one seed of dbc-det is unfinished, and its high return must not count."""
    runs = [("PAMD", write_run(tmp_path, "dbc-det+pamd", seed, [0, 9, 400 + 30 * seed])) for seed in range(3)]
    runs += [("norm", write_run(tmp_path, "dbc-det", seed, [0, 8, 300 + 20 * seed])) for seed in range(2)]
    runs += [("norm", write_run(tmp_path, "dbc-det", 2, [0, 999]))]
    out = tmp_path / "out"
    write_artifact(EXPERIMENTS.get("table1"), runs, out, "cpu", {"runs planned": 6})

    content = json.loads((out / "results.json").read_text())
    assert (content["experiment"], content["scale"], content["runs planned"]) == ("table1", "cpu", 6)
    pamd, norm = content["rows"]
    assert (pamd["method"], pamd["seeds"], pamd["return"], pamd["standard error"]) == ("PAMD", 3, 430.0, 17.32)
    assert (norm["method"], norm["seeds"], norm["return"], norm["standard error"]) == ("norm", 2, 310.0, 10.0)
    assert list(norm["runs"].values()) == [300.0, 320.0]
    assert (norm["not counted"], pamd["not counted"]) == (["seed 2 unfinished at 1,000 of 2,000 decisions"], [])

    with (out / "tables" / "summary.csv").open() as file:
        summary = list(csv.DictReader(file))
    with (out / "tables" / "returns-cpu.csv").open() as file:
        (layout,) = csv.DictReader(file)
    text, latex = (out / "index.html").read_text(), (out / "tables" / "summary.tex").read_text()
    for row, cells in zip(content["rows"], summary, strict=True):
        mean, error, n = (float(cells[f"return {part}"]) for part in ("mean", "standard error", "n"))
        assert (round(mean, 2), round(error, 2), n) == (row["return"], row["standard error"], row["seeds"])
        assert int(layout[f"{row['method']} (released fidelity) n"]) == row["seeds"]
        readable = f"{mean:.1f} ± {error:.1f} (n={row['seeds']})"
        # In the summary, in the grid of tasks and methods, and beside the paper's number.
        assert text.count(f"<td class=number>{readable}</td>") == 3
        assert readable.replace("±", r"$\pm$") in latex
    assert re.search(r"norm on cheetah_run, .*: seed 2 unfinished at 1,000 of 2,000 decisions", text)


def test_an_artifact_of_unfinished_runs_has_no_numbers(tmp_path: Path) -> None:
    run = write_run(tmp_path, "dbc-det", 0, [0, 999])
    write_artifact(EXPERIMENTS.get("table1"), [("dbc-det", run)], tmp_path / "out", "cpu", {})
    (row,) = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    assert (row["seeds"], row["return"], row["frames"], row["runs"]) == (0, None, None, {})


def test_a_label_that_stands_for_two_methods_is_an_error(tmp_path: Path) -> None:
    runs = [("both", write_run(tmp_path, "dbc-det", 0)), ("both", write_run(tmp_path, "dbc-det", 1, schedule="other"))]
    with pytest.raises(RunError, match="'both' would mix runs that differ in schedule"):
        write_artifact(EXPERIMENTS.get("table1"), runs, tmp_path / "out", "cpu", {})
