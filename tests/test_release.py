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


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_workflows_use_actions_by_commit_and_install_by_hash(workflow: Path) -> None:
    content = workflow.read_text()
    actions = re.findall(r"uses: (.*)", content)
    assert actions
    assert [one for one in actions if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", one)] == []
    for command in re.findall(r"run: (make (?:test|site).*|.*pip install.*)", content):
        assert "LOCK=.github/requirements-test.txt" in command or "--require-hashes" in command, command


def test_the_base_image_is_pinned_by_digest() -> None:
    assert re.search(r"^FROM python:3\.11-slim@sha256:[0-9a-f]{64}$", text("Dockerfile"), re.MULTILINE)


def test_the_lowest_versions_are_those_that_the_package_allows_and_the_workflow_tests_them() -> None:
    lowest = dict(re.findall(r"^([\w.-]+)==(\S+)$", text("constraints-lowest.txt"), re.MULTILINE))
    extras = PROJECT["optional-dependencies"]
    floors = dict(
        re.match(r"([\w.-]+)>=([\d.]+)", one).groups()
        for one in (*PROJECT["dependencies"], *extras["lab"], *extras["metaworld"])
        if ">=" in one
    )
    assert {"dm_control", "gymnasium", "metaworld", "mujoco"} <= lowest.keys()
    parts = {name: tuple(map(int, version.split("."))) for name, version in lowest.items()}
    allowed = {name: tuple(map(int, floors[name].split("."))) for name in lowest}
    assert {name: (*allowed[name], 0, 0)[:3] for name in lowest} == parts
    assert "run: make test-lowest " in text(".github/workflows/tests.yml")


@pytest.mark.parametrize("kind", ["test", "release"])
def test_locked_requirements_have_hashes_and_agree_with_the_constraints(kind: str) -> None:
    locked = {}
    for entry in text(f".github/requirements-{kind}.txt").replace("\\\n", "").splitlines():
        if entry.startswith("#"):
            continue
        match = re.fullmatch(
            r'([\w.-]+)==([\w.]+)( ; python_version <= "3\.\d+" )?( +--hash=sha256:[0-9a-f]{64})+', entry
        )
        assert match is not None, entry
        locked[match[1]] = match[2]
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", text("constraints.txt").lower().replace("_", "-"), re.MULTILINE))
    assert {name: version for name, version in locked.items() if pinned.get(name, version) != version} == {}
    extras = PROJECT["optional-dependencies"]
    groups = ("dev", "distractors", "exact", "lab", "sb3") if kind == "test" else ("release",)
    direct = {re.split(r"[<>=\[]", one)[0].lower().replace("_", "-") for group in groups for one in extras[group]}
    direct |= {re.split(r"[<>=]", one)[0].lower() for one in PROJECT["dependencies"]} if kind == "test" else set()
    if kind == "test":  # `make setup LOCK=...` builds the package without isolation.
        direct |= {"hatchling", "editables", "tomlkit"}
    assert direct - {"pamd", "torch"} <= locked.keys(), "run tools/lock.py"
