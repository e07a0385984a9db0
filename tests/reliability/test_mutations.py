"""After damage to a run directory, each resume is exact or refused with one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.reliability.damage import NEWEST, OLDER, Mutation, mutations
from tests.reliability.mutations import DECISIONS, RUN, STOPPED, as_stopped, judge
from tests.reliability.runs import products

from pamd.cli.main import main

pytestmark = pytest.mark.reliability

QUICK = {
    ("config.json", "seed = 5"),
    ("status.json", 'state = "finished"'),
    ("versions.json", "100,000 brackets"),
    ("train.jsonl", "a row dropped"),
    ("eval.jsonl", "written twice"),
    (f"{NEWEST}/tensors.safetensors", "one bit flipped"),
    (f"{OLDER}/state.json", "a directory instead"),
    ("checkpoints", "the two exchanged"),
    (NEWEST, "renamed to 000000999"),
    ("replay/rewards.f32", "one bit flipped"),
    ("replay/frames.u8", "cut to half"),
    ("replay/replay.json", "emptied"),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return products(trained(tmp_path_factory.mktemp("reference"), DECISIONS))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return as_stopped(trained(tmp_path_factory.mktemp("stopped"), STOPPED))


def trained(runs: Path, decisions: int) -> Path:
    assert main(RUN.words(runs, decisions)) == 0
    (run,) = runs.iterdir()
    return run


def cases() -> list[object]:
    found = mutations()
    assert {(one.file, one.what) for one in found} >= QUICK
    return [
        pytest.param(
            one,
            id=f"{one.file}: {one.what}",
            marks=() if (one.file, one.what) in QUICK else pytest.mark.slow,
        )
        for one in found
    ]


@pytest.mark.parametrize("mutation", cases())
def test_a_damaged_run_resumes_exactly_or_is_refused(
    mutation: Mutation, stopped: Path, expected: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(stopped, tmp_path / "deep" / "runs" / stopped.name))
    mutation.apply(run)
    code = main(["resume", str(run)])
    outcome, said = judge(code, capsys.readouterr().err, run, expected)
    assert outcome == mutation.expected, said


def test_a_judge_sees_a_difference(stopped: Path, expected: dict[str, bytes]) -> None:
    assert judge(0, "", stopped, expected)[0] == "DIFFERENT"
    assert judge(2, "", stopped, expected)[0] == "refused without a message"
    assert judge(1, "", stopped, expected)[0] == "traceback or exit code 1"
