"""The report page of real runs, written by the command."""

from __future__ import annotations

import errno
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from tests.report.runs import DEMO, PAMD, PLAIN, write_run
from tests.training.runs import toy

from pamd import atomic_io, published
from pamd.cli.main import main
from pamd.errors import ResourceError, RunError
from pamd.report import page
from pamd.report.figures import color
from pamd.report.sections import SECTIONS, Content, add, videos
from pamd.training import Runtime
from pamd.training import train as train_run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run with a video, and another seed of it."""
    root = tmp_path_factory.mktemp("trained")
    runtime = Runtime(device="cpu", threads=1, video="last", tensorboard=False)
    for seed in (0, 1):
        train_run(toy(seed=seed, runtime=runtime), root)
    return root


def data(path: Path) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    return json.loads(text)


def test_a_real_run_s_page_has_its_video_config_and_wall_time(trained: Path, tmp_path: Path) -> None:
    written = page.build([trained], tmp_path / "out", title="Two seeds & <a toy>")
    text = written.read_text()
    assert "<title>Two seeds &amp; &lt;a toy&gt;</title>" in text
    assert text.count("data:video/mp4;base64,") == 2
    (panel,) = data(written)["panels"]
    (series,) = panel["series"]
    assert [point[0] for point in series["points"]] == [0, 30, 60]
    assert [point[6] for point in series["points"]] == [2, 2, 2]
    assert series["points"][-1][3] > 0  # minutes
    for run in trained.iterdir():
        assert (tmp_path / "out" / "configs" / f"{run.name}.json").read_bytes() == (run / "config.json").read_bytes()
        assert f"pamd train --config configs/{run.name}.json" in text
    assert text.count("This config and the logs are confirmed by checkpoint 000000060.") == 2


def test_the_command_on_the_page_repeats_the_run(trained: Path, tmp_path: Path) -> None:
    page.build([trained], tmp_path)
    run = next(trained.iterdir())
    words = ["train", "--config", str(tmp_path / "configs" / f"{run.name}.json"), "--runs", str(tmp_path / "again")]
    assert main(words) == 0
    assert (tmp_path / "again" / run.name / "eval.jsonl").read_bytes() == (run / "eval.jsonl").read_bytes()


def test_figures_and_tables_are_files_too(tmp_path: Path) -> None:
    page.build([DEMO], tmp_path, published=published.load("table1"))
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    tables = (
        "summary",
        "returns-cpu",
        "paper",
        "paper-comparison",
        "aggregates-cpu",
        "improvement-cpu",
        "differences-cpu",
    )
    for table in tables:
        assert {f"tables/{table}.csv", f"tables/{table}.tex"} <= names
    assert {"figures/learning-curves.svg", "figures/learning-curves.png"} <= names
    assert not any("profiles" in name for name in names), "a single run has no profile"


def test_several_runs_have_a_performance_profile(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run(tmp_path / "runs", "dbc-det", seed)
    page.build([tmp_path / "runs"], tmp_path / "out")
    assert (tmp_path / "out/figures/profiles-cpu.svg").is_file()


def test_the_page_needs_no_network(tmp_path: Path) -> None:
    text = page.build([DEMO], tmp_path).read_text()
    addresses = re.findall(r"""(?:src|href)=["']?([^"'> ]+)""", text)
    assert len(addresses) > 4
    files = {address for address in addresses if not address.startswith(("data:", "#"))}
    assert len(files) == 4  # the configs of the two runs, the table of runs and that of evaluations
    assert all((tmp_path / unquote(address)).is_file() for address in files)
    assert set(re.findall(r"https?://[\w./-]*", text)) <= {"http://www.w3.org/2000/svg"}


def test_the_same_runs_give_the_same_page(tmp_path: Path) -> None:
    one, other = page.build([DEMO], tmp_path / "a"), page.build([DEMO], tmp_path / "b")
    assert data(one) == data(other)
    assert (tmp_path / "a/tables/summary.csv").read_bytes() == (tmp_path / "b/tables/summary.csv").read_bytes()


def test_unfinished_missing_and_half_written_are_on_the_page(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path / "runs", "dbc-det+pamd", seed)
    unfinished = write_run(tmp_path / "runs", seed=0, values=[0.0, 9.0])
    (unfinished / "status.json").write_text('{"state": "failed"}')
    with (unfinished / "eval.jsonl").open("a") as file:
        file.write('{"dec')
    text = page.build([tmp_path / "runs"], tmp_path / "out").read_text()
    assert "seed 0 failed at 1,000 of 2,000 decisions; seed 1 missing" in text
    assert "eval.jsonl: the last line is incomplete and was dropped" in text
    assert "No two methods finished in one setting" in text


def test_one_seed_says_nothing_and_the_page_says_so(trained: Path, tmp_path: Path) -> None:
    words = "nothing here shows which is better"
    assert words in page.build([DEMO], tmp_path / "one").read_text()
    assert words not in page.build([trained], tmp_path / "two").read_text()


def test_a_second_report_leaves_nothing_of_the_first_beside_it(tmp_path: Path) -> None:
    first, second = (write_run(tmp_path / name, seed=seed) for name, seed in (("one", 0), ("two", 1)))
    out = tmp_path / "out"
    out.mkdir()
    (out / "figures").mkdir()
    (out / "figures" / "mine.png").touch()  # before the first report: not a report's
    page.build([first], out)
    assert (out / "figures" / "mine.png").is_file()
    (out / "tables" / "differences-paper.csv").touch()
    page.build([second], out)
    assert [path.stem for path in (out / "configs").iterdir()] == [second.name]
    assert not (out / "tables" / "differences-paper.csv").exists()


@pytest.mark.parametrize("full", ["figures", "index.html", "configs"])
def test_a_full_disk_keeps_the_earlier_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str) -> None:
    out = tmp_path / "out"
    page.build([write_run(tmp_path / "a", name="first", seed=1)], out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    plain, text = atomic_io.open_regular, Path.write_text

    def check_space(path: str | Path) -> None:
        if full in str(path):
            raise OSError(errno.ENOSPC, "No space left on device")

    def open_regular(path: str | Path, *arguments: Any, **options: Any) -> int:
        check_space(path)
        return plain(path, *arguments, **options)

    def write_text(path: Path, *arguments: Any, **options: Any) -> int:
        check_space(path)
        return text(path, *arguments, **options)

    monkeypatch.setattr(atomic_io, "open_regular", open_regular)
    monkeypatch.setattr(Path, "write_text", write_text)
    with pytest.raises(ResourceError, match=r"cannot write the report .* No space left on device"):
        page.build([write_run(tmp_path / "b", name="second", seed=2)], out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert not list(out.glob(".*"))


def test_a_run_without_any_evaluation_is_on_the_page(tmp_path: Path) -> None:
    run = write_run(tmp_path / "runs")
    (run / "eval.jsonl").unlink()
    text = page.build([tmp_path / "runs"], tmp_path / "out").read_text()
    assert "seed 0 unfinished at 0 of 2,000 decisions" in text


def test_diagnostics_are_shown_as_they_were_written(tmp_path: Path) -> None:
    from pamd.report import learning_curves, load_run

    run = write_run(tmp_path / "runs")
    place = run / "diagnostics" / "geometry"
    learning_curves([load_run(run).curve], place / "spectrum")
    section = {
        "title": "Geometry of <G>",
        "paragraphs": ["d = 50 & more"],
        "tables": [{"title": "Over pairs", "columns": ["quantity", "median"], "rows": [["rank", "3.2"]]}],
        "figures": [{"file": "spectrum", "caption": "Eigenvalues"}],
    }
    (place / "section.json").write_text(json.dumps(section))
    text = page.build([tmp_path / "runs"], tmp_path / "out").read_text()
    for shown in (
        "Geometry of &lt;G&gt;",
        "d = 50 &amp; more",
        "<td class=name>3.2</td>",
        'alt="Eigenvalues" src="data:image/',
    ):
        assert shown in text
    (place / "spectrum.svg").unlink()
    (place / "spectrum.png").unlink()
    for damage, says in ((None, "has no figure &#x27;spectrum&#x27;"), ('{"title": ', "has no readable section")):
        if damage:
            (place / "section.json").write_text(damage)
        text = page.build([tmp_path / "runs"], tmp_path / "out").read_text()
        assert re.search(f"{run.name}: diagnostics/geometry cannot be shown: .*geometry {says}", text)
        assert "Eigenvalues" not in text


def test_a_large_video_is_linked(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(videos, "VIDEO_BYTES", 10)
    text = page.build([trained], tmp_path / "out").read_text()
    assert "data:video" not in text
    links = re.findall(r'href="([^"#]+\.mp4)"', text)
    assert len(links) == 2
    for link in links:
        assert (tmp_path / "out" / link.replace("%2B", "+")).is_file()


def test_columns_named_by_hand(tmp_path: Path) -> None:
    written = page.build([DEMO], tmp_path, groups={"the norm": [PLAIN], "the matrix": [PAMD]})
    assert [method["label"] for method in data(written)["methods"]] == ["the matrix", "the norm"]
    with pytest.raises(RunError, match="would mix"):
        page.build([DEMO], tmp_path, groups={"both": [PLAIN, PAMD]})


def test_the_command_line_without_torch(tmp_path: Path) -> None:
    words = ["report", str(DEMO), "--out", str(tmp_path), "--paper", "table1", "table-reference", "--title", "T"]
    code = f"import sys; from pamd.cli.main import main; assert main({words!r}) == 0; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "index.html")
    assert "350 ± 60" in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([str(DEMO), "--paper", "tabel1"], "Did you mean 'table1'"),
        ([], "report: RUN is required"),
        (["nowhere"], "nowhere does not exist"),
        ([str(Path(__file__).parents[2] / "studies" / "screening")], "contains none"),
        ([str(DEMO), "--out", "/dev/null/x"], "--out /dev/null/x must be a directory, but /dev/null is a file"),
    ],
)
def test_bad_words_get_one_clear_line(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", *words]) == 2
    message = capsys.readouterr().err
    assert says in message
    assert message.startswith("pamd: ")
    assert not (tmp_path / "report").exists()


def test_a_method_has_its_color_whatever_its_variant(tmp_path: Path) -> None:
    for variant in range(6):
        write_run(tmp_path / "runs", "simsr+pamd", 0, method__latent_dim=10 + variant)
    write_run(tmp_path / "runs", "dbc-det")
    found = data(page.build([tmp_path / "runs"], tmp_path / "out"))["methods"]
    looks = {method["label"]: (method["color"], method["dashes"]) for method in found}
    assert len(set(looks.values())) == 7
    assert looks["dbc-det"] == (color("dbc-det"), "")
    assert looks["simsr+pamd (method.latent_dim=10)"] == (color("simsr+pamd"), "")
    assert looks["simsr+pamd (method.latent_dim=11)"][0] == color("simsr+pamd")


def test_the_script_reads_only_what_the_page_has(tmp_path: Path) -> None:
    text = page.build([DEMO], tmp_path).read_text()
    methods = data(tmp_path / "index.html")["methods"]
    assert set(re.findall(r"\bmethod\.(\w+)", text)) <= set(methods[0])


def test_a_section_of_another_distribution_appears_on_the_page(tmp_path: Path) -> None:
    @add(45, "Own numbers")
    def own(content: Content) -> str:
        return f"<p>{len(content.comparison.runs)} runs in my section</p>"

    try:
        text = page.build([DEMO], tmp_path / "out").read_text()
    finally:
        SECTIONS.unregister("own")
    assert '<a href="#own">Own numbers</a>' in text
    assert "2 runs in my section" in text
    assert text.index('id="statistics"') < text.index('id="own"') < text.index('id="runs"')
