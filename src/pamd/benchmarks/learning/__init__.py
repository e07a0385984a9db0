"""Training time from pixels to a target return.

`plan` defines tasks, settings and methods, `race` trains, `curve` reads the logs, and `table` builds the table.
"""

from __future__ import annotations

from pamd.benchmarks.learning.curve import Outcome, outcome, read_points
from pamd.benchmarks.learning.measure import measure
from pamd.benchmarks.learning.plan import METHODS, SETTINGS, TASKS
from pamd.benchmarks.learning.table import Entry, make_table

__all__ = [
    "METHODS",
    "SETTINGS",
    "TASKS",
    "Entry",
    "Outcome",
    "make_table",
    "measure",
    "outcome",
    "read_points",
]
