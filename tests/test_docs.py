"""Documentation that is written from the code stays written from the code, and links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_tables_of_reliability_are_those_of_the_results() -> None:
    assert script("reliability").page() == (ROOT / "docs" / "reliability.md").read_text()


def test_reference_is_up_to_date() -> None:
    build = script("build")
    written = (ROOT / "docs" / "reference.md").read_text()
    # A test of this run may have registered a distance of its own.
    lines = [line for line in build.reference().splitlines() if "outside-" not in line]
    assert lines == written.splitlines(), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    local = [t for t in re.findall(r"\]\(([^)#]+)\)", page.read_text()) if not t.startswith("http")]
    for target in local:
        assert (page.parent / target).exists(), target
    if local and (ROOT / ".git").exists():
        # An ignored file is here today and missing from every clone.
        ignored = subprocess.run(["git", "check-ignore", *local], cwd=page.parent, capture_output=True, text=True)
        assert ignored.stdout == ""


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
