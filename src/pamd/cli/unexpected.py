"""Unexpected errors: one line for the user, and a file with the traceback for a bug report."""

from __future__ import annotations

import contextlib
import os
import tempfile
import traceback

from pamd.version import __version__

__all__ = ["UNEXPECTED", "unexpected"]

UNEXPECTED = 70
"""The exit code: EX_SOFTWARE of sysexits.h."""


def unexpected(error: BaseException) -> str:
    """Describe an unexpected error in one line, and write its traceback to a new file that the line names."""
    first = next(iter(str(error).splitlines()), "")
    line = f"unexpected {type(error).__name__}: {first}" if first else f"unexpected {type(error).__name__}"
    report = f"pamd {__version__}\n" + "".join(traceback.format_exception(error))
    # Only the owner can read the file, because a traceback may contain values.
    for directory in (None, os.curdir):
        with contextlib.suppress(OSError):
            handle, path = tempfile.mkstemp(prefix="pamd-", suffix=".traceback.txt", dir=directory)
            with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(report)
            return f"{line}. This is a bug in pamd; the traceback is in {os.path.abspath(path)}"
    return f"{line}. This is a bug in pamd; the traceback could not be written to a file"
