"""The choice of the OpenGL backend. It must be made before MuJoCo is imported, because MuJoCo reads it on import."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import os
import subprocess
import sys
from typing import Any, NamedTuple

from pamd.errors import RenderError, TaskError, install_command

BACKENDS = ("egl", "osmesa", "glfw")
_OFFSCREEN = ("egl", "osmesa")

# This runs in a separate process, because a failing backend may crash and a process cannot change its backend.
_PROBE = """
import sys
import mujoco
model = mujoco.MjModel.from_xml_string(
    '<mujoco><worldbody><light pos="0 0 3"/><geom size="1"/><camera pos="0 0 4"/></worldbody></mujoco>')
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
with mujoco.Renderer(model, 16, 16) as renderer:
    renderer.update_scene(data, 0)
    if not renderer.render().any():
        sys.exit('the rendered picture is black')
    try:
        from OpenGL import GL
        driver = GL.glGetString(GL.GL_RENDERER).decode()
    except Exception:
        driver = 'driver unknown'
sys.stdout.write(driver)
"""


class Backend(NamedTuple):
    """The result of `probe_backends` for one backend."""

    name: str
    ok: bool
    detail: str
    """The driver, or the reason for the failure."""


def choose_backend() -> str:
    """Set MUJOCO_GL and PYOPENGL_PLATFORM for this process and its children.

    Returns the name of the backend, or "" for MuJoCo's default.

    Variables that the user has set are kept. On Linux without a display, the default is EGL, or OSMesa if only that is
    installed. If MuJoCo has been imported, it has made its choice, and the variables stay as they are.
    """
    chosen = os.environ.get("MUJOCO_GL", "").strip().lower()
    without_display = sys.platform.startswith("linux") and not os.environ.get("DISPLAY")
    if not chosen and without_display and "mujoco" not in sys.modules:
        wanted = os.environ.get("PYOPENGL_PLATFORM", "").strip().lower()
        chosen = wanted if wanted in _OFFSCREEN else _offscreen()
        os.environ["MUJOCO_GL"] = chosen
    if chosen in _OFFSCREEN and not os.environ.get("PYOPENGL_PLATFORM"):
        os.environ["PYOPENGL_PLATFORM"] = chosen
    return chosen


def import_simulator(module: str) -> Any:
    """Import `module` (mujoco, dm_control.suite, ...) after choosing the backend."""
    choose_backend()
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module.partition(".")[0]:
            raise TaskError(not_installed(error)) from None
        raise RenderError(no_backend(error)) from error
    except Exception as error:  # A missing GL library raises many types of errors.
        raise RenderError(no_backend(error)) from error


def not_installed(error: ModuleNotFoundError) -> str:
    """Return the message for a package that environments require."""
    package = (error.name or str(error)).partition(".")[0]
    return f"{package} is not installed: {install_command('lab')}, or {package} itself"


def no_backend(error: BaseException) -> str:
    """Return the message for a RenderError: the attempted backend, the error and how to fix it."""
    tried = os.environ.get("MUJOCO_GL") or "MuJoCo's own choice (MUJOCO_GL was not set when mujoco was imported)"
    platform = os.environ.get("PYOPENGL_PLATFORM")
    with_platform = f", PYOPENGL_PLATFORM={platform}" if platform else ""
    reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    return (
        f"cannot render with OpenGL. Tried: {tried}{with_platform}. The last error was: {reason}."
        " To fix it: without a display, install libegl1 and libgl1 (Debian: apt-get install libegl1 libgl1) and leave"
        " MUJOCO_GL unset or set it to egl; or install libosmesa6 and set MUJOCO_GL=osmesa; with a display,"
        " MUJOCO_GL=glfw. Set it before mujoco or dm_control is imported, and leave PYOPENGL_PLATFORM unset."
        " `pamd doctor` tries each. The task `toy` needs no OpenGL."
    )


def probe_backends(timeout: float = 60.0) -> list[Backend]:
    """Try every backend in a separate process, for at most `timeout` seconds each."""
    return [_probe(name, timeout) for name in BACKENDS]


def _probe(name: str, timeout: float) -> Backend:
    environment = {key: value for key, value in os.environ.items() if key != "PYOPENGL_PLATFORM"}
    environment["MUJOCO_GL"] = name
    if name in _OFFSCREEN:
        environment["PYOPENGL_PLATFORM"] = name
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE],
            env=environment,
            timeout=timeout,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Backend(name, False, f"no response within {timeout:g} s")
    if done.returncode == 0:
        return Backend(name, True, done.stdout.strip())
    errors = [line for line in done.stderr.splitlines() if line.strip()]
    return Backend(name, False, errors[-1].strip() if errors else f"ended with exit code {done.returncode}")


def _offscreen() -> str:
    try:
        ctypes.CDLL("libEGL.so.1")
    except OSError:
        return "osmesa" if ctypes.util.find_library("OSMesa") else "egl"
    return "egl"
