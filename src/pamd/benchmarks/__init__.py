"""Benchmarks of `pamd bench`. Each compares pamd with a reference implementation in one process, alternating the two.

Rows are medians over repetitions, and ratios are computed within each repetition. Times are never asserted.
"""

from __future__ import annotations

__all__ = ["BENCHMARKS", "ON_DEMAND"]

BENCHMARKS = {
    "update": "one update of the agent compared with research code and with the speed of a matrix product",
    "head": "forward and backward pass of every distance, compared with the textbook construction of PAMD",
    "replay": "sampling time and memory of the replay, compared with stacked observations",
    "render": "time per frame and per decision, compared with dm_control's own renderer",
    "distractors": "time per frame with a distracting background, compared with the plain background",
    "pipeline": "decisions per second in training, and the share of each part",
    "scaling": "the paper's table of update time, decisions/s and total time at d = 50 and 200",
    "flops": "the paper's table of floating-point operations",
    "capacity": "memory of a run with a memory-mapped replay of a million frames, without the page cache",
    "kills": "interrupt runs at random moments, resume them, and compare the results byte by byte",
    "mutations": "damage every file of a run in many ways: a resume must be exact or refused",
    "soak": "memory, file descriptors and threads of a long run",
    "learning": "training time from pixels to a target return, for the scale `cpu` now and in version 0.2.0",
    "encoders": "how fast encoders and image sizes learn the state of a task, in seconds of CPU time",
    "peers": "decisions per second and replay memory, compared with SAC of Stable-Baselines3 at the same sizes",
    "integrations": "algorithms of other libraries with a metric, compared with the plain algorithms",
}
"""Descriptions by name. The module of the same name has `measure(options) -> Table`."""

ON_DEMAND = ("capacity", "kills", "mutations", "soak", "learning", "encoders", "peers", "integrations")
"""Run only on request, because they write tens of gigabytes, require Stable-Baselines3, or take minutes to days."""
