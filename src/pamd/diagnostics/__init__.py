"""Diagnostics of runs and of exact ground truth: does the distance shape the encoder?

Each diagnostic returns a frozen dataclass. `save` writes it to files, from which
`pamd.report.diagnostics.draw` makes figures.
"""

from __future__ import annotations

from pamd.diagnostics.absorption import Absorption, absorption_ratio
from pamd.diagnostics.dimension import Dimension, Need, dimension
from pamd.diagnostics.embedding import Cell, Exact, exact
from pamd.diagnostics.forms import Geometry, geometry, geometry_of
from pamd.diagnostics.latent_report import LatentReport, latents
from pamd.diagnostics.matching import Head, match
from pamd.diagnostics.residuals import Curve, Residual, ResidualSettings, residual
from pamd.diagnostics.space import Space
from pamd.diagnostics.write import save
from pamd.representation.denoising import denoising_factor

__all__ = [
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
