"""The names of the package hold, whatever was imported before."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys

import pytest

import pamd


def test_every_public_name_is_there_and_no_module_hides_a_function() -> None:
    code = """
import importlib, pkgutil, types
import pamd
for module in pkgutil.walk_packages(pamd.__path__, "pamd."):
    if module.name == "pamd.__main__":
        continue
    try:
        importlib.import_module(module.name)
    except pamd.errors.ConfigError as error:  # an integration whose library is not installed
        assert module.name.startswith("pamd.integrations.") and "pip install" in str(error), error
for name in pamd.__all__:
    value = getattr(pamd, name)
    assert isinstance(value, types.ModuleType) == (name not in pamd._HOMES and name != "__version__"), name
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(pamd.__all__) <= set(dir(pamd))


def test_a_run_from_python(tmp_path) -> None:  # type: ignore[no-untyped-def]
    config = pamd.configure("toy", "dbc-det+pamd", scale="smoke", decisions=60, seed=2)
    run = pamd.train(config, tmp_path)
    assert pamd.resume(run) == run


def test_a_plug_in_author_finds_everything_in_the_package() -> None:
    """Every type that the signatures of the base classes name is there, and so is what a `Config` needs."""
    for part, method in ((pamd.Term, "loss"), (pamd.Operator, "_discrepancy"), (pamd.Distance, "_value")):
        words = re.findall(r"[A-Z]\w+", str(inspect.signature(getattr(part, method))))
        assert words
        assert all(hasattr(pamd, word) for word in words if word not in ("Any", "Tensor")), (part, words)
    for name in ("record", "NoOptions", "OperatorConfig", "Properties", "Batch", "BatchLatents", "schema", "errors"):
        assert name in pamd.__all__
    assert "pamd.BatchLatents" in (pamd.Term.__doc__ or "")


@pytest.mark.parametrize(
    ("module", "now"),
    [
        ("pamd.objective", "pamd.terms"),
        ("pamd.training.clock", "pamd.training.process"),
        ("pamd.report.load", "pamd.report.run"),
        ("pamd.report.forest", "studies.verdicts"),
    ],
)
def test_a_module_that_moved_names_its_new_place(module: str, now: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"{module} has moved: use {now}"):
        importlib.import_module(module)
    assert importlib.util.find_spec("pamd.nowhere") is None
