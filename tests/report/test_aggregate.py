"""What may share a row, a column, a cell; curves on a common grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.runs import DEMO, write_run

from pamd.errors import RunError
from pamd.report.aggregate import Comparison, align, compare, mean_curve, short
from pamd.report.load import load_run, load_runs


def compared(root: Path) -> Comparison:
    return compare(load_runs([root]))


def test_the_demo_is_one_row_of_two_columns() -> None:
    found = compared(DEMO)
    (setting,) = found.settings
    assert setting.label == "cheetah_run, 10k decisions, cpu scale"
    assert (setting.frames, setting.action_repeat, setting.background) == (80_000, 8, "")
    assert [column.label for column in found.columns] == ["dbc-det", "dbc-det+pamd"]
    assert [list(cell.scores) for cell in found.row(setting)] == [[0], [0]]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"decisions": 1000}, "1k decisions"),
        ({"env__task": "walker_walk"}, "walker_walk"),
        ({"env__action_repeat": 4}, "env.action_repeat=4"),
        ({"scale__name": "paper"}, "paper scale"),
        ({"scale__batch": 128}, "scale.batch=128"),
        ({"replay__capacity": 5000}, "replay.capacity=5000"),
        ({"env__distractor": {"name": "video-hard", "source": "video"}}, "cheetah_run + video-hard, 2k"),
    ],
)
def test_budgets_tasks_scales_and_backgrounds_get_rows_of_their_own(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    write_run(tmp_path, seed=0)
    write_run(tmp_path, seed=1, **change)
    found = compared(tmp_path)
    assert len(found.settings) == 2
    assert any(says in setting.label for setting in found.settings)
    assert all(len(cell.runs) == 1 for cell in found.cells.values())


@pytest.mark.parametrize(
    ("change", "labels"),
    [
        ({"method__fidelity": "paper"}, ["dbc-det (paper)", "dbc-det (released)"]),
        (
            {"method__objective__pairing": "all"},
            ["dbc-det (objective.pairing=all)", "dbc-det (objective.pairing=permutation)"],
        ),
    ],
)
def test_fidelities_and_options_get_columns_of_their_own(
    tmp_path: Path, change: dict[str, Any], labels: list[str]
) -> None:
    write_run(tmp_path, seed=0)
    write_run(tmp_path, seed=1, **change)
    found = compared(tmp_path)
    assert [column.label for column in found.columns] == labels
    assert [cell.missing for cell in found.row(found.settings[0])] in ([(0,), (1,)], [(1,), (0,)])


def test_many_differences_still_give_two_labels(tmp_path: Path) -> None:
    one = {f"method__sac__{key}": 7 for key in ("hidden", "gamma", "actor_every", "targets_every")}
    write_run(tmp_path, seed=0, **one)
    write_run(tmp_path, seed=0, **{**one, "method__sac__hidden": 8, "method__sac__gamma": 8})
    write_run(tmp_path, seed=0)
    labels = {column.label for column in compared(tmp_path).columns}
    assert len(labels) == 3
    assert all("more: variant" in label for label in labels)


def test_a_column_named_by_hand_must_not_mix(tmp_path: Path) -> None:
    a, b = write_run(tmp_path, seed=0), write_run(tmp_path, seed=1, method__fidelity="paper")
    runs = load_runs([tmp_path])
    with pytest.raises(RunError, match=r"'both' would mix runs that differ in method\.fidelity"):
        compare(runs, {"both": [a, b]})
    assert {column.label for column in compare(runs, {"mine": [a], "yours": [b]}).columns} == {"mine", "yours"}
    assert {column.label for column in compare(runs, {"mine": [a]}).columns} == {"mine", "dbc-det (paper)"}


def test_one_seed_does_not_count_twice(tmp_path: Path) -> None:
    write_run(tmp_path, every=1000)
    write_run(tmp_path, every=500, values=[0, 1, 2, 3, 4], name="again")
    with pytest.raises(RunError, match=r"both seed 0 of dbc-det .* differ in evaluate_every"):
        compared(tmp_path)


def test_missing_and_unfinished_seeds_are_shown_and_not_scored(tmp_path: Path) -> None:
    for seed in range(3):
        write_run(tmp_path, "dbc-det+pamd", seed)
    write_run(tmp_path, seed=0)
    write_run(tmp_path, seed=1, values=[0.0, 99.0])
    found = compared(tmp_path)
    plain, pamd = found.row(found.settings[0])
    assert pamd.lacking == []
    assert plain.lacking == ["seed 1 unfinished at 1,000 of 2,000 decisions", "seed 2 missing"]
    assert plain.scores == {0: 20.0}


def test_no_action_repeat_in_the_config_is_read_from_the_frames(tmp_path: Path) -> None:
    write_run(tmp_path, seed=0, env__action_repeat=None)
    write_run(tmp_path, "dbc-det+pamd", seed=0, env__family="independent")
    early = write_run(tmp_path, seed=1, env__action_repeat=None)
    (early / "eval.jsonl").unlink()
    (setting,) = compared(tmp_path).settings
    assert setting.action_repeat == 8


def test_alignment_takes_the_last_evaluation_and_never_extrapolates(tmp_path: Path) -> None:
    run = load_run(write_run(tmp_path, values=[1.0, 2.0, 3.0]))
    aligned = align(run.curve, np.array([0, 999, 1000, 1999, 2000, 2001]))
    np.testing.assert_array_equal(aligned, [1, 1, 2, 2, 3, np.nan])


def test_curves_with_other_evaluation_steps_share_a_grid(tmp_path: Path) -> None:
    runs = [load_run(write_run(tmp_path, seed=0, values=[0.0, 10.0, 20.0]))]
    runs.append(load_run(write_run(tmp_path, seed=1, every=500, values=[0.0, 4.0, 6.0])))  # stopped at 1000
    curve = mean_curve(runs)
    assert curve.decisions.tolist() == [0, 500, 1000, 2000]
    assert curve.mean.tolist() == [0, 2, 8, 20]
    assert curve.seeds.tolist() == [2, 2, 2, 1]
    assert curve.frames.tolist() == [0, 4000, 8000, 16000]
    assert curve.seconds.tolist() == [0, 50, 100, 200]
    np.testing.assert_array_equal(curve.error, [0, 2, 2, np.nan])


def test_counts_are_short() -> None:
    assert [short(n) for n in (60, 1234, 200_000, 1_000_000, 2_500_000)] == ["60", "1,234", "200k", "1M", "2.5M"]
