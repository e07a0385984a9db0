"""`pamd bench`: everything measured beside the research code's way, in one process, in turns.

Times are never asserted anywhere: a row is a median over repetitions, a ratio is taken within each repetition.
"""

from __future__ import annotations

__all__ = ["BENCHMARKS", "ON_DEMAND"]

BENCHMARKS = {
    "update": "one update of the agent beside the research code's, and how near the matrix-product limit it comes",
    "head": "forward and backward of every distance beside the textbook construction of PAMD",
    "replay": "sampling and memory of a transition beside stacked observations",
    "render": "one frame, and one decision, beside dm_control's own renderer",
    "distractors": "one frame before a background that is not its own, beside the clean frame",
    "pipeline": "decisions a second of whole training, and where the time goes",
    "scaling": "the paper's table of update time, decisions/s and total time at d = 50 and 200",
    "flops": "the paper's table of floating-point operations, counted",
    "capacity": "a memory-mapped replay of a million: the run's own memory, whatever the page cache holds",
    "kills": "runs that are interrupted at random moments and resumed, compared to the byte",
    "mutations": "every file of a run damaged in many ways: what resumes exactly, and what is refused",
    "soak": "memory, descriptors and threads of a long run",
    "learning": "training time from pixels to a stated return, for the scale `cpu` and that of version 0.2.0",
    "encoders": "how fast images and encoders of several sizes learn the state of a task, in seconds of CPU time",
    "peers": "decisions a second and replay memory beside Stable-Baselines3's SAC at the same sizes",
    "integrations": "algorithms of other libraries with a metric beside the plain ones",
}
"""What each measures; the module of the same name has `measure(options) -> Table`."""

ON_DEMAND = ("capacity", "kills", "mutations", "soak", "learning", "encoders", "peers", "integrations")
"""Run only when named: one writes tens of gigabytes, two require Stable-Baselines3, the others take minutes to days."""
