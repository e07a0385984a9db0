"""Experiments as data, and from their names to their artifacts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pamd import published
from pamd.cli.main import main
from pamd.errors import UnknownNameError
from pamd.experiments import EXPERIMENTS, SCALES, Arm, Experiment
from pamd.experiments.base import add
from pamd.training import run_name

NAMES = EXPERIMENTS.names()
HERE = Path(__file__).parents[2]


def test_looking_at_experiments_does_not_wait_for_torch() -> None:
    code = "import sys, pamd.experiments as e; e.EXPERIMENTS.names(); assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", NAMES)
def test_every_run_builds_at_every_scale_and_no_two_are_the_same(name: str) -> None:
    experiment = EXPERIMENTS.get(name)
    for scale, setting in SCALES.items():
        runs = experiment.runs(scale)
        seeds = setting.seeds if scale == "smoke" else experiment.seeds or setting.seeds
        assert len(runs) == seeds * len(experiment.arms)
        assert len({run_name(run.config) for run in runs}) == len(runs)
        own = {arm.scale for arm in experiment.arms if scale != "smoke"} - {None}
        assert {run.config.scale for run in runs} <= (own or {scale})
        # A report reads names from the runs themselves: within a task each label is one method name, and back.
        names = {(run.config.env.task, run.label, run.config.label) for run in runs}
        assert all(label == method for _, label, method in names)


def test_paper_scale_is_the_papers() -> None:
    runs = EXPERIMENTS.get("table1").runs("paper")
    budgets = {run.config.env.task: run.config.decisions for run in runs}
    assert budgets == {
        "cartpole_swingup": 200_000,
        "cheetah_run": 1_000_000,
        "finger_spin": 150_000,
        "hopper_hop": 2_000_000,
    }
    assert {run.config.seed for run in runs} == {0, 1, 2, 3, 4}
    assert {(run.config.evaluate_every, run.config.evaluate_episodes) for run in runs} == {(10_000, 10)}
    assert {run.config.schedule for run in runs} == {"sequential"}
    assert {run.config.method.name for run in runs} == {"dbc", "dbc-det", "dbc-det+pamd"}


def test_a_part_of_an_experiment() -> None:
    whole = EXPERIMENTS.get("table1").runs("cpu")
    part = EXPERIMENTS.get("table1").runs("cpu", tasks=["finger_spin"], methods=["dbc", "dbc-det"], seeds=[2])
    assert [(run.config.env.task, run.label, run.config.seed) for run in part] == [
        ("finger_spin", "dbc", 2),
        ("finger_spin", "dbc-det", 2),
    ]
    assert all(run in whole for run in part)
    with pytest.raises(UnknownNameError, match=r"unknown task of table1 'finger_spn'.*finger_spin"):
        EXPERIMENTS.get("table1").runs("cpu", tasks=["finger_spn"])


def test_experiments_share_runs() -> None:
    table, figure = ({run_name(run.config) for run in EXPERIMENTS.get(n).runs("cpu")} for n in ("table1", "fig1-dbc"))
    assert figure < table


def test_each_confound_changes_one_thing() -> None:
    from pamd.schema import differences

    runs = {run.label: run.config for run in EXPERIMENTS.get("confounds").runs("cpu", seeds=[0])}
    for label, changed in (
        ("simsr+pamd (all pairs)", {"method.metric.pairing"}),
        ("simsr (all pairs)", {"method.metric.pairing"}),
        ("dbc-det+pamd (reward 1-gamma)", {"method.metric.operator.options.c_R"}),
        ("simsr+pamd (sequential)", {"schedule"}),
    ):
        plain = runs[label.partition(" (")[0]]
        assert {field for field, *_ in differences(plain, runs[label])} - {"method.name"} == changed
    assert {f for f, *_ in differences(runs["dbc-det"], runs["dbc-det+coordinate"])} - {"method.name"} == {
        "method.metric.distance.name"
    }


def test_published_numbers_that_are_there_are_named() -> None:
    named = [EXPERIMENTS.get(name).published for name in NAMES]
    assert all(published.load(name) for name in named if name is not None)


def test_the_page_about_experiments_has_them_all() -> None:
    text = (HERE / "docs" / "experiments.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in text] == []


@pytest.fixture
def tiny() -> Iterator[str]:
    """An experiment of one's own: one file, or these lines."""
    settings = ("learner.random_decisions=20", "env.time_limit=9")
    arms = (
        Arm("toy", "sac", 60, settings=settings),
        Arm("toy", "sac", 60, "slow", (*settings, "learner.critic_tau=0.001")),
    )
    add(Experiment("tiny", "A toy", "that it runs", arms))
    yield "tiny"
    EXPERIMENTS.unregister("tiny")


