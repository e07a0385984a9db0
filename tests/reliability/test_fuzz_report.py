"""Fuzzing of the files that a report reads. Everything that is accepted can be shown."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.reliability.inputs import as_json, changed_trees, damaged
from tests.reliability.runner import amounts, feed
from tests.report.runs import write_run

from pamd import published
from pamd.report import page, tables
from pamd.report.comparison import compare_readable
from pamd.report.diagnostics import parse_section
from pamd.report.run import load_run, read_runs

pytestmark = pytest.mark.reliability

PAPER = published.load("table1")
SECTION = {
    "title": "Geometry",
    "paragraphs": ["one", "two"],
    "tables": [{"name": "a", "title": "A", "columns": ["x", "y"], "rows": [["1", 2.5], [None, 3]], "notes": ["n"]}],
    "figures": [{"file": "spectrum", "caption": "Eigenvalues"}],
}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A good run, and one that is changed."""
    write_run(tmp_path / "runs", name="good")
    write_run(tmp_path / "runs", "dbc-det+pamd", name="changed", env__distractor={"name": "noise", "source": "noise"})
    return tmp_path / "runs"


def show(runs: Path, changed: Path) -> None:
    """Everything on the page that comes from configs and logs; then the changed run alone, which may be refused."""
    comparison, rng = compare_readable(read_runs([runs])), np.random.default_rng(0)
    made = [tables.summary(comparison, rng), tables.compared_table(comparison, PAPER)]
    for scale in comparison.scales:
        made += [tables.returns(comparison, scale), tables.differences(comparison, scale)]
        made += [tables.aggregates(comparison, scale, rng), tables.improvement(comparison, scale, rng)]
    text = page.page_text(comparison, "T", {"Tables": "".join(t.html() + t.csv() + t.latex() for t in made if t)})
    text.encode()
    load_run(changed)


@amounts
def test_logs_of_a_report(amount: int, runs: Path) -> None:
    files = {name: (runs / "changed" / name).read_bytes() for name in ("eval.jsonl", "timing.jsonl")}

    def target(given: tuple[str, bytes]) -> None:
        name, data = given
        for file, content in files.items():
            (runs / "changed" / file).write_bytes(content)
        (runs / "changed" / name).write_bytes(data)
        show(runs, runs / "changed")

    def rows(name: str) -> st.SearchStrategy[bytes]:
        tree = [json.loads(line) for line in files[name].splitlines()]
        changed = changed_trees(tree).map(lambda rows: b"".join(as_json(row) + b"\n" for row in rows))
        return st.one_of(changed, changed, damaged(files[name]))

    inputs = st.sampled_from(sorted(files)).flatmap(lambda name: st.tuples(st.just(name), rows(name)))
    outcome = feed(target, inputs, amount)
    assert outcome["refused"] > 0 < outcome["accepted"]


@amounts
def test_configs_and_diagnostics_of_a_report(amount: int, runs: Path) -> None:
    trees = {name: json.loads((runs / name / "config.json").read_text()) for name in ("changed",)}

    def target(given: tuple[str, Any]) -> None:
        name, tree = given
        if name == "section":
            section = parse_section(as_json(tree), "it")
            "".join(table.html() for table in section.tables).encode()
            section.text().encode()
            return
        kept = (runs / name / "config.json").read_bytes()
        try:
            (runs / name / "config.json").write_bytes(as_json(tree))
            show(runs, runs / name)
        finally:
            (runs / name / "config.json").write_bytes(kept)

    inputs = st.sampled_from(("changed", "changed", "section")).flatmap(
        lambda name: st.tuples(st.just(name), changed_trees(trees.get(name, SECTION)))
    )
    outcome = feed(target, inputs, amount)
    shutil.rmtree(runs)
    assert outcome["refused"] > 0 < outcome["accepted"]
