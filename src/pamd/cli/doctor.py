"""`pamd doctor`: check this machine and suggest fixes."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from pamd.atomic_io import check_directory
from pamd.errors import ResourceError, install_command

_Line = Callable[[bool, str, str], None]


def doctor(runs: Path = Path("runs"), egl_device: int | None = None) -> int:
    """Check rendering backends, torch, memory and disk.

    Args:
        runs: parent directory of the runs
        egl_device: number of the EGL device to check (default: MuJoCo's choice)
    """
    from pamd.envs import choose_egl_device

    choose_egl_device(egl_device)
    console = Console()

    def line(ok: bool, what: str, detail: str) -> None:
        console.print(f"[{'green' if ok else 'red'}]{'ok ' if ok else 'no '}[/] {what:<12} ", end="")
        console.print(detail, highlight=False, markup=False, soft_wrap=True)

    console.print(
        f"Python {platform.python_version()} on {platform.platform()}, {os.cpu_count()} cores", highlight=False
    )
    _torch(line)
    renders = _rendering(line, console)
    _memory(line)
    holds = _disk(line, runs)
    _distractors(line)
    return 0 if renders and holds else 1


def _torch(line: _Line) -> None:
    import torch

    on = f"CUDA {torch.version.cuda}" if torch.cuda.is_available() else "CPU"
    line(True, "torch", f"{torch.__version__}, {on}")
    for number in range(torch.cuda.device_count()):
        line(True, f"CUDA {number}", torch.cuda.get_device_name(number))


def _rendering(line: _Line, console: Console) -> bool:
    """Check whether training can render with the current settings."""
    from pamd.envs import probe_backends

    chosen = os.environ.get("MUJOCO_GL", "")
    if chosen in ("", "egl") and not _egl(line, console):
        return False
    backends = probe_backends()
    working = [backend.name for backend in backends if backend.ok]
    for backend in backends:
        if working and not backend.ok:
            console.print(f"    {backend.name:<12} not available, not needed", highlight=False)
        else:
            line(backend.ok, backend.name, backend.detail)
    if not working:
        how = "run apt-get install libegl1 libgl1 (EGL), or libosmesa6 (MUJOCO_GL=osmesa)"
        line(False, "rendering", f"no backend works; {how}")
        return False
    if chosen and chosen not in working:
        line(False, "MUJOCO_GL", f"is {chosen!r}: training will use it, and it does not work here; unset it")
        return False
    return True


def _egl(line: _Line, console: Console) -> bool:
    """List the EGL devices and check the chosen one."""
    import torch

    from pamd.envs import egl_devices
    from pamd.envs.egl import VARIABLE

    devices = egl_devices()
    if not devices:
        return True
    for number, device in enumerate(devices):
        line(True, f"EGL {number}", device.what)
    if torch.cuda.is_available() and all(device.software for device in devices):
        line(
            False, "EGL", "no GPU renders: the driver's EGL files are missing (Docker: NVIDIA_DRIVER_CAPABILITIES=all)"
        )
    how = f"--egl-device N or {VARIABLE}=N chooses the device that renders; CUDA_VISIBLE_DEVICES does not"
    console.print(f"    {'':<12} {how}", highlight=False, soft_wrap=True)
    chosen = os.environ.get(VARIABLE)
    known = [str(number) for number in range(len(devices))]
    if chosen is not None and chosen not in known:
        line(
            False, VARIABLE, f"is {chosen!r}, and the EGL devices are {', '.join(known)}: unset it, or set one of these"
        )
        return False
    return True


def _memory(line: _Line) -> None:
    from pamd.replay import available_memory

    memory = available_memory() / 1e9
    million = "a replay of 1M transitions at 84x84 takes 21.2 GB (mmap: disk)"
    line(memory > 4, "memory", f"{memory:.1f} GB available; {million}")


def _disk(line: _Line, runs: Path) -> bool:
    """Check whether runs can be written to `runs`. Low disk space is only reported; each run checks its own needs."""
    from pamd.replay import available_disk

    try:
        check_directory(runs, "--runs")
    except ResourceError as error:
        line(False, "disk", str(error))
        return False
    disk = available_disk(runs) / 1e9
    line(disk > 25, "disk", f"{disk:.1f} GB free for {runs}")
    return True


def _distractors(line: _Line) -> None:
    from pamd.envs.distractors.cache import cache_directory
    from pamd.envs.distractors.split import ENOUGH, installed_clips

    clips = len(installed_clips())
    more = f"; procedural clips are added ({install_command('distractors')} adds natural ones)"
    found = f"{clips} clips in installed packages{'' if clips >= ENOUGH else more}"
    line(True, "distractors", f"{found}; decoded into {cache_directory()}")
