"""The options of quadratic-form distances, and `Form`, a quadratic form without an explicit matrix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from torch import Tensor

from pamd.errors import ConfigError
from pamd.schema import Count, NonNegative, Positive, record


@record(what="a quadratic-form distance")
class QuadraticConfig:
    """The options of a quadratic form.

    The paper does not state its small constants. The defaults are our choice; presets contain the released ones.
    """

    ridge: Positive | None = 1e-6
    """lambda of eq:ridge. None means no ridge, as released; the lemma then has no lower bound."""
    diagonal_epsilon: NonNegative = 1e-8
    """The constant added to L's diagonal after ReHU. 0 adds nothing."""
    trace_normalized: bool = True
    """Whether G_bar is divided by its trace (eq:trace_norm)."""
    trace: Positive | Literal["d"] = 1.0
    """The trace of G_tilde: 1 in the paper. "d" is the latent dimension; an isotropic form is then l2 (G_tilde = I)."""
    trace_detached: bool = False
    """If True, no gradient flows through the trace."""
    trace_epsilon: Positive = 1e-8
    """The constant added to the trace before the division."""
    root: Literal["add", "clamp"] = "add"
    """The guard of the root: sqrt(q + epsilon) for "add", or sqrt(max(q, epsilon)) for "clamp"."""
    root_epsilon: Positive = 1e-8
    """The epsilon of the root."""
    scale: Literal["fixed", "learned"] = "fixed"
    """"learned": a positive factor in front of the root, one for all pairs. It starts at 1."""
    aux_weight: NonNegative = 1e-3
    """lambda_aux: the weight of the anisotropy |G_tilde - I/d|^2, which the loss rewards. 0 disables it."""
    aux_norm: Literal["sum", "mean"] = "sum"
    """The squared Frobenius norm ("sum"), or its mean over the d*d entries ("mean", d*d times weaker, as released)."""
    aux_pairs: Count | None = 16
    """The number of pairs for the estimate of the anisotropy, redrawn each time. None uses all pairs."""
    aux_probes: Count | None = 4
    """The number of random sign vectors per pair (docs/auxiliary-term.md). None: the exact norm, at d^3 per pair."""

    def __post_init__(self) -> None:
        what = "a quadratic-form distance"
        if self.trace_detached and not self.trace_normalized:
            raise ConfigError(f"{what}: trace_detached requires trace_normalized; there is no trace to detach")
        if self.trace != 1 and not self.trace_normalized:
            raise ConfigError(f"{what}: trace={self.trace!r} requires trace_normalized; the trace is free without it")

    def trace_of(self, latent_dim: int) -> float:
        """Return the trace of G_tilde as a number."""
        return float(latent_dim if isinstance(self.trace, str) else self.trace)


@record(what="a pair-conditioned distance")
class PairConditionedConfig(QuadraticConfig):
    """The options of a quadratic form that a network predicts from the pair."""

    hidden: Count = 128
    """The width of the network."""
    frozen: bool = False
    """Whether the network keeps its random weights. Only the latents (and a learned scale) are then trained."""


_EXACT_TERM = {"aux_norm": "mean", "aux_pairs": None, "aux_probes": None}
_RELEASED = {"ridge": None, "diagonal_epsilon": 1e-12, "trace_epsilon": 1e-12, **_EXACT_TERM}
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {},
    "released-dbc": {**_RELEASED, "root": "clamp", "root_epsilon": 1e-8},
    "released-independent": {**_RELEASED, "root": "add", "root_epsilon": 1e-12},
    "released-residual": {
        "ridge": None,
        "diagonal_epsilon": 0.0,
        "trace_epsilon": 1e-6,
        "trace_detached": True,
        "root": "clamp",
        "root_epsilon": 1e-8,
        "aux_weight": 0.0,
    },
}


class Form(NamedTuple):
    """G of P pairs as an operator, without the ridge."""

    quadratic: Tensor
    """[P]: Delta^T G Delta"""
    trace: Tensor
    """[P]: tr G"""
    product: Callable[[Tensor], Tensor]
    """v [m, d, K] -> G v [m, d, K], for the m requested pairs"""
