"""The command of the benchmarks. No test depends on a measured time."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from benchmarks.__main__ import discover, main
from benchmarks.common import limit
from benchmarks.states import Loop
from torch.nn.utils import parameters_to_vector

import benchmarks

SLOW = ["update", "replay", "render", "pipeline", "integrations", "peers", "states", "methods", "distances"]


def test_the_limit_is_the_rate_of_the_matrix_product() -> None:
    operations = 2 * 2048**3
    assert limit(operations, [2.0, 2.0], [1.0, 1.0]).median == 0.5


def test_a_file_with_measure_is_a_benchmark_and_the_help_describes_it(capsys: pytest.CaptureFixture[str]) -> None:
    known = discover()
    assert set(SLOW) < known.keys()
    assert not {"common", "naive", "__main__"} & known.keys()
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in known)
    assert "On request only: it requires pamd[sb3]." in shown


def test_the_published_updates_have_one_reference() -> None:
    """A reference without kept memory flattered us, and is not measured any more."""
    root = Path(__file__).parents[2]
    published = json.loads((root / "results" / "bench" / "update.json").read_text())
    assert {row["schedule"] for row in published["rows"]} == {"reference", "sequential", "joint"}
    assert [column for column in published["rows"][0] if column.startswith("x ")] == ["x reference"]
    page = (root / "docs" / "performance.md").read_text()
    for row in published["rows"]:
        if row["schedule"] != "reference":
            median, spread = row["x reference"].split(" ", 1)
            assert f"**{median}** {spread}" in page


def test_the_page_of_the_family_has_the_published_costs() -> None:
    root = Path(__file__).parents[2]
    lines = (root / "docs" / "family.md").read_text().splitlines()
    published = json.loads((root / "results" / "bench" / "methods.json").read_text())["rows"]
    assert {"curl", "taco", "mrq", "spr", "dbc-unit+pamd"} <= {row["method"] for row in published}
    for row in published:
        columns = [f"{row[name]:,}" for name in ("own parameters", "MFLOP")]
        costs = " | ".join([*columns, row["x deepmdp"], row["x dbc-unit+pamd"]])
        assert any(line.startswith(f"| `{row['method']}` ") and costs in line for line in lines)


NEW = '''"""A new one."""
from pamd.table import Table

def measure(options):
    return Table.from_records("mine", "a title", [{"threads": options.threads}], ())
'''


def test_a_benchmark_is_one_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(NEW)
    monkeypatch.setattr(benchmarks, "__path__", [*benchmarks.__path__, str(tmp_path)])
    assert main(["mine", "--threads", "1", "--json", str(tmp_path / "out")]) == 0
    monkeypatch.delitem(sys.modules, "benchmarks.mine")
    assert "mine: a title" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "mine.json").read_text())["rows"] == [{"threads": 1}]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["updat"], "update"),
        (["update", "--repetitions", "1"], "at least 2"),
        (["update", "--threads", "0"], "at least 1"),
    ],
)
def test_what_cannot_be_measured_is_said_first(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert says in capsys.readouterr().err


def test_the_loop_on_states_differs_only_by_the_method() -> None:
    """Both loops train encoder, critic and actor; only the one with a method has terms, and trains them, too."""
    plain, other = Loop(None, 8), Loop("dbc-unit+pamd", 8)
    assert plain.rep is None
    assert other.rep is not None
    for loop in (plain, other):
        trained = [loop.online, loop.actor, *([] if loop.rep is None else loop.rep.terms.values())]
        before = [parameters_to_vector(module.parameters()).detach().clone() for module in trained]
        loop.update()
        assert all(
            not torch.equal(parameters_to_vector(module.parameters()), was)
            for module, was in zip(trained, before, strict=True)
        )
    for one, same in ((plain.online, other.online), (plain.actor, other.actor)):
        assert sum(p.numel() for p in one.parameters()) == sum(p.numel() for p in same.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_benchmark_runs_and_writes_its_rows(name: str, tmp_path: Path) -> None:
    assert main([name, "--repetitions", "2", "--json", str(tmp_path)]) == 0
    assert json.loads((tmp_path / f"{name}.json").read_text())["rows"]
