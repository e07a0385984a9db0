"""The wheel and the sdist as they would be published, and the wheel alone in an empty environment."""

from __future__ import annotations

import importlib.metadata as metadata
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pamd.version import __version__

ROOT = Path(__file__).parents[1]
NEEDED = ("torch", "numpy", "pydantic")
"""What the plug-in requires."""

PREAMBLE = """
import torch
torch.manual_seed(0)
encode = torch.nn.Linear(24, 50)
obs, obs2, target = torch.randn(8, 24), torch.randn(8, 24), torch.rand(8)
"""
"""The names that the first block of the README takes for granted."""

PLUG_IN_ONLY = """
import importlib.util, sys
import pamd
assert pamd.__file__.startswith(sys.prefix), pamd.__file__
lab = [name for name in ("gymnasium", "mujoco", "safetensors", "rich") if importlib.util.find_spec(name)]
assert not lab, lab
print("alone", pamd.__version__)
"""

pytestmark = pytest.mark.slow


def run(*words: str | Path, fails: bool = False) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd="/", timeout=600)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel, built from the sdist as `python -m build` does, and the sdist."""
    pytest.importorskip("build", reason="pip install 'pamd[release]'")
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, sdist


def test_they_pass_the_check_of_the_index(distributions: tuple[Path, Path]) -> None:
    pytest.importorskip("twine", reason="pip install 'pamd[release]'")
    output = run(sys.executable, "-m", "twine", "check", "--strict", *distributions)
    assert output.count("PASSED") == 2


def test_the_wheel_has_the_package_with_its_data_and_nothing_else(distributions: tuple[Path, Path]) -> None:
    wheel, sdist = distributions
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
    source = {path.relative_to(ROOT / "src") for path in (ROOT / "src" / "pamd").rglob("*") if path.is_file()}
    wanted = {str(path) for path in source if "__pycache__" not in path.parts}
    assert {"pamd/py.typed", "pamd/report/page.html", "pamd/report/page.css", "pamd/published/table1.json"} <= wanted
    information = f"pamd-{__version__}.dist-info/"
    assert {name for name in names if not name.startswith(information)} == wanted
    assert f"{information}licenses/LICENSE" in names
    with tarfile.open(sdist) as archive:
        inside = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {"Makefile", "tools/system-packages.sh", "constraints.txt", "tests/test_distributions.py"} <= inside


def test_the_wheel_alone_runs_the_first_block_of_the_readme(distributions: tuple[Path, Path], tmp_path: Path) -> None:
    """In an empty environment that has links to torch, numpy, pydantic and what these require, and nothing else."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    link_packages(packages)
    # Without an index: pip finds every requirement of the wheel in place, or fails.
    pip = [sys.executable, "-m", "pip", "--python", python]
    run(*pip, "install", "--no-index", "--disable-pip-version-check", distributions[0])
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    script = tmp_path / "block.py"
    script.write_text(PREAMBLE + block[1] + PLUG_IN_ONLY)
    assert f"alone {__version__}" in run(python, "-I", script)
    message = run(python, "-I", "-m", "pamd", "train", "toy", fails=True)
    assert re.fullmatch(r"pamd: the command line requires more packages \(.*\): pip install 'pamd\[lab\]'\n", message)


def link_packages(target: Path) -> None:
    """Link what `NEEDED` consists of, so that a gigabyte need not be copied."""
    for distribution in closure(NEEDED):
        for top in {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
            if not (target / top).exists():
                (target / top).symlink_to(Path(str(distribution.locate_file(top))).resolve())


def closure(names: tuple[str, ...]) -> list[metadata.Distribution]:
    """The installed distributions of these names, and of all that they require here."""
    found: dict[str, metadata.Distribution] = {}
    open_names = list(names)
    while open_names:
        name = re.sub(r"[-_.]+", "-", open_names.pop()).lower()
        if name in found:
            continue
        found[name] = metadata.distribution(name)
        wanted = (Requirement(text) for text in found[name].requires or [])
        open_names += [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return list(found.values())
