"""One registry: sibling files, outside decorators and real entry points all end up in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pamd
from pamd.distances.base import NoOptions
from pamd.errors import ConfigError, PamdError, UnknownNameError
from pamd.registry import Registry

OUTSIDE = """
from pamd.distances.base import DISTANCES, Distance, NoOptions

class Farness(Distance[NoOptions]):
    Config = NoOptions

    def _measure(self, z, z_prime, penalised, generator):
        return (z - z_prime).abs().amax(-1), None
"""


def install(folder: Path, module: str, source: str, entry: str, group: str = "pamd.distances") -> None:
    """What pip leaves behind of a package with one module and one entry point."""
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")


def test_a_name_is_taken_once():
    registry = Registry("animal", "pamd.operators")
    registry.register("lion")("the first")
    with pytest.raises(ConfigError, match="animal 'lion' is registered already, by 'the first'"):
        registry.register("lion")("the second")
    assert registry.get("lion") == "the first"
    registry.unregister("lion")
    registry.register("lion")("the third")
    assert registry.get("lion") == "the third"


def test_unknown_name_gets_the_nearest_and_the_list():
    with pytest.raises(
        UnknownNameError, match=r"unknown distance 'pamdd'\. Did you mean 'pamd'\? Valid: .*l1, l2"
    ) as caught:
        pamd.distance("pamdd", latent_dim=2)
    assert isinstance(caught.value, PamdError)
    with pytest.raises(UnknownNameError) as caught:
        pamd.distance("xyzzy", latent_dim=2)
    assert "Did you mean" not in str(caught.value)


def test_names_are_sorted_and_complete():
    for registry in (pamd.DISTANCES, pamd.OPERATORS):
        assert registry.names() == sorted(registry.names())
    assert {"bisimulation", "bisimulation-det", "independent"} <= set(pamd.OPERATORS.names())
    assert {"coordinate", "cosine", "l1", "l2", "mico", "mlp", "pamd"} <= set(pamd.DISTANCES.names())


def test_sibling_files_register_themselves_when_asked_for(tmp_path, monkeypatch):
    package = tmp_path / "zoo_of_siblings"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from pamd.registry import Registry\nANIMALS = Registry('animal', 'zoo_of_siblings')\n"
    )
    (package / "lion.py").write_text("from zoo_of_siblings import ANIMALS\nANIMALS.register('lion')('roar')\n")
    monkeypatch.syspath_prepend(tmp_path)
    import zoo_of_siblings

    assert "zoo_of_siblings.lion" not in sys.modules  # no work at import
    assert zoo_of_siblings.ANIMALS.get("lion") == "roar"
    assert zoo_of_siblings.ANIMALS.names() == ["lion"]


def test_distance_from_outside_through_the_decorator():
    @pamd.DISTANCES.register("test-signed")
    class Signed(pamd.Distance[NoOptions]):
        Config = NoOptions

        def _measure(self, z, z_prime, penalised, generator):
            return (z - z_prime).sum(-1), None

    try:
        assert isinstance(pamd.distance("test-signed", latent_dim=2), Signed)
        assert "test-signed" in pamd.DISTANCES.names()
    finally:
        pamd.DISTANCES.unregister("test-signed")
    with pytest.raises(UnknownNameError):
        pamd.distance("test-signed", latent_dim=2)


def test_entry_point_that_names_the_thing(tmp_path, monkeypatch):
    install(tmp_path, "outside_thing", "ROAR = 'roar'", "lion = outside_thing:ROAR", group="pamd.operators")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("animal", "pamd.operators")  # a fresh one: nothing of the test stays in pamd's own
    assert registry.get("lion") == "roar"
    assert "lion" in registry.names()
    assert "lion" not in Registry("animal", "pamd.distances").names()  # another group's


def test_entry_point_does_not_displace_a_name_that_is_taken(tmp_path, monkeypatch):
    install(tmp_path, "outside_rival", "ROAR = 'roar'", "lion = outside_rival:ROAR", group="pamd.operators")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("animal", "pamd.operators")
    registry.register("lion")("ours")
    assert "lion" in registry.names()  # discovers what is installed
    assert registry.get("lion") == "ours"


@pytest.mark.parametrize(
    ("decorator", "thing"),
    [
        ("", "outside_farness:Farness"),
        ("@DISTANCES.register('farness')", "outside_farness"),  # the module, which registers what it holds
    ],
)
def test_installed_package_adds_a_distance(tmp_path, decorator, thing):
    source = OUTSIDE.replace("class Farness", f"{decorator}\nclass Farness")
    install(tmp_path, "outside_farness", source, f"farness = {thing}")
    program = (
        "import torch, pamd\n"
        "assert 'farness' in pamd.DISTANCES.names()\n"
        "d = pamd.distance('farness', latent_dim=2)\n"
        "assert d(torch.tensor([[0., 0.]]), torch.tensor([[3., -4.]])).tolist() == [4.0]\n"
    )
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    ran = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
