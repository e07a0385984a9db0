"""Code in README and docs works: Python blocks run, commands and options of shell blocks exist."""

from __future__ import annotations

import contextlib
import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.scripts import load_script

import pamd
from pamd.cli import parser
from pamd.cli.main import COMMANDS
from pamd.diagnostics import DIAGNOSTICS
from pamd.envs import FAMILIES
from pamd.experiments.base import EXPERIMENTS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^(<!-- not run: (?P<reason>[^\n]+) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```", re.M | re.S)
LANGUAGES = {"python", "sh", "text", "toml"}
HEAVY = {"README.md", "sb3.md", "torchrl.md", "tianshou.md", "metric-learning.md", "distractors.md", "optuna.md"}
"""Pages that import other libraries or decode videos; `make test-slow` runs them."""


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    code: str
    reason: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, found.start("code")), found["language"], found["code"], found["reason"])
        for found in BLOCK.finditer(text)
    ]


ALL = [block for page in PAGES for block in blocks(page)]
WITH_PYTHON = sorted({block.page for block in ALL if block.language == "python"})
SHELL = [block for block in ALL if block.language == "sh" and block.reason is None]


def weighed(page: Path) -> Any:
    marks = [pytest.mark.slow] if page.name in HEAVY else []
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.fixture
def registries() -> Iterator[None]:
    """What a page registers is forgotten after it."""
    all_of_them = (pamd.DISTANCES, pamd.ENCODERS, pamd.OPERATORS, pamd.TERMS, FAMILIES, EXPERIMENTS, DIAGNOSTICS)
    before = [set(registry.names()) for registry in all_of_them]
    yield
    for registry, names in zip(all_of_them, before, strict=True):
        for name in set(registry.names()) - names:
            registry.unregister(name)


@pytest.mark.parametrize("page", [weighed(page) for page in WITH_PYTHON])
@pytest.mark.usefixtures("registries")
def test_python_blocks_run_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for library in ("stable_baselines3", "torchrl", "tianshou", "pytorch_metric_learning", "optuna"):
        if f"from {library}" in page.read_text() or f"import {library}" in page.read_text():
            pytest.importorskip(library)
    with contextlib.chdir(tmp_path):
        for block in blocks(page):
            if block.language == "python" and block.reason is None:
                # Blank lines in front, so that a traceback shows the line of the page.
                exec(compile("\n" * block.line + block.code, str(page), "exec", dont_inherit=True), names)


def test_every_block_has_a_language_and_few_are_not_run() -> None:
    unknown = [f"{block.page.name}:{block.line}" for block in ALL if block.language not in LANGUAGES]
    assert not unknown, f"blocks without a language: {unknown}"
    assert sum(block.reason is not None for block in ALL) <= 5


@pytest.mark.parametrize("block", SHELL, ids=lambda block: f"{block.page.name}:{block.line}")
def test_commands_and_options_of_a_shell_block_exist(block: Block) -> None:
    for words in commands(block.code):
        name, *rest = words
        assert name in COMMANDS, f"pamd {name}"
        module, attribute, _ = COMMANDS[name]
        function = getattr(importlib.import_module(module), attribute)
        if isinstance(function, dict):
            assert rest[0] in function, f"pamd {name} {rest[0]}"
            function = function[rest[0]]
        known = options(function)
        used = {word.split("=")[0] for word in rest if word.startswith("--")}
        assert used <= known, f"pamd {name} has no {sorted(used - known)}"


def commands(code: str) -> Iterator[list[str]]:
    """The words after `pamd` of every line that starts with it; comments and optional parts in [] are left out."""
    for line in code.replace("\\\n", " ").splitlines():
        bare = re.sub(r"\[[^\]]*\]", "", re.sub(r"\s#.*", "", line)).strip()
        if bare.startswith("pamd "):
            yield shlex.split(bare)[1:]


def options(function: Any) -> set[str]:
    return {"--help", *(option.flag for option in parser.options(function) if not option.positional)}


def test_a_command_with_a_wrong_option_is_noticed() -> None:
    block = Block(ROOT / "README.md", 1, "sh", "pamd train toy --bogus 1\n", None)
    with pytest.raises(AssertionError, match="bogus"):
        test_commands_and_options_of_a_shell_block_exist(block)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_run(notebook: Path) -> None:
    notebooks = load_script("tools/notebooks.py")
    stored = notebooks.code_cells(notebooks.json.loads(notebook.read_text()))
    rerun = notebooks.code_cells(notebooks.run(notebook))
    kinds = [[[output["output_type"] for output in cell["outputs"]] for cell in cells] for cells in (stored, rerun)]
    assert kinds[0] == kinds[1], "run `python tools/notebooks.py`"
