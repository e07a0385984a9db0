"""Fuzzing of config files, trees, settings and options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from tests.reliability.inputs import JSON, SCALARS, changed_trees, damaged, places
from tests.reliability.runner import amounts, feed
from tests.training.runs import toy

from pamd.configuration import configure
from pamd.settings import override
from pamd.training.config import config_text, parse_config, prepare, read_config, run_name

pytestmark = pytest.mark.reliability

TEXT = config_text(toy())
TREE = json.loads(TEXT)


@amounts
def test_trees(amount: int) -> None:
    def target(tree: Any) -> None:
        config = parse_config(tree, "the config")
        assert parse_config(json.loads(config_text(config)), "it") == config
        run_name(config)

    outcome = feed(target, changed_trees(TREE), amount)
    assert outcome["refused"] > outcome["accepted"] > 0


@amounts
def test_files(amount: int, tmp_path: Path) -> None:
    def target(data: bytes) -> None:
        (tmp_path / "config.json").write_bytes(data)
        read_config(tmp_path / "config.json")

    outcome = feed(target, damaged(TEXT.encode()), amount)
    assert outcome["refused"] > outcome["accepted"]


def _words() -> st.SearchStrategy[str]:
    """KEY=VALUE: a real key or one like it, and any value."""
    known = [".".join(map(str, path)) for path in places(TREE)]
    short = [key.replace(".options", "") for key in known]
    keys = st.one_of(st.sampled_from(known), st.sampled_from(short), st.text(max_size=12))
    values = st.one_of(
        st.sampled_from(("1", "2", "0.5", "true", "all", "pamd", "drqv2", "[" * 100_000, "9" * 6000)),
        JSON.map(json.dumps),
        st.text(max_size=6),
    )
    return st.tuples(keys, st.sampled_from(("=", "=", "=", "==", "")), values).map("".join)


@amounts
def test_settings(amount: int) -> None:
    base = toy()
    outcome = feed(lambda words: override(base, words), st.lists(_words(), min_size=1, max_size=2), amount)
    assert outcome["refused"] > outcome["accepted"] > 0


OPTIONS = {
    "learner": "sac", "fidelity": "paper", "scale": "smoke", "seed": 1, "decisions": 100, "schedule": "joint",
    "isolate_metric": True, "gamma": 0.9, "precision": "float32", "action_repeat": 2, "time_limit": 50, "camera": 0,
    "render": "fast", "distractor": "noise", "videos": "somewhere", "capacity": 500, "storage": "mmap",
    "evaluate_every": 10, "evaluate_episodes": 1, "checkpoint_every": 10, "log_every": 5,
}  # fmt: skip
ODD_OBJECTS = (b"bytes", object(), 1j, {1, 2}, int, Path("x"))


def _options() -> st.SearchStrategy[dict[str, Any]]:
    wrong = st.one_of(SCALARS, JSON, st.sampled_from(ODD_OBJECTS))
    given = {name: st.one_of(st.just(value), wrong) for name, value in OPTIONS.items()}
    names = {
        "task": st.one_of(st.just("toy"), st.sampled_from(("toi", "gym:", "gym:Nothing-v0", ":")), wrong),
        "method": st.one_of(st.just("simsr+pamd"), st.sampled_from(("+", ":", "sac:", "mico+", "none+pamd")), wrong),
        "settings": st.lists(_words(), max_size=1),
    }
    usual = {"task": "toy", "scale": "smoke"}
    return st.fixed_dictionaries({}, optional={**given, **names}).map(
        lambda options: {**usual, **dict(list(options.items())[:4])}
    )


@amounts
def test_options(amount: int) -> None:
    outcome = feed(lambda options: prepare(configure(**options)), _options(), amount)
    assert outcome["refused"] > 0 < outcome["accepted"]
