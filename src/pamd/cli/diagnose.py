"""`pamd diagnose NAME`: one command for each registered diagnostic, built from its function."""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pamd import diagnostics
from pamd.cli.console import Steps
from pamd.diagnostics import DIAGNOSTICS
from pamd.envs import choose_egl_device
from pamd.errors import RunInterrupted
from pamd.report import diagnostics as drawings
from pamd.training.process import available_threads


def _command(name: str, compute: Callable[..., Any]) -> Callable[..., None]:
    """Return the command of a diagnostic. Its options are those in the `Args` section of the docstring.

    Other parameters are for Python only, or are set here: `progress`, `interrupted` and `out`.
    """
    about, _, rest = inspect.cleandoc(compute.__doc__ or "").partition("\n\nArgs:\n")
    entries = rest.partition("\n\n")[0]
    signature, hints = inspect.signature(compute).parameters, typing.get_type_hints(compute)
    positional: list[inspect.Parameter] = []
    options: list[inspect.Parameter] = []
    for parameter in signature.values():
        if f"    {parameter.name}: " not in entries:
            continue
        hint = _as_tuple(hints[parameter.name])
        on_command_line = parameter.kind is not inspect.Parameter.KEYWORD_ONLY
        kind = inspect.Parameter.POSITIONAL_ONLY if on_command_line else inspect.Parameter.KEYWORD_ONLY
        (positional if on_command_line else options).append(parameter.replace(kind=kind, annotation=hint))
    in_run = "RUN/diagnostics" if positional else "diagnostics"
    folder = f"{name}-PRESET" if "preset" in signature else name
    entries += f"""
    out: directory of the results (default: {in_run}/{folder})
    threads: CPU threads of torch (default: all cores)"""
    extras: list[tuple[str, Any]] = [("out", Path | None), ("threads", int | None)]
    if positional:  # A diagnostic of a run may render.
        extras.append(("egl_device", int | None))
        entries += """
    egl_device: number of the EGL device that renders; see `pamd doctor` (default: MuJoCo's choice)"""
    for extra, hint in extras:
        options.append(inspect.Parameter(extra, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint))

    def command(
        *args: Any, out: Path | None = None, threads: int | None = None, egl_device: int | None = None, **values: Any
    ) -> None:
        choose_egl_device(egl_device)
        source = args[0] if args else None
        subject = f"{name}-{values['preset']}" if "preset" in values else name
        directory = out or _default_directory(source) / subject
        keeps = {"out": directory} if "out" in signature else {}
        _run(lambda **run: compute(*args, **values, **keeps, **run), "interrupted" in signature, directory, threads)

    command.__doc__ = f"{about}\n\nArgs:\n{entries}"
    command.__signature__ = inspect.Signature([*positional, *options])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in (*positional, *options)}
    return command


def _as_tuple(hint: Any) -> Any:
    """Return `hint` with tuple[X, ...] for Sequence[X], which the command line reads."""
    parts = typing.get_args(hint)
    if typing.get_origin(hint) is collections.abc.Sequence:
        return tuple.__class_getitem__((parts[0], ...))
    return _as_tuple(parts[0]) | None if type(None) in parts else hint


def _default_directory(source: Path | None) -> Path:
    """Return the default directory of the results, in the run directory or in the working directory."""
    in_run = source is not None and (source / "config.json").is_file()
    return (source if in_run and source is not None else Path()) / "diagnostics"


def _run(compute: Callable[..., Any], resumable: bool, directory: Path, threads: int | None) -> None:
    """Compute, save, draw and print the result. After Ctrl-C, do the same with the finished parts."""
    torch.set_num_threads(threads or available_threads())
    with Steps() as progress:
        stopped = False
        try:
            result = compute(progress=progress)
        except KeyboardInterrupt:
            if not resumable or not any(directory.glob("*.jsonl")):
                raise RunInterrupted("interrupted before any part was finished") from None
            stopped, result = True, compute(progress=progress, interrupted=True)
        if stopped and not (getattr(result, "curves", ()) or getattr(result, "cells", ())):
            raise RunInterrupted("interrupted before any part was finished")
        diagnostics.save(result, directory)
        section = drawings.draw(directory)
        progress.say(section.text())
        progress.say(f"{directory}")
    if stopped:
        raise RunInterrupted(f"interrupted; the finished parts are in {directory}; rerun the same command to continue")


diagnose: dict[str, Callable[..., None]] = {name: _command(name, DIAGNOSTICS.get(name)) for name in DIAGNOSTICS.names()}
