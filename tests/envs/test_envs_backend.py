"""The choice of an OpenGL backend, and the error if none works."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pamd.envs import backend
from pamd.envs.backend import choose_backend, import_simulator, probe_backends
from pamd.errors import RenderError, TaskError, install_command


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment where nobody has chosen anything, restored afterwards."""
    for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM", "DISPLAY"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(backend, "_offscreen", lambda: "egl")
    monkeypatch.delitem(sys.modules, "mujoco", raising=False)
    return monkeypatch


def test_without_a_display_it_is_egl(bare: pytest.MonkeyPatch) -> None:
    assert choose_backend() == "egl"
    assert (os.environ["MUJOCO_GL"], os.environ["PYOPENGL_PLATFORM"]) == ("egl", "egl")


def test_after_mujoco_was_imported_nothing_claims_another_choice(bare: pytest.MonkeyPatch) -> None:
    bare.setitem(sys.modules, "mujoco", None)  # type: ignore[arg-type]
    assert choose_backend() == ""
    assert "was not set when mujoco was imported" in backend.no_backend(RuntimeError("no display"))


def test_with_a_display_or_elsewhere_mujoco_chooses(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("DISPLAY", ":0")
    assert choose_backend() == ""
    bare.delenv("DISPLAY")
    bare.setattr(sys, "platform", "darwin")
    assert choose_backend() == ""
    assert "MUJOCO_GL" not in os.environ


@pytest.mark.parametrize("variable", ["MUJOCO_GL", "PYOPENGL_PLATFORM"])
def test_what_the_user_has_set_stays(bare: pytest.MonkeyPatch, variable: str) -> None:
    bare.setenv(variable, "osmesa")
    assert choose_backend() == "osmesa"
    assert (os.environ["MUJOCO_GL"], os.environ["PYOPENGL_PLATFORM"]) == ("osmesa", "osmesa")


def test_glfw_leaves_pyopengl_alone(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("MUJOCO_GL", "glfw")
    assert choose_backend() == "glfw"
    assert "PYOPENGL_PLATFORM" not in os.environ


def test_osmesa_where_only_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr("ctypes.CDLL", missing)
    monkeypatch.setattr("ctypes.util.find_library", lambda name: "libOSMesa.so.8")
    assert backend._offscreen() == "osmesa"
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    assert backend._offscreen() == "egl"


def test_a_package_that_is_not_installed() -> None:
    with pytest.raises(TaskError, match=r"nowhere is not installed: pip install .*\[lab\]"):
        import_simulator("nowhere.at.all")


def test_an_import_that_fails_over_opengl(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(module: str) -> None:
        raise AttributeError("'NoneType' object has no attribute 'eglQueryString'")

    monkeypatch.setattr("importlib.import_module", broken)
    with pytest.raises(RenderError, match=r"Tried: .*eglQueryString.*libegl1.*MUJOCO_GL=osmesa"):
        import_simulator("mujoco")


def test_no_usable_back_end_is_a_render_error() -> None:
    code = """
import sys
from pamd.envs import make_env
from pamd.errors import RenderError
try:
    make_env("cheetah_run", size=16).reset()
except RenderError as error:
    sys.stdout.write(str(error))
"""
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "PYOPENGL_PLATFORM")}
    # GLFW needs a display, and there is none.
    environment["MUJOCO_GL"] = "glfw"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    for part in ("Tried: glfw", "libegl1", "libgl1", "libosmesa6", "MUJOCO_GL=osmesa"):
        assert part in done.stdout


def test_an_environment_that_is_never_closed_leaves_quietly() -> None:
    code = "from pamd.envs import make_env; env = make_env('point_mass_easy', size=16, render='fast'); env.reset()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "Error" not in done.stderr
    assert "Exception" not in done.stderr


def test_probe_tries_each() -> None:
    found = probe_backends(timeout=120)
    assert [one.name for one in found] == ["egl", "osmesa", "glfw"]
    assert any(one.ok for one in found), found
    assert all(one.detail for one in found)


def test_probe_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_PROBE", "import time; time.sleep(60)")
    monkeypatch.setattr(backend, "BACKENDS", ("egl",))
    assert probe_backends(timeout=0.2) == [("egl", False, "no response within 0.2 s")]


def test_without_the_simulators_an_environment_names_the_extra() -> None:
    code = (
        "import sys\nsys.modules['gymnasium'] = None\nimport pamd\n"
        "for task in ('toy', 'state:cheetah_run', 'gym:Any-v0'):\n"
        "    try:\n        pamd.make_env(task)\n"
        "    except pamd.errors.TaskError as error:\n        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count(f"gymnasium is not installed: {install_command('lab')}") == 3
