"""Diagnostics of runs and of exact ground truth: does the distance shape the encoder?

Each diagnostic is one file with a function that returns a frozen dataclass. `save` writes the result to files, from
which `pamd.report.diagnostics.draw` makes figures. `pamd diagnose NAME` does both.
"""

from __future__ import annotations

from pamd.diagnostics.absorption import Absorption, Curve, absorption_ratio
from pamd.diagnostics.base import DIAGNOSTICS, save
from pamd.diagnostics.dimension import Dimension, Need, dimension
from pamd.diagnostics.exact import Cell, Exact, Space, exact
from pamd.diagnostics.geometry import Geometry, geometry, geometry_of
from pamd.diagnostics.latents import LatentReport, latents
from pamd.diagnostics.matching import Head, match
from pamd.diagnostics.residual import Residual, ResidualSettings, residual
from pamd.representation.meters import denoising_factor

__all__ = [
    "DIAGNOSTICS",
    "Absorption",
    "Cell",
    "Curve",
    "Dimension",
    "Exact",
    "Geometry",
    "Head",
    "LatentReport",
    "Need",
    "Residual",
    "ResidualSettings",
    "Space",
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
