"""The sections of the page. A new section is one new file here, or a plug-in that registers one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pamd.published import Published
from pamd.registry import Registry
from pamd.report.comparison import Comparison

__all__ = ["SECTIONS", "Content", "PageSection", "add"]


@dataclass(frozen=True)
class Content:
    """What a section may show, and where it may write files."""

    comparison: Comparison
    published: Sequence[Published]
    """The paper's numbers for comparison."""
    out: Path
    """The directory to write to. Tables are in out/tables, figures in out/figures."""
    rng: np.random.Generator
    """Bootstrap intervals draw from it in the order of the sections, so that a page is reproducible."""
    home: Path | None = None
    """The directory that the files are moved to in the end, for links out of the page; None if it is `out`."""


@dataclass(frozen=True)
class PageSection:
    """A section of the page."""

    place: int
    """The position on the page. The built-in sections have 10, 20, ..."""
    heading: str
    html: Callable[[Content], str]
    """A function that writes the section's files and returns its HTML; "" omits the section."""


SECTIONS: Registry[PageSection] = Registry("report section", "pamd.report.sections")


def add(place: int, heading: str) -> Callable[[Callable[[Content], str]], Callable[[Content], str]]:
    """Return a decorator that registers a function as a section. The first word of the heading is its name."""

    def register(html: Callable[[Content], str]) -> Callable[[Content], str]:
        SECTIONS.register(heading.split()[0].lower())(PageSection(place, heading, html))
        return html

    return register
