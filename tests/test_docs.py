"""Generated documentation is up to date, and links are valid."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.scripts import load_script

from pamd.distances import DISTANCES
from pamd.methods import DEFAULT_METHOD

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "docs").rglob("*.ipynb")),
    *sorted((ROOT / "studies").rglob("*.md")),
]
TOP = {"benchmarks", "examples", "studies", "tests", "tools"}


GUIDES = [page for page in PAGES if page.name != "CHANGELOG.md"]


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_install_commands_need_no_release_and_pin_versions(page: Path) -> None:
    commands = re.findall(r"pip install [^`\n]*", text_of(page))
    assert [command for command in commands if "pamd[" in command] == []
    of_the_clone = [command for command in commands if " '.[" in command]
    assert [command for command in of_the_clone if "-c constraints" not in command] == []


def test_tables_of_reliability_are_those_of_the_results() -> None:
    assert load_script("tools/reliability.py").page() == (ROOT / "docs" / "reliability.md").read_text()


def test_reference_is_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    build = load_script("tools/reference.py")
    # A test of this run may have registered a distance of its own.
    ours = {name: DISTANCES.get(name) for name in DISTANCES.names() if not name.startswith("outside-")}
    monkeypatch.setattr(DISTANCES, "_entries", ours)
    assert build.reference() == (ROOT / "docs" / "reference.md").read_text(), "run `make docs`"
    family = (ROOT / "docs" / "family.md").read_text()
    assert build.family_page(family) == family, "run `make docs`"
    assert "not measured" not in family, "run `python -m benchmarks distances --threads 1 --json results/bench`"


def test_reference_of_the_command_line_is_up_to_date() -> None:
    assert load_script("tools/reference.py").command_line() == (ROOT / "docs" / "cli.md").read_text(), "run `make docs`"


def test_the_page_of_the_python_api_can_be_read_without_the_site() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    assert load_script("tools/reference.py").api() == page, "run `make docs`"
    assert ":::" not in page, "only mkdocs understands it"
    (line,) = (line for line in page.splitlines() if line.startswith("- [`pamd.distances.distance`]"))
    assert line.startswith(
        "- [`pamd.distances.distance`](../src/pamd/distances/__init__.py): Build the distance `name`"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    local = [t for t in re.findall(r"\]\(([^)#]+)\)", text_of(page)) if not t.startswith("http")]
    for target in local:
        assert (page.parent / target).exists(), target
    if local and (ROOT / ".git").exists():
        # An ignored file is here today and missing from every clone.
        ignored = subprocess.run(["git", "check-ignore", *local], cwd=page.parent, capture_output=True, text=True)
        assert ignored.stdout == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_of_links_are_headings(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text_of(page)):
        other = page.parent / target if target else page
        assert anchor in anchors(other.read_text()), f"{target}#{anchor}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name)
def test_source_files_that_a_page_names_exist(page: Path) -> None:
    """A file of this repository, named by its path from the root or inside the package: `training/process.py`."""
    folders = "|".join(sorted({path.name for path in (ROOT / "src" / "pamd").iterdir() if path.is_dir()} | TOP))
    for name in re.findall(rf"`((?:{folders})/[\w/]+\.py)`", text_of(page)):
        assert any((root / name).is_file() for root in (ROOT, ROOT / "src" / "pamd")), name


def text_of(page: Path) -> str:
    """The text of a page; of a notebook, that of its Markdown cells."""
    if page.suffix == ".md":
        return page.read_text()
    cells = json.loads(page.read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as mkdocs and GitHub make them."""
    outside_code = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", outside_code, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_a_wrong_anchor_is_noticed() -> None:
    assert anchors("# One\n## The replay\n```sh\n# no heading\n```\n") == {"one", "the-replay"}


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    pages += [f"tutorials/{notebook.stem}.md" for notebook in (ROOT / "docs" / "tutorials").glob("*.ipynb")]
    assert [page for page in pages if f" {page}\n" not in navigation] == []


def test_the_site_shows_a_pipe_in_a_table_without_its_backslash() -> None:
    pytest.importorskip("mkdocs", reason="pip install 'pamd[docs]'")
    html = load_script("tools/hooks.py").on_page_content(
        "<td><code>memory\\|mmap</code></td><p>a \\| b</p>", None, None, None
    )
    assert html == "<td><code>memory|mmap</code></td><p>a \\| b</p>"


def test_every_direct_dependency_is_pinned() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    names = {re.split(r"[\[<>=!~ ]", one)[0].lower().replace("-", "_") for one in wanted} - {"pamd"}
    pinned = {
        re.split(r"[<>=]", line)[0].lower().replace("-", "_")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    assert names <= pinned, f"not in constraints.txt: {sorted(names - pinned)}"


def test_the_readme_has_the_command_of_the_main_job_and_the_one_of_the_tests() -> None:
    block = re.search(r"## Install\n\n```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    lines = [line.partition("#")[0].strip() for line in block[1].splitlines()]
    assert {"make demo", "make test"} <= set(lines)
    assert all("cores" in line for line in block[1].splitlines() if line.startswith("make ")), "say how long it takes"
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "exec make test"
    rules = (ROOT / "Makefile").read_text()
    for target in ("demo: setup", "test: lint type", "lint: setup", "type: setup"):
        assert f"\n{target}\n" in rules, "each command does its own set-up"


MEASURED = {"evidence", "performance", "fidelity", "family", "reliability", "reference", "CHANGELOG"}
"""Pages about several methods, and pages with results of others."""
ADVISED = [page for page in PAGES if page.suffix == ".md" and "studies" not in page.parts and page.stem not in MEASURED]
NAMED = re.compile(r'(?:--method |Representation\(|with_metric\(\w+, |configure\("[^"]+", )"?([a-z-]+\+[a-z-]+)')


def test_pages_and_examples_use_the_default_method() -> None:
    others = {
        f"{path.name}: {name}"
        for path in [*ADVISED, *(ROOT / "examples").glob("*.py")]
        for name in NAMED.findall(path.read_text())
        if name != DEFAULT_METHOD
    }
    own = {f"distance.md: {DEFAULT_METHOD.partition('+')[0]}+{name}" for name in ("chebyshev", "weighted")}
    assert others <= {"getting-started.md: simsr+mlp", *own}, "of an example of --set, and the reader's own distances"
    assert f"`{DEFAULT_METHOD}`" in (ROOT / "README.md").read_text()
    assert f"`{DEFAULT_METHOD}`, the default of `pamd train`" in (ROOT / "docs" / "evidence.md").read_text()


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="pip install 'pamd[docs]'")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "files/studies/verdicts/plan.html").is_file(), "a page of a study that a page links to"
    assert "Build the distance" in (tmp_path / "api.html").read_text()
