"""Run many trainings in local processes, on a Ray cluster or on Slurm. A restarted sweep resumes its runs."""

from __future__ import annotations

from pamd.sweep.backends import BACKENDS, Backend, Resources
from pamd.sweep.driver import Sweep, Tracked
from pamd.sweep.forecast import Plan, plan
from pamd.sweep.job import Job, jobs

__all__ = ["BACKENDS", "Backend", "Job", "Plan", "Resources", "Sweep", "Tracked", "jobs", "plan"]