def test_from_name_to_artifact(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", tiny, "--scale", "smoke", "--runs", str(tmp_path), "--workers", "2"]
    assert main([*words, "--report-only"]) == 2
    assert "nothing to report" in capsys.readouterr().err
    assert main([*words, "--plan"]) == 0
    assert "2 runs, 0 of them finished; 160 decisions" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert main(words) == 0
    place = tmp_path / "artifacts" / "tiny-smoke"
    results = json.loads((place / "results.json").read_text())
    assert [row["method"] for row in results["rows"]] == ["sac", "sac (slow)"]
    for row in results["rows"]:
        # Every number leads to the files that it is from.
        ((run, value),) = row["runs"].items()
        last = json.loads((tmp_path / run / "eval.jsonl").read_text().splitlines()[-1])
        assert (row["return"], value) == (pytest.approx(last["return_mean"], abs=0.006), row["return"])
        assert [row[unit] for unit in ("decisions", "frames", "updates")] == [80, 80, 61]
    # From files alone: the same again without the runs' weights and replays.
    before = (place / "results.json").read_bytes()
    (place / "results.json").unlink()
    assert main([*words, "--report-only"]) == 0
    assert (place / "results.json").read_bytes() == before


@pytest.mark.parametrize("name", ["lemma", "parameter-match"])
def test_what_is_computed_is_tabulated(name: str, tmp_path: Path) -> None:
    assert main(["reproduce", name, "--scale", "smoke", "--runs", str(tmp_path), "--threads", "1"]) == 0
    rows = json.loads((tmp_path / "artifacts" / f"{name}-smoke" / "table.json").read_text())["rows"]
    if name == "lemma":
        assert {row["violations"] for row in rows} == {0}
        assert min(float(row["nearest to lower"]) for row in rows) >= 1
    else:
        assert {row["distance"]: row["agrees"] for row in rows if row["agrees"]} == {"pamd": "yes", "mlp": "yes"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["tabel1"], "Did you mean 'table1'"),
        (["table1", "--scale", "cup"], "Valid: cpu, paper, smoke"),
        (["table1", "--plan", "--report-only"], "--plan cannot be combined with --report-only"),
        (["fig-mlp", "--discard-replay"], "fig-mlp cannot be combined with --discard-replay: it reads the replay"),
        (["lemma", "--report-only"], "it cannot be combined with --report-only"),
        (["lemma", "--seeds", "1"], "it cannot be combined with --seeds"),
        (["table1", "--methods", "dbc-dat"], "'dbc-det'"),
    ],
)
def test_bad_words(words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *words, "--runs", str(tmp_path)]) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "experiments"]) == 0
    assert "table1: whether PAMD" in capsys.readouterr().out


@pytest.fixture(scope="module")
def shared_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all: what experiments share is trained once."""
    return tmp_path_factory.mktemp("runs")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_end_to_end(name: str, shared_runs: Path) -> None:
    """At smoke scale, which claims nothing but that everything runs."""
    experiment = EXPERIMENTS.get(name)
    assert main(["reproduce", name, "--scale", "smoke", "--runs", str(shared_runs)]) == 0
    place = shared_runs / "artifacts" / f"{name}-smoke"
    if experiment.arms:
        rows = json.loads((place / "results.json").read_text())["rows"]
        # A task before videos has a longer name.
        assert {(row["task"].split()[0], row["method"]) for row in rows} == {(a.task, a.label) for a in experiment.arms}
    else:
        assert json.loads((place / "table.json").read_text())["rows"]
