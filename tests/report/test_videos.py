"""Videos are side by side, with decisions and return in their captions."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import numpy as np
from tests.report.runs import write_run

from pamd.report.comparison import compare
from pamd.report.run import load_runs
from pamd.report.sections import Content
from pamd.report.sections.videos import videos


def with_video(run: Path, *names: str) -> Path:
    (run / "video").mkdir()
    for name in names:
        (run / "video" / name).write_bytes(b"video")
    return run


def shown(root: Path) -> str:
    return videos(Content(compare(load_runs([root])), (), root / "out", np.random.default_rng(0)))


def captions(text: str) -> list[str]:
    return [html.unescape(re.sub("<.*?>", "", one)) for one in re.findall("<figcaption>(.*?)</figcaption>", text)]


def test_the_caption_says_decisions_and_return_of_the_newest_video(tmp_path: Path) -> None:
    with_video(write_run(tmp_path, values=[0.0, 10.0, 20.0]), "000002000.mp4", "000001000.mp4")
    text = shown(tmp_path)
    assert captions(text) == [
        "dbc-det after 2,000 decisions: return 19.0; mean of 2 episodes 20.0 (config and command)"
    ]
    assert ".mp4" not in text
    assert "Play together" not in text  # there is one video


def test_unseen_returns_are_in_the_caption(tmp_path: Path) -> None:
    noise = {"name": "gaussian"}
    for seed, changes in enumerate(({"env__noise": noise}, {"env__distractor": {"name": "hard", "source": "video"}})):
        run = with_video(write_run(tmp_path, seed=seed, **changes), "000002000.mp4")
        rows = [json.loads(line) | {"unseen_returns": [3.0]} for line in (run / "eval.jsonl").read_text().splitlines()]
        (run / "eval.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gaussian, hard = captions(shown(tmp_path))
    assert "return 19.0, then 3.0 with unseen noise;" in gaussian
    assert "return 19.0, then 3.0 with unseen backgrounds;" in hard


def test_methods_of_one_seed_stand_in_one_row_and_further_seeds_are_folded(tmp_path: Path) -> None:
    for seed in range(3):
        for method in ("dbc-det+pamd", "dbc-det"):
            with_video(write_run(tmp_path, method, seed), "000002000.mp4")
    text = shown(tmp_path)
    rows = re.findall("<div class=together><h4>(Seed .)</h4>(.*?)</div></div>", text)
    assert [name for name, _ in rows] == ["Seed 0", "Seed 1", "Seed 2"]
    for _, row in rows:
        assert [caption.split()[0] for caption in captions(row)] == ["dbc-det", "dbc-det+pamd"]
        assert row.count("Play together") == 1
    assert text.index("Seed 0") < text.index("<details><summary>2 more seeds</summary>") < text.index("Seed 1")


def test_a_video_without_an_evaluation_is_named(tmp_path: Path) -> None:
    with_video(write_run(tmp_path), "000000777.mp4")
    assert captions(shown(tmp_path)) == ["dbc-det (000000777.mp4, not in the log of evaluations) (config and command)"]


def test_a_run_without_videos_has_no_section(tmp_path: Path) -> None:
    write_run(tmp_path)
    assert shown(tmp_path) == ""
