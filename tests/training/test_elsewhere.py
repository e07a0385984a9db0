"""Evaluation on backgrounds that training does not show: separate results, no clip of the training, exact resume."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from tests.envs.clip_files import write_clips
from tests.training.runs import products, toy, undisturbed

from pamd.cli.main import main
from pamd.configuration import configure
from pamd.envs import elsewhere, prepare_env
from pamd.envs.config import EnvConfig, distractor
from pamd.errors import ConfigError, RunInterrupted
from pamd.report.comparison import compare
from pamd.report.config import has_bundled_clips
from pamd.report.run import load_runs
from pamd.report.tables import generalization, records
from pamd.runs.identity import tree_identity
from pamd.schema import to_tree
from pamd.training import load, resume, train
from pamd.training import loop as looping
from pamd.training import run as running
from pamd.training.config import prepare, run_name


def rows(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "eval.jsonl").read_text().splitlines()]


def test_results_elsewhere_are_apart_and_change_nothing_else(tmp_path: Path) -> None:
    plain, more = (train(toy(**options), tmp_path) for options in ({}, {"evaluate_on": ("noise", "color", "none")}))
    assert plain != more
    assert (plain / "train.jsonl").read_bytes() == (more / "train.jsonl").read_bytes()
    for one, other in zip(rows(plain), rows(more), strict=True):
        results = other.pop("elsewhere")
        assert one == other
        assert list(results) == ["noise", "color", "none"]
        assert results["none"] == {key: one[key] for key in results["none"]}  # the task's own background
        assert results["noise"]["returns"] != one["returns"]


def test_runs_without_it_keep_their_names() -> None:
    tree = to_tree(toy())
    assert tree["evaluate_on"] == []
    assert "evaluate_on" not in tree_identity(tree)
    assert run_name(toy()) != run_name(prepare(toy(evaluate_on=("noise",))))


def test_resume_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = toy(evaluate_on=("noise", "color"), evaluate_every=10)
    straight = undisturbed(config)
    played, play, run_loop = [], looping.evaluate, running.run_loop

    def watched(session, observer, stop) -> None:  # type: ignore[no-untyped-def]
        def stopping(*args, **options):  # type: ignore[no-untyped-def]
            played.append(args)
            stop.asked = len(played) == 5  # in the second evaluation, after the ordinary one
            return play(*args, **options)

        monkeypatch.setattr(looping, "evaluate", stopping)
        run_loop(session, observer, stop)

    monkeypatch.setattr(running, "run_loop", watched)
    with pytest.raises(RunInterrupted):
        train(config, tmp_path)
    monkeypatch.undo()
    (run,) = tmp_path.iterdir()
    assert len(rows(run)) == 1
    resume(run)
    assert products(run) == straight


def test_no_clip_of_the_training_is_shown(tmp_path: Path) -> None:
    videos = write_clips(tmp_path / "videos", 8)
    trained = prepare_env(EnvConfig("toy", size=24, distractor=distractor("video", videos=videos)))
    assert trained.distractor is not None
    for name in ("paper-video", "released-video", "image"):
        # released-video scales its frames differently, so digests alone would not recognize a clip.
        other = elsewhere(trained, distractor=name, videos=videos).distractor
        assert other is not None
        assert other.split == "unseen"
        assert not {ref.name for ref in (*other.train, *other.unseen)} & {ref.name for ref in trained.distractor.train}


def test_eval_and_make_env_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(toy(), tmp_path)
    capsys.readouterr()
    assert main(["eval", str(run), "--episodes", "2", "--distractor", "noise", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["elsewhere"] == "distractor noise"
    assert row["video"].endswith("evaluated-000000060-distractor-noise.mp4")
    assert main(["eval", str(run), "--episodes", "2", "--no-video", "--distractor", "color"]) == 0
    assert "(distractor color)" in capsys.readouterr().out
    trained = load(run)
    own, other = (trained.make_env(distractor=name).reset()[0] for name in (None, "noise"))
    assert np.mean(own != other) > 0.3
    assert main(["eval", str(run), "--videos", str(tmp_path)]) == 2
    assert "videos require a distractor" in capsys.readouterr().err
    assert main(["eval", str(run), "--noise", "gaussian"]) == 2
    assert "trained with no noise" in capsys.readouterr().err


def test_wrong_backgrounds_are_refused_before_training() -> None:
    with pytest.raises(ConfigError, match="each background once"):
        toy(evaluate_on=("noise", "noise"))
    with pytest.raises(ConfigError, match="a distractor requires images"):
        configure("state:cheetah_run", evaluate_on=("noise",))
    with pytest.raises(ConfigError, match="Did you mean 'noise'"):
        toy(evaluate_on=("nois",))


def test_the_report_shows_the_gap(tmp_path: Path) -> None:
    for seed in (0, 1):
        train(toy(evaluate_on=("noise",), seed=seed), tmp_path)
    runs = load_runs([tmp_path])
    table = generalization(compare(runs))
    assert table is not None
    ((_, _, background, own, other, gap),) = table.rows
    assert background == "noise"
    assert not has_bundled_clips(runs[0].config)
    bundled = {**runs[0].config, "evaluate_on": [to_tree(distractor("video"))]}
    (note,) = generalization(compare([dataclasses.replace(runs[0], config=bundled)])).notes[1:]  # type: ignore[union-attr]
    assert "stand in for the videos of the literature" in note
    assert gap.n == 2
    assert gap.mean == pytest.approx(own.mean - other.mean)
    (row,) = records(compare(runs))
    assert row["elsewhere"]["noise"]["return"] == pytest.approx(other.mean, abs=0.006)
    assert [run.score for run in runs] == [np.mean(run.curve.returns[-1]) for run in runs]
