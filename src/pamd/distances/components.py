"""Reduce the components of a distance to one value. Every reduction keeps the triangle inequality."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.schema import record

Reduction = Literal["mean", "sum", "max", "maxmean"]

_LINES = 5
"""The number of lines of the concave transform."""


@record(what="a distance with components")
class ComponentsConfig:
    """The options of a distance that has k components, each of which keeps the triangle inequality."""

    reduction: Reduction = "mean"
    """How the components become one value. maxmean: a max + (1 - a) mean with a learned a in (0, 1)."""
    concave: bool = False
    """Whether each component passes a learned concave function first. It starts as the identity on small values."""


class Components(nn.Module):
    """c [..., k] -> [...]: the mean, sum or maximum of the components, or a max c + (1 - a) mean c.

    Each component may pass min_u (s_u c + b_u) first, with b_1 = 0, other b_u > 0 and s_u > 0. This is 0 at 0,
    increasing and concave, hence subadditive. So each step keeps the triangle inequality, and none lowers a value if a
    component grows: `max_value` can reduce bounds of the components.
    """

    def __init__(self, count: int, config: ComponentsConfig) -> None:
        super().__init__()
        self.reduction = config.reduction
        self.logit = nn.Parameter(torch.tensor(-1.0)) if config.reduction == "maxmean" else None
        self.slope = self.offset = None
        if config.concave:
            # Lines u = 0..4 with slope 2 sigmoid(-u) and offset u: the first one, which is c, is the lowest below 2.
            lines = torch.arange(float(_LINES))
            self.slope = nn.Parameter(-lines[:, None].repeat(1, count))
            self.offset = nn.Parameter(torch.log(torch.expm1(lines[1:, None])).repeat(1, count))

    def forward(self, components: Tensor) -> Tensor:
        c = self._transformed(components)
        if self.reduction == "sum":
            return c.sum(-1)
        if self.reduction == "max":
            return c.amax(-1)
        if self.logit is None:
            return c.mean(-1)
        share = torch.sigmoid(self.logit.to(c.dtype))
        return share * c.amax(-1) + (1 - share) * c.mean(-1)

    def _transformed(self, c: Tensor) -> Tensor:
        if self.slope is None or self.offset is None:
            return c
        lines = 2 * torch.sigmoid(self.slope.to(c.dtype)) * c[..., None, :]
        return torch.cat([lines[..., :1, :], lines[..., 1:, :] + F.softplus(self.offset.to(c.dtype))], -2).amin(-2)
