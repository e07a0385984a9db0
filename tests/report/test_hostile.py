"""Hostile names cannot inject markup into the page, and files stay in their directory."""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.report.runs import write_run

from pamd.report import comparison, page
from pamd.report.markup import file_name
from pamd.runs.files import printable
from pamd.table import Table

NAMES = [
    "=cmd|' /C calc'!A0\"><script>alert(1)</script><img src=x onerror=alert(1)></style></title><!--",
    "../../../up",
    "_$\\frac{ $ \\input{/etc/passwd} % nul\0 escape\x1b[31m surrogate\ud800\n",
]
TAGS = {
    *("html", "head", "meta", "title", "link", "style", "body", "header", "h1", "h2", "h3", "p", "nav", "a", "main"),
    *("section", "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "label", "input", "fieldset", "legend"),
    *("figure", "img", "figcaption", "video", "details", "summary", "pre", "code", "script", "noscript", "strong"),
    *("ul", "li", "dl", "dt", "dd", "h4", "button"),
}


class Reader(HTMLParser):
    """The elements of a page, and the text of its styles and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.tags[-1][0] if self.tags else "", []).append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    return reader


@pytest.fixture(scope="module", params=["few", "many"])
def written(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Every name at every place of a run that a page shows, one by one and as on a page on many runs."""
    root = tmp_path_factory.mktemp("hostile")
    for index, name in enumerate(NAMES):
        changes = {"env__task": name, "method__fidelity": name, "env__distractor": {"name": name, "source": name}}
        directory = "run " + re.sub("[\0/\ud800]", "-", name)
        run = write_run(root / "runs", name, index, name=directory, scale=name, learner__name=name, **changes)
        (run / "status.json").write_text(json.dumps({"state": name}))
        (run / "video").mkdir()
        (run / "video" / f"{directory}.mp4").write_bytes(b"video")
        figures = [{"file": "figure", "caption": name}]
        table = {"title": name, "columns": [name], "rows": [[name]], "notes": [name]}
        section = {"title": name, "paragraphs": [name], "tables": [table], "figures": figures}
        place = run / "diagnostics" / directory
        place.mkdir(parents=True)
        (place / "section.json").write_text(json.dumps(section))
        (place / "figure.png").write_bytes(b"picture")
        (root / "runs" / f"bad {directory}").mkdir()
        (root / "runs" / f"bad {directory}" / "config.json").write_text(json.dumps({"layout": name}))
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "many":
            patch.setattr(comparison, "_MANY", 1)
        return page.build([root / "runs"], root / "out", title=NAMES[0])


def test_no_name_becomes_markup(written: Path) -> None:
    found = read(written.read_text("utf-8"))
    assert {tag for tag, _ in found.tags} <= TAGS
    attributes = {name for _, attributes in found.tags for name in attributes}
    assert not [name for name in attributes if name.startswith("on") or name in ("style", "srcdoc")]
    sources = [value or "" for _, attributes in found.tags for key in ("src", "href") if (value := attributes.get(key))]
    files = [source for source in sources if not source.startswith(("data:", "#", "data/"))]
    assert len(files) == len(NAMES)
    assert all(re.fullmatch(r"configs/[\w.%-]+", file, re.ASCII) and ".." not in file for file in files)
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert [tag for tag, _ in found.tags].count("style") == 1
    (data,) = re.findall(r'id="data">(.*?)</script>', written.read_text("utf-8"))
    assert {panel["title"] for panel in json.loads(data)["panels"]} == {
        f"{printable(name)} + {printable(name)}, 2k decisions, {printable(name)} scale" for name in NAMES
    }


def test_every_name_is_on_the_page_as_text(written: Path) -> None:
    text = written.read_text("utf-8")
    for name in NAMES:
        shown = html.escape(printable(name))
        assert re.search(f"<td class=(text|name)>{re.escape(shown)}</td>", text)  # in a diagnostic's table
        assert f"<figcaption>{shown}</figcaption>" in text
        assert f"{html.escape(printable(repr(name)))}; this version reads layout" in text  # as an unreadable run
    assert not [character for character in text if not character.isprintable() and character != "\n"]


def test_the_page_obeys_its_own_policy(written: Path) -> None:
    found = read(written.read_text("utf-8"))
    (policy,) = (a["content"] for _, a in found.tags if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.split(" ", 1) for rule in (policy or "").split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == rules["media-src"] == "data:"
    assert "unsafe" not in (policy or "")
    for tag in ("style", "script"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", written.read_text("utf-8"), re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
    # The policy must come before what it governs.
    tags = [tag for tag, _ in found.tags]
    assert tags.index("style") > [a.get("http-equiv") for _, a in found.tags].index("Content-Security-Policy")


def test_files_are_written_below_the_page_alone(written: Path) -> None:
    out = written.parent
    assert {path.name for path in out.iterdir()} == {"index.html", "tables", "figures", "configs", "data"}
    assert {path.name for path in out.parent.iterdir()} == {"runs", "out"}
    for path in out.rglob("*"):
        assert re.fullmatch(r"[\w+.-]+", path.name, re.ASCII), path
    assert len(list((out / "configs").iterdir())) == len(NAMES)
    assert len(list((out / "tables").glob("returns-*.csv"))) == len(NAMES)


def test_no_cell_of_a_csv_file_is_a_formula(written: Path) -> None:
    paths = [*(written.parent / "tables").glob("*.csv"), *(written.parent / "data").glob("*.csv")]
    assert len(paths) > 4
    for path in paths:
        with path.open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        # A number may begin with a minus.
        assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t", "\r"))]
        assert not [cell for cell in cells if re.match(r"-(?![0-9.])", cell)]
    summary = (written.parent / "tables" / "summary.csv").read_text()
    assert "'=cmd|' /C calc'!A0" in summary


@pytest.mark.parametrize("start", "=+-@\t\r")
def test_text_that_begins_like_a_formula_is_quoted_and_numbers_are_not(start: str) -> None:
    rows = list(csv.reader(io.StringIO(Table("one", "One", [f"{start}a"], [[f"{start}b"], [-1.5]]).csv(), newline="")))
    assert rows == [[f"'{start}a" if start.strip() else "a"], ["'" + f"{start}b".replace("\r", "\n")], ["-1.5"]]


def test_latex_shows_commands_and_does_not_run_them(written: Path) -> None:
    text = (written.parent / "tables" / "summary.tex").read_text()
    assert r"\input" not in text
    assert r"\textbackslash{}input\{/etc/passwd\}" in text
    own = {"usepackage", "begin", "centering", "toprule", "midrule", "bottomrule", "end", "caption", "label", "pm"}
    escapes = {"textbackslash", "textasciitilde", "textasciicircum"}
    assert set(re.findall(r"\\([A-Za-z]+)", text)) <= own | escapes


def test_names_of_files_stay_apart_and_plain_names_stay_as_they_are() -> None:
    assert file_name("cheetah_run_dbc-det+pamd_s0_45054274") == "cheetah_run_dbc-det+pamd_s0_45054274"
    made = [file_name(name) for name in [*NAMES, "a/b", "a b", "a:b", ".a", "..", "", "a" * 300, "a" * 301]]
    assert len(set(made)) == len(made)
    assert all(re.fullmatch(r"[\w+-][\w+.-]{0,130}", name, re.ASCII) and ".." not in name for name in made)
