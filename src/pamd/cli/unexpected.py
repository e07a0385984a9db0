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
    """One line about an error that is not the package's own. Its traceback goes to a new file, which the line names."""
    first = next(iter(str(error).splitlines()), "")
    line = f"unexpected {type(error).__name__}: {first}" if first else f"unexpected {type(error).__name__}"
    report = f"pamd {__version__}\n" + "".join(traceback.format_exception(error))
    # A new file that only its owner can read: a traceback may show values.
    for directory in (None, os.curdir):
        with contextlib.suppress(OSError):
            handle, path = tempfile.mkstemp(prefix="pamd-", suffix=".traceback.txt", dir=directory)
            with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(report)
            return f"{line}. This is a defect of pamd; the traceback is in {os.path.abspath(path)}"
    return f"{line}. This is a defect of pamd; no place to write the traceback was found"
