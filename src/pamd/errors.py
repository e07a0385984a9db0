"""The errors of this package. A message states the given value, the expected one and, for a name, the nearest match."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

_MOST_LISTED = 24
"""The maximum number of names that an error lists in full. Nobody reads a longer list."""
_FEW = 8


class PamdError(Exception):
    """Base class of all errors that this package raises on purpose."""


class ConfigError(PamdError):
    """An option is unknown, has the wrong type, is out of range or contradicts another option."""


class UnknownNameError(ConfigError):
    """There is no distance, operator, method, task or key with this name.

    The message suggests the nearest name and lists valid names. If `meant` is given, it suggests only `meant`. If there
    are too many names for one line, it refers to `command`, which prints all of them. `advice` is the last sentence.
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
    """A tensor or array does not have the documented shape."""


class DtypeError(PamdError):
    """A tensor has a data type that the computation cannot use."""


class MDPError(PamdError):
    """A finite MDP is invalid, e.g. its rows do not sum to one or its discount is outside [0, 1)."""


class ReplayError(PamdError):
    """A replay does not contain the requested data, or its files are damaged."""


class ResourceError(PamdError):
    """There is not enough memory or disk, a file cannot be written, or a cluster or system feature is not available.

    If a forecast exceeds the memory or disk, the message states the forecast and the available amount.
    """


class RenderError(PamdError):
    """The task cannot be rendered on this machine: no OpenGL backend works."""


class TaskError(PamdError):
    """An environment cannot be built, was used in the wrong order, or failed while running."""


class TaskFailedError(TaskError):
    """The code of an environment raised an exception, ended the process, or returned a value that is not usable."""


class ClipError(PamdError):
    """A background video or image is missing or cannot be read."""


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
    """A loss or another training metric became NaN or infinite."""


class PluginWarning(UserWarning):
    """A plug-in of another distribution could not be imported. Everything else still works."""


def _valid(name: object, choices: list[str], command: str | None) -> str:
    """Return a sentence with all choices, the nearest choices, or the command that prints them."""
    if len(choices) <= _MOST_LISTED:
        return f"Valid: {', '.join(choices) or '(none)'}."
    if command is not None:
        return f"`{command}` prints all."
    shown = difflib.get_close_matches(str(name), choices, n=_FEW, cutoff=0)
    return f"Valid: {', '.join(shown)} and {len(choices) - _FEW} more."


def nearest(name: object, choices: Iterable[str]) -> str | None:
    """Return the choice most similar to `name`, ignoring case, or None if no choice is close.

    Initials are similar: `learner.lr` is `learner.learning_rate`.
    """
    by_lower = {choice.lower(): choice for choice in choices}
    spelled = [choice for short, choice in by_lower.items() if _initials(short) == str(name).lower()]
    if spelled:
        return spelled[0]
    found = difflib.get_close_matches(str(name).lower(), list(by_lower), n=1, cutoff=0.7)
    return by_lower[found[0]] if found else None


def _initials(choice: str) -> str | None:
    """Return `a.lr` for `a.learning_rate`; None for a single word."""
    parents, dot, leaf = choice.rpartition(".")
    words = [word for word in leaf.replace("-", "_").split("_") if word]
    return parents + dot + "".join(word[0] for word in words) if len(words) > 1 else None


def install_command(extra: str) -> str:
    """Return the command that installs an extra of this package: from the clone, if the package is in one."""
    clone = Path(__file__).parents[2]
    if (clone / "pyproject.toml").is_file():
        return f"pip install -e '.[{extra}]' in {clone}"
    return f"pip install 'pamd[{extra}]'"
