"""Version numbers and other duplicated release data agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from pamd.version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def text(name: str) -> str:
    return (ROOT / name).read_text()


def test_the_changelog_and_the_citation_have_this_version() -> None:
    headings = re.findall(r"^## (.*)$", text("CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    newest = re.fullmatch(rf"{re.escape(__version__)} - (\d{{4}}-\d\d-\d\d)", headings[1])
    assert newest is not None, headings[1]
    citation = text("CITATION.cff")
    assert f"\nversion: {__version__}\n" in citation
    assert f"\ndate-released: {newest[1]}\n" in citation


def test_every_supported_python_is_tested() -> None:
    supported = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    matrix = re.search(r"python: \[(.*)\]", text(".github/workflows/tests.yml"))
    assert matrix is not None
    assert matrix[1].replace('"', "").split(", ") == supported
    assert PROJECT["requires-python"] == f">={supported[0]}"


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_workflows_have_least_rights_a_time_limit_and_targets_that_exist(workflow: Path) -> None:
    content = workflow.read_text()
    assert "\npermissions:\n  contents: read\n" in content
    assert content.count("runs-on:") == content.count("timeout-minutes:")
    if workflow.name == "docs.yml" and "\nsite:" not in text("Makefile"):
        pytest.skip("this tree has no documentation site")
    for target in re.findall(r"run: make ([\w-]+)", content):
        assert re.search(rf"^{target}:", text("Makefile"), re.MULTILINE), target


def test_the_image_copies_what_it_installs_and_runs() -> None:
    kept = set(re.findall(r"^!(.*)$", text(".dockerignore"), re.MULTILINE))
    files = {"pyproject.toml", "constraints.txt", PROJECT["readme"], *PROJECT["license-files"]}
    assert files | {"src", "examples"} <= kept
    assert all((ROOT / name).exists() for name in kept)
    image = text("Dockerfile")
    demo = re.search(r'CMD \["python", "source/(.*)"\]', image)
    assert demo is not None
    assert (ROOT / demo[1]).is_file()
    libraries = set(re.findall(r"\.so\.1:(\w+)", text("tools/system-packages.sh")))
    assert libraries
    assert all(re.search(rf"\b{name}\b", image) for name in libraries)
