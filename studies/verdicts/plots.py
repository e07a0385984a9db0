"""The figure of the verdicts: the effects of all pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pamd.report.figures import page_style, plain, save_figure
from studies.verdicts.answers import Answer, Verdict, pairs_of

__all__ = ["forest_figure"]

_COLORS: dict[Verdict, str] = {"yes": "#0072B2", "no": "#D55E00", "open": "#6e6e6e"}


@page_style()
def forest_figure(rungs: Mapping[str, Sequence[Answer]], path: Path, units: Mapping[str, str]) -> list[Path]:
    """Draw every difference with its 95% interval. Returns [] if there are no answers.

    `units` maps each rung to the quantity that is compared.
    """
    from matplotlib import pyplot

    keys = pairs_of(rungs)
    if not keys:
        return []
    size = (2.4 * len(rungs) + 5.2, 0.27 * len(keys) + 1.3)
    figure, places = pyplot.subplots(1, len(rungs), figsize=size, layout="constrained", sharey=True, squeeze=False)
    for axes, (rung, found) in zip(places[0], rungs.items(), strict=True):
        edge = _edge(found)
        for answer in found:
            _interval(axes, keys.index((answer.claim, answer.pair)), answer, edge)
        axes.set_xlim(-edge, edge)
        axes.axvline(0, color="#333333", linewidth=0.8)
        axes.set_title(plain(rung))
        axes.set_xlabel(plain(f"difference in {units[rung]}"), fontsize=8)
        axes.tick_params(labelsize=8)
        axes.grid(axis="x", alpha=0.25)
    labels = [
        plain(f"{claim}: {pair}".replace("reward 1-gamma", "1-\N{GREEK SMALL LETTER GAMMA}")) for claim, pair in keys
    ]
    places[0][0].set_yticks(range(len(keys)), labels)
    places[0][0].invert_yaxis()
    _legend(figure)
    return save_figure(figure, path)


def _edge(found: Sequence[Answer]) -> float:
    """Return the limit of the axis on both sides. A few very wide intervals do not make the others unreadable."""
    effects = [answer.effect for answer in found]
    ends = sorted(abs(effect.mean) + effect.half_width() for effect in effects)
    return 1.1 * max(ends[3 * (len(ends) - 1) // 4], *(abs(effect.mean) for effect in effects), 1e-9)


def _interval(axes: Any, row: int, answer: Answer, edge: float) -> None:
    """Draw an effect with its interval. An arrow marks an end of the interval that is outside the axis."""
    mean, half = answer.effect.mean, answer.effect.half_width()
    hue = _COLORS[answer.verdict]
    axes.plot([max(mean - half, -edge), min(mean + half, edge)], [row, row], color=hue, lw=2, solid_capstyle="butt")
    axes.plot(mean, row, color=hue, marker="o", markersize=5)
    for end, marker in ((mean - half, "<"), (mean + half, ">")):
        if abs(end) > edge:
            axes.plot(edge if end > 0 else -edge, row, color=hue, marker=marker, markersize=6, clip_on=False)


def _legend(figure: Any) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=hue, marker="o", linewidth=2, label=name) for name, hue in _COLORS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
