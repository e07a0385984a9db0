"""The EGL devices of this machine, and the choice of the one that MuJoCo renders on."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, NamedTuple

from pamd.envs.backend import choose_backend
from pamd.errors import ConfigError

VARIABLE = "MUJOCO_EGL_DEVICE_ID"
"""The variable that MuJoCo and dm_control read when they start EGL."""

_MOST = 64
_EXTENSIONS, _DRM_FILE, _CUDA_NUMBER = 0x3055, 0x3233, 0x323A
"""Names of EGL: EGL_EXTENSIONS, EGL_DRM_DEVICE_FILE_EXT and EGL_CUDA_DEVICE_NV."""


class EGLDevice(NamedTuple):
    """One EGL device. Its position in the list is the number that MuJoCo expects."""

    software: bool
    """Whether the CPU renders."""
    cuda: int | None
    """The number of its CUDA device, if the driver states it."""
    file: str | None
    """The device file, such as /dev/dri/card0."""

    @property
    def what(self) -> str:
        kind = (
            "software, on the CPU" if self.software else "GPU" if self.cuda is None else f"GPU, CUDA device {self.cuda}"
        )
        return f"{kind}, {self.file}" if self.file else kind


def egl_devices() -> list[EGLDevice]:
    """Ask the EGL library for its devices. Empty if there is no library or it cannot list them."""
    try:
        library = ctypes.CDLL("libEGL.so.1")
        library.eglGetProcAddress.restype = ctypes.c_void_p
        library.eglGetProcAddress.argtypes = [ctypes.c_char_p]
    except (OSError, AttributeError):
        return []
    list_devices = _function(
        library, "eglQueryDevicesEXT", ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int)
    )
    text = _function(library, "eglQueryDeviceStringEXT", ctypes.c_void_p, ctypes.c_int, result=ctypes.c_char_p)
    number = _function(
        library, "eglQueryDeviceAttribEXT", ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_ssize_t)
    )
    handles, count = (ctypes.c_void_p * _MOST)(), ctypes.c_int()
    if list_devices is None or text is None or not list_devices(_MOST, handles, ctypes.byref(count)):
        return []
    found = []
    for handle in handles[: count.value]:
        extensions = (text(handle, _EXTENSIONS) or b"").decode().split()
        file = text(handle, _DRM_FILE) if "EGL_EXT_device_drm" in extensions else None
        cuda = ctypes.c_ssize_t()
        has_cuda = number is not None and "EGL_NV_device_cuda" in extensions
        known = has_cuda and number(handle, _CUDA_NUMBER, ctypes.byref(cuda))
        found.append(
            EGLDevice("EGL_MESA_device_software" in extensions, cuda.value if known else None, file and file.decode())
        )
    return found


def choose_egl_device(number: int | None) -> None:
    """Render on EGL device `number`, in this process and its children. None keeps the choice of the environment.

    It does not change results. Call this before MuJoCo is imported.
    """
    if number is None:
        return
    backend = os.environ.get("MUJOCO_GL", "").strip().lower() or "egl"
    if backend != "egl":
        raise ConfigError(f"--egl-device {number} requires MUJOCO_GL=egl, got MUJOCO_GL={backend}: omit one of them")
    devices = egl_devices()
    if not 0 <= number < len(devices):
        there = f"from 0 to {len(devices) - 1}" if len(devices) > 1 else "0" if devices else "omitted: there is none"
        raise ConfigError(f"--egl-device must be {there}, got {number}; `pamd doctor` lists the devices")
    if "mujoco" in sys.modules and os.environ.get(VARIABLE) != str(number):
        raise ConfigError(
            f"--egl-device {number} comes too late, because mujoco is imported; set {VARIABLE} before that"
        )
    os.environ[VARIABLE], os.environ["MUJOCO_GL"] = str(number), backend
    choose_backend()


def _function(library: Any, name: str, *arguments: Any, result: Any = ctypes.c_uint) -> Any:
    """Return a function of an EGL extension, or None if the library does not have it."""
    address = library.eglGetProcAddress(name.encode())
    return ctypes.CFUNCTYPE(result, *arguments)(address) if address else None
