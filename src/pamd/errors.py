"""The package's own errors: each names what was given, what was expected and, for a name, the nearest valid one."""

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
    "NoRunsError",
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

_MOST_LISTED = 15
"""More names than this are not read in an error."""
_FEW = 8


class PamdError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(PamdError):
    """An option is unknown, of the wrong type, out of range or contradicts another."""


class UnknownNameError(ConfigError):
    """A distance, operator, method, task or key of that name does not exist.

    The nearest name is suggested, or `meant` alone. `command` prints all names, where they are too many for one line.
    `advice` is a last sentence.
    """

    def __init__(
        self,
        kind: str,
        name: object,
        choices: Iterable[str],
        *,
        meant: str | None = None,
        command: str | None = None,
        advice: str = "",
    ) -> None:
        choices = sorted(choices)
        hint = meant or nearest(name, choices)
        sentences = [f"unknown {kind} {name!r}.", f"Did you mean {hint!r}?" if hint else ""]
        sentences += ["" if meant else _valid(name, choices, command), advice]
        super().__init__(" ".join(filter(None, sentences)))


class ShapeError(PamdError):
    """A tensor or array does not have the shape that the signature states."""


class DtypeError(PamdError):
    """A tensor has a data type that the computation cannot use."""


class MDPError(PamdError):
    """A finite MDP is invalid: rows that do not sum to one, a discount outside [0, 1), ..."""


class ReplayError(PamdError):
    """A replay does not hold what was requested, or its files are damaged."""


class ResourceError(PamdError):
    """Not enough memory or disk: names the forecast and what is available."""


class RenderError(PamdError):
    """The task cannot be rendered on this machine: no OpenGL backend works."""


class TaskError(PamdError):
    """An environment cannot be built, was used in the wrong order, or failed while it ran."""


class ClipError(PamdError):
    """A video or picture for a background is missing or cannot be read."""


class CheckpointError(PamdError):
    """There is no complete checkpoint, or it does not match the run."""


class RunError(PamdError):
    """A run directory is missing, belongs to another config, or is in use."""


class NoRunsError(RunError):
    """There is no finished run to report on."""


class HubError(PamdError):
    """An upload to a model hub failed."""


class RunInterrupted(PamdError):  # noqa: N818  It is no error: the run was asked to stop and can be resumed.
    """The run was stopped by a signal, after a checkpoint."""


class DivergenceError(PamdError):
    """A loss became NaN or infinite."""


class PluginWarning(UserWarning):
    """A plug-in of another distribution could not be imported; everything else works without it."""


def _valid(name: object, choices: list[str], command: str | None) -> str:
    """The choices in one sentence: all, the nearest few, or the command that prints them."""
    if len(choices) <= _MOST_LISTED:
        return f"Valid: {', '.join(choices) or '(none)'}."
    if command is not None:
        return f"`{command}` prints all."
    shown = difflib.get_close_matches(str(name), choices, n=_FEW, cutoff=0)
    return f"Valid: {', '.join(shown)} and {len(choices) - _FEW} more."


def nearest(name: object, choices: Iterable[str]) -> str | None:
    """The choice most similar to `name`, ignoring case; None if no choice is close."""
    by_lower = {choice.lower(): choice for choice in choices}
    found = difflib.get_close_matches(str(name).lower(), list(by_lower), n=1, cutoff=0.7)
    return by_lower[found[0]] if found else None
