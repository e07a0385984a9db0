"""One registry: sibling files, outside decorators and real entry points all end up in it."""

import dataclasses
import importlib
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import pamd
from pamd.augmentations import AUGMENTATIONS
from pamd.distances.base import NoOptions
from pamd.encoders import ENCODERS
from pamd.errors import ConfigError, PamdError, PluginWarning, UnknownNameError
from pamd.learners import LEARNERS
from pamd.registry import Registry

OUTSIDE = """
from pamd.distances.base import DISTANCES, Distance, NoOptions

class Farness(Distance[NoOptions]):
    Config = NoOptions

    def _value(self, z, z_prime):
        return (z - z_prime).abs().amax(-1)
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
    with pytest.raises(ConfigError, match="animal 'lion' is already registered by 'the first'"):
        registry.register("lion")("the second")
    assert registry.get("lion") == "the first"
    registry.unregister("lion")
    registry.register("lion")("the third")
    assert registry.get("lion") == "the third"


def define(module: str, name: str = "Lion") -> type:
    """A class as a notebook cell or a reloaded module would define it."""
    return type(name, (), {"__module__": module, "__qualname__": name})


def test_the_same_definition_may_register_again():
    registry = Registry("animal", "pamd.operators")
    first, again = define("notebook"), define("notebook")
    registry.register("lion")(first)
    registry.register("lion")(again)
    assert registry.get("lion") is again
    for other in (define("elsewhere"), define("notebook", "Tiger")):
        with pytest.raises(ConfigError, match="already registered"):
            registry.register("lion")(other)
    assert registry.get("lion") is again


def test_a_reloaded_module_registers_again(tmp_path, monkeypatch):
    (tmp_path / "reloaded_distance.py").write_text(
        OUTSIDE.replace("class Farness", "@DISTANCES.register('test-farness')\nclass Farness")
    )
    monkeypatch.syspath_prepend(tmp_path)
    import reloaded_distance

    first = pamd.DISTANCES.get("test-farness")
    try:
        importlib.reload(reloaded_distance)
        assert pamd.DISTANCES.get("test-farness") is reloaded_distance.Farness is not first
    finally:
        pamd.DISTANCES.unregister("test-farness")


BROKEN = {
    "missing": ("import a_module_that_is_not_there", "ModuleNotFoundError: No module named"),
    "failing": ("raise ValueError('no license')", "ValueError: no license"),
    "absent": ("", "AttributeError: .*has no attribute 'THING'"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_plug_in_is_named_in_one_warning_and_stops_nothing(kind, tmp_path, monkeypatch):
    source, error = BROKEN[kind]
    module = f"broken_{kind}"
    install(tmp_path, module, source, f"lion = {module}:THING", group="pamd.operators")
    install(tmp_path, f"sound_{kind}", "ROAR = 'roar'", f"tiger = sound_{kind}:ROAR", group="pamd.operators")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("animal", "pamd.operators")
    says = rf"'lion' \({module}:THING\) in group 'pamd.operators' of {module} 1\.0 could not be imported: {error}"
    with pytest.warns(PluginWarning, match=says) as caught:
        assert "tiger" in registry.names()
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        assert "lion" not in registry.names()
        with pytest.raises(UnknownNameError, match=rf"unknown animal 'lion'\..* The plug-in {says}"):
            registry.get("lion")


def test_a_built_in_name_imports_no_plug_in(tmp_path, monkeypatch):
    package = tmp_path / "zoo_with_plug_ins"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from pamd.registry import Registry\nANIMALS = Registry('animal', 'zoo_with_plug_ins')\n"
    )
    (package / "lion.py").write_text("from zoo_with_plug_ins import ANIMALS\nANIMALS.register('lion')('roar')\n")
    install(tmp_path, "zoo_plug_in", "ROAR = 'hiss'", "snake = zoo_plug_in:ROAR", group="zoo_with_plug_ins")
    monkeypatch.syspath_prepend(tmp_path)
    import zoo_with_plug_ins

    assert zoo_with_plug_ins.ANIMALS.get("lion") == "roar"
    assert "zoo_plug_in" not in sys.modules
    assert zoo_with_plug_ins.ANIMALS.get("snake") == "hiss"


def test_a_plug_in_may_look_up_names_while_it_is_imported(tmp_path, monkeypatch):
    source = "import pamd\nassert 'l2' in pamd.DISTANCES.names()\nROAR = 'roar'\n"
    install(tmp_path, "looking_up", source, "lion = looking_up:ROAR", group="pamd.operators")
    monkeypatch.syspath_prepend(tmp_path)
    assert Registry("animal", "pamd.operators").get("lion") == "roar"


def test_unknown_name_gets_the_nearest_and_the_list():
    with pytest.raises(
        UnknownNameError, match=r"unknown distance 'pamdd'\. Did you mean 'pamd'\? Valid: .*l1, .*l2"
    ) as caught:
        pamd.distance("pamdd", latent_dim=2)
    assert isinstance(caught.value, PamdError)
    with pytest.raises(UnknownNameError) as caught:
        pamd.distance("xyzzy", latent_dim=2)
    assert "Did you mean" not in str(caught.value)


def test_an_unknown_name_may_be_a_plug_ins_that_was_not_imported():
    with pytest.raises(UnknownNameError, match=r"l2, .* declare it in the entry-point group 'pamd\.distances'\.$"):
        pamd.distance("xyzzy", latent_dim=2)
    with pytest.raises(UnknownNameError) as caught:
        pamd.distance("pmad", latent_dim=2)
    assert "entry-point" not in str(caught.value)  # a misspelt name is likelier


def test_many_names_are_not_all_listed():
    many = [f"name-{i}" for i in range(40)]
    with pytest.raises(
        UnknownNameError, match=r"^unknown it 'name-7x'\. Did you mean 'name-7'\? Valid: name-7, .* and"
    ):
        raise UnknownNameError("it", "name-7x", many)
    assert str(UnknownNameError("it", "zzz", many)).count("name-") == 8
    assert str(UnknownNameError("it", "zzz", many, command="list it")) == "unknown it 'zzz'. `list it` prints all."
    assert str(UnknownNameError("it", "zzz", many[:2], command="list it")).endswith("Valid: name-0, name-1.")


def test_the_error_of_an_unknown_task_names_the_command_that_lists_them():
    with pytest.raises(
        UnknownNameError, match=r"'chetah_run'\. Did you mean 'cheetah_run'\? `pamd list tasks` prints all\.$"
    ):
        pamd.configure("chetah_run")


class Unfrozen:
    @dataclasses.dataclass
    class Config:
        width: int = 8


class Plain:
    class Config:
        width = 8


class Without:
    pass


@pytest.mark.parametrize(("thing", "got"), [(Without, "no Config"), (Unfrozen, "Config"), (Plain, "Config")])
def test_a_config_is_a_frozen_dataclass(thing, got):
    registry = Registry("animal", "pamd.operators", with_config=True)
    with pytest.raises(
        ConfigError, match=rf"animal 'lion': {thing.__name__} must have a frozen dataclass .* got {got}$"
    ):
        registry.register("lion")(thing)
    assert "lion" not in registry.names()
    for checked in (pamd.DISTANCES, pamd.OPERATORS, LEARNERS, ENCODERS, AUGMENTATIONS):
        with pytest.raises(ConfigError, match="frozen dataclass"):
            checked.register("lion")(thing)


@pytest.mark.parametrize("name", ["a+b", "drqv2:a", "", "a b", "a=b", "a/b", None])
def test_a_name_that_composed_names_cannot_hold(name):
    with pytest.raises(ConfigError, match=rf"animal must be named in letters.*, got {re.escape(repr(name))}"):
        Registry("animal", "pamd.operators").register(name)("roar")


def test_a_plug_in_without_a_config_is_named(tmp_path, monkeypatch):
    install(tmp_path, "bare_plug_in", "class Lion: pass", "lion = bare_plug_in:Lion", group="pamd.operators")
    monkeypatch.syspath_prepend(tmp_path)
    registry = Registry("animal", "pamd.operators", with_config=True)
    with pytest.warns(PluginWarning, match="Lion must have a frozen dataclass"), pytest.raises(UnknownNameError):
        registry.get("lion")


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

        def _value(self, z, z_prime):
            return (z - z_prime).sum(-1)

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
