"""Finite MDPs and their exact behavioural metrics: the ground truth that pixels never give. Plain numpy."""

from __future__ import annotations

from pamd.exact.build import MDPBuilder, duplicated, garnet, grid_world
from pamd.exact.mdp import FiniteMDP, uniform_policy, value
from pamd.exact.metrics import (
    bisimulation,
    bisimulation_operator,
    fixed_point,
    mico,
    mico_operator,
    policy_bisimulation,
    policy_bisimulation_operator,
    reduced,
)
from pamd.exact.transport import wasserstein

__all__ = [
    "FiniteMDP",
    "MDPBuilder",
    "bisimulation",
    "bisimulation_operator",
    "duplicated",
    "fixed_point",
    "garnet",
    "grid_world",
    "mico",
    "mico_operator",
    "policy_bisimulation",
    "policy_bisimulation_operator",
    "reduced",
    "uniform_policy",
    "value",
    "wasserstein",
]
