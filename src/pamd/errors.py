"""The package's own errors: each names what came, what was expected and, for a name, the nearest valid one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "CheckpointError",
    "ClipError",
    "ConfigError",
    "DivergenceError",
    "DtypeError",
    "HubError",
    "MDPError",
    "PamdError",
    "PluginWarning",
    "RenderError",
    "ReplayError",
    "ResourceError",
    "RunError",
    "RunInterrupted",
    "ShapeError",
    "TaskError",
    "UnknownNameError",
    "nearest",
]


class PamdError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(PamdError):
    """An option is unknown, of the wrong type, out of range or contradicts another."""


class UnknownNameError(ConfigError):
    """A distance, operator, method, task or key of that name does not exist."""

    def __init__(self, kind: str, name: object, choices: Iterable[str]) -> None:
        choices = sorted(choices)
        hint = nearest(name, choices)
        meant = f" Did you mean {hint!r}?" if hint else ""
        super().__init__(f"unknown {kind} {name!r}.{meant} Valid: {', '.join(choices) or '(none)'}.")


class ShapeError(PamdError):
    """A tensor or array does not have the shape that the signature states."""


class DtypeError(PamdError):
    """A tensor has a data type that the computation cannot use."""


class MDPError(PamdError):
    """A finite MDP is not one: rows that do not sum to one, a discount outside [0, 1), ..."""


class ReplayError(PamdError):
    """A replay is asked for what it does not hold, or its files are not what they should be."""


class ResourceError(PamdError):
    """The machine has not the memory or the disk that the work needs: the forecast and what there is."""


class RenderError(PamdError):
    """Nothing on this machine can draw the task: no usable OpenGL."""


class TaskError(PamdError):
    """An environment cannot be built here, was used out of turn, or failed while it ran."""


class ClipError(PamdError):
    """A video or picture for a background is missing, or is not one."""


class CheckpointError(PamdError):
    """No complete checkpoint, or one that does not fit the run."""


class RunError(PamdError):
    """A run directory is missing, belongs to another config, or is in use."""


class HubError(PamdError):
    """An upload to a model hub failed."""


class RunInterrupted(PamdError):  # noqa: N818  It is no error: the run was asked to stop, and can go on.
    """The run was stopped by a signal, after a checkpoint."""


class DivergenceError(PamdError):
    """A loss became NaN or infinite."""


class PluginWarning(UserWarning):
    """A plug-in of another distribution could not be imported; everything else works without it."""


def nearest(name: object, choices: Iterable[str]) -> str | None:
    """The choice most like `name`, or None where nothing is alike."""
    found = difflib.get_close_matches(str(name), list(choices), n=1, cutoff=0.5)
    return found[0] if found else None
