"""Which runs share a row, a column and a cell; curves on a common grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.report.runs import DEMO, write_run

from pamd.errors import RunError
from pamd.report.comparison import Comparison, compare, short
from pamd.report.figures import align, mean_curve
from pamd.report.run import load_run, load_runs


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
        ({"scale": "paper"}, "paper scale"),
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
            ["dbc-det (method.objective.pairing=all)", "dbc-det (method.objective.pairing=permutation)"],
        ),
        (
            {"learner__options__batch": 128},
            ["dbc-det (learner.batch=128)", "dbc-det (learner.batch=48)"],
        ),
        ({"learner__name": "drqv2"}, ["dbc-det", "drqv2:dbc-det"]),
        ({"encoder__name": "mlp"}, ["dbc-det (encoder.name=conv)", "dbc-det (encoder.name=mlp)"]),
        ({"schedule": "sequential"}, ["dbc-det (schedule=joint)", "dbc-det (schedule=sequential)"]),
        ({"isolate_metric": True}, ["dbc-det (isolate_metric=false)", "dbc-det (isolate_metric=true)"]),
        ({"precision": "bfloat16"}, ["dbc-det (precision=bfloat16)", "dbc-det (precision=float32)"]),
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


def test_what_does_not_change_the_method_splits_nothing(tmp_path: Path) -> None:
    write_run(tmp_path, seed=0)
    write_run(tmp_path, seed=1, pamd="9.9.9", runtime__threads=7, log_every=1, evaluate_episodes=4)
    (cell,) = compared(tmp_path).rows
    assert list(cell.scores) == [0, 1]


def test_many_differences_still_give_two_labels(tmp_path: Path) -> None:
    one = {f"learner__options__{key}": 7 for key in ("hidden", "gamma", "actor_every", "targets_every")}
    write_run(tmp_path, seed=0, **one)
    write_run(tmp_path, seed=0, **{**one, "learner__options__hidden": 8, "learner__options__gamma": 8})
    write_run(tmp_path, seed=0)
    labels = {column.label for column in compared(tmp_path).columns}
    assert len(labels) == 3
    assert all("and 1 more)" in label for label in labels)
    assert not any("variant" in label for label in labels)


def test_a_label_shows_the_field_that_differs_however_late_it_comes(tmp_path: Path) -> None:
    many = {f"learner__options__{key}": 7 for key in ("hidden", "batch", "actor_every", "targets_every")}
    write_run(tmp_path, seed=0)
    write_run(tmp_path, seed=0, **many)
    write_run(tmp_path, seed=0, **many, schedule="sequential")
    labels = {column.label for column in compared(tmp_path).columns}
    assert sum("schedule=sequential" in label for label in labels) == 1
    assert sum("schedule=joint" in label for label in labels) == 2


def test_a_changed_part_comes_first_and_without_its_options(tmp_path: Path) -> None:
    write_run(tmp_path, seed=0)
    write_run(tmp_path, seed=0, learner__options__hidden=7, encoder={"name": "mlp", "options": {"a": 1, "b": 2}})
    assert [column.label for column in compared(tmp_path).columns] == [
        "dbc-det (encoder.name=conv, learner.hidden=256)",
        "dbc-det (encoder.name=mlp, learner.hidden=7)",
    ]


def test_the_options_of_a_changed_part_are_shown_if_they_are_needed(tmp_path: Path) -> None:
    for seed, options in enumerate(({"a": 1}, {"a": 2})):
        write_run(tmp_path, seed=seed, encoder={"name": "mlp", "options": options})
    write_run(tmp_path, seed=2)
    labels = [column.label for column in compared(tmp_path).columns]
    assert labels[1:] == ["dbc-det (encoder.name=mlp, encoder.a=1)", "dbc-det (encoder.name=mlp, encoder.a=2)"]


def test_runs_have_the_label_that_they_were_given(tmp_path: Path) -> None:
    write_run(tmp_path, seed=0, runtime__label="mine")
    write_run(tmp_path, seed=1)  # the same computation, started without the label
    write_run(tmp_path, seed=0, learner__options__batch=7, runtime__label="other")
    found = compared(tmp_path)
    assert [column.label for column in found.columns] == ["mine", "other"]
    assert {column.method for column in found.columns} == {"dbc-det"}
    assert [len(cell.runs) for cell in found.rows] == [2, 1]


def test_one_label_for_two_computations_shows_what_differs(tmp_path: Path) -> None:
    write_run(tmp_path, seed=0, runtime__label="mine")
    write_run(tmp_path, seed=0, learner__options__batch=7, runtime__label="mine")
    labels = [column.label for column in compared(tmp_path).columns]
    assert labels == ["mine (learner.batch=48)", "mine (learner.batch=7)"]


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
    assert pamd.not_counted == []
    assert plain.not_counted == ["seed 1 unfinished at 1,000 of 2,000 decisions", "seed 2 missing"]
    assert plain.scores == {0: 20.0}
    assert (plain.mean.n, plain.planned) == (1, 3)


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


def test_a_scale_is_not_spelled_out_in_the_label(tmp_path: Path) -> None:
    write_run(tmp_path, "dbc-det", learner__options__batch=64, scale="cpu")
    write_run(tmp_path, "dbc-det", learner__options__batch=128, scale="smoke")
    assert {column.label for column in compared(tmp_path).columns} == {"dbc-det"}
