"""Diagnostics of runs and of exact ground truth: does the distance shape the encoder?

Each diagnostic is one file with a function that returns a frozen dataclass. `save` writes the result to files, from
which `pamd.report.diagnostics.draw` makes figures. `pamd diagnose NAME` does both.
"""

from __future__ import annotations

from pamd.diagnostics.absorption import absorption_ratio
from pamd.diagnostics.base import DIAGNOSTICS, save
from pamd.diagnostics.dimension import dimension
from pamd.diagnostics.exact import Exact, exact
from pamd.diagnostics.geometry import geometry, geometry_of
from pamd.diagnostics.latents import latents
from pamd.diagnostics.matching import match
from pamd.diagnostics.residual import Residual, ResidualSettings, residual
from pamd.representation.meters import denoising_factor

__all__ = [
    "DIAGNOSTICS",
    "Exact",
    "Residual",
    "ResidualSettings",
    "absorption_ratio",
    "denoising_factor",
    "dimension",
    "exact",
    "geometry",
    "geometry_of",
    "latents",
    "match",
    "residual",
    "save",
]
