"""What all quadratic-form distances share: ridge, trace normalisation, root guard, the anisotropy term, the lemma.

G = sum over input orders of L L^T is never formed for a value: a subclass hands over Delta^T G Delta and tr G.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from pamd.config import check_choice, check_positive
from pamd.distances.base import Distance
from pamd.distances.pairwise import check_hidden
from pamd.errors import ConfigError

__all__ = ["Form", "PairConditionedConfig", "QuadraticConfig", "QuadraticForm"]


@dataclass(frozen=True)
class QuadraticConfig:
    """The paper leaves its small constants open; these are ours. Presets hold the released ones."""

    ridge: float | None = 1e-6
    """lambda of eq:ridge; None: no ridge, as released, and then the lemma has no lower bound."""
    diagonal_epsilon: float = 1e-8
    """Added to L's diagonal after ReHU; 0: nothing."""
    trace_normalised: bool = True
    trace_detached: bool = False
    """True: no gradient through the trace."""
    trace_epsilon: float = 1e-8
    root: Literal["add", "clamp"] = "add"
    """sqrt(q + epsilon) or sqrt(max(q, epsilon))."""
    root_epsilon: float = 1e-8
    aux_weight: float = 1e-3
    """lambda_aux: weight of the anisotropy |G_tilde - I/d|^2, which the loss rewards; 0: off."""
    aux_norm: Literal["sum", "mean"] = "sum"
    """Squared Frobenius norm, or its mean over the d*d entries (d*d times weaker), as released."""
    aux_pairs: int | None = 16
    """On how many pairs of the batch, drawn anew each time, the anisotropy is estimated; None: all."""
    aux_probes: int | None = 4
    """Random sign vectors per pair (docs/auxiliary-term.md); None: the exact norm, d^3 a pair."""

    def __post_init__(self) -> None:
        what = "a quadratic-form distance"
        if self.ridge is not None and not self.ridge > 0:
            raise ConfigError(f"{what}: ridge (lambda) must be above 0, got {self.ridge}; None switches it off")
        check_positive(what, ridge=self.ridge, trace_epsilon=self.trace_epsilon, root_epsilon=self.root_epsilon)
        check_positive(what, aux_pairs=self.aux_pairs, aux_probes=self.aux_probes)
        check_choice(what, "root", self.root, ("add", "clamp"))
        check_choice(what, "aux_norm", self.aux_norm, ("sum", "mean"))
        for name in ("diagonal_epsilon", "aux_weight"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"{what}: {name} must be finite and at least 0, got {getattr(self, name)}")
        if self.trace_detached and not self.trace_normalised:
            raise ConfigError(f"{what}: trace_detached needs trace_normalised; without it there is no trace to detach")


@dataclass(frozen=True)
class PairConditionedConfig(QuadraticConfig):
    """A quadratic form that a network predicts from the pair."""

    hidden: int = 128
    """Width of the network."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_hidden("a pair-conditioned distance", self.hidden)


QuadraticT = TypeVar("QuadraticT", bound=QuadraticConfig)


class Form(NamedTuple):
    """G of P pairs, implicitly; G excludes the ridge."""

    quadratic: Tensor
    """[P]: Delta^T G Delta"""
    trace: Tensor
    """[P]: tr G"""
    product: Callable[[Tensor], Tensor]
    """v [m, d, K] -> G v [m, d, K], for the m pairs that were asked for"""


_RELEASED = {"ridge": None, "diagonal_epsilon": 1e-12, "trace_epsilon": 1e-12, "aux_norm": "mean"}


class QuadraticForm(Distance[QuadraticT]):
    """sqrt(Delta^T G_tilde Delta): a subclass gives G as a `Form`, and is final."""

    presets = {
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

    @abstractmethod
    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        """The form of pairs z, z_prime [P, d] on delta [P, d] (float32 at least), products ready for pairs `rows`."""

    def matrix(self, z: Tensor, z_prime: Tensor) -> Tensor:
        """G_tilde of each pair (G_bar where trace_normalised is off). z, z_prime: [P, d] -> [P, d, d]."""
        self._check(z, z_prime, paired=True)
        delta = _displacement(z, z_prime)
        rows = torch.arange(z.shape[0], device=z.device)
        form = self._form(z, z_prime, delta, rows)
        eye = torch.eye(self.latent_dim, dtype=delta.dtype, device=z.device)
        G_bar = form.product(eye.expand(z.shape[0], -1, -1)) + self._ridge * eye  # eq:ridge
        return (G_bar / self._scale(form.trace)[:, None, None]).to(z.dtype)

    def bounds(self, z: Tensor, z_prime: Tensor) -> tuple[Tensor, Tensor]:
        """The lower and upper bound of lem:spectral_sandwich on each value. z, z_prime: [P, d] -> [P], [P].

        Without trace normalisation there is no upper bound (infinity); without a ridge the lower one is the guard's.
        """
        self._check(z, z_prime, paired=True)
        delta = _displacement(z, z_prime)
        form = self._form(z, z_prime, delta, torch.empty(0, dtype=torch.long, device=z.device))
        length = delta.square().sum(-1)
        upper = length if self.config.trace_normalised else torch.full_like(length, float("inf"))
        return self._root(length * self._ridge / self._scale(form.trace)), self._root(upper)

    def largest(self, length: float) -> float:
        """By the upper bound of lem:spectral_sandwich: that of l2, the root's guard added."""
        if not self.config.trace_normalised:
            return float("inf")
        return float(self._root(torch.tensor(4.0 * length**2, dtype=torch.float64)))

    @property
    def floor(self) -> float:
        return float(self.config.root_epsilon**0.5)

    @property
    def _ridge(self) -> float:
        return self.config.ridge or 0.0

    def _measure(
        self, z: Tensor, z_prime: Tensor, penalised: bool, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor | None]:
        penalised = penalised and self.config.aux_weight > 0 and z.shape[0] > 0
        rows = self._probed(z, generator) if penalised else torch.empty(0, dtype=torch.long, device=z.device)
        delta = _displacement(z, z_prime)
        form = self._form(z, z_prime, delta, rows)
        quadratic = form.quadratic + self._ridge * delta.square().sum(-1)  # eq:ridge
        value = self._root(quadratic / self._scale(form.trace)).to(z.dtype)  # eq:trace_norm, eq:plugin_distance
        if not penalised:
            return value, None
        return value, -self.config.aux_weight * self._anisotropy(form, rows, generator)

    def _root(self, quadratic: Tensor) -> Tensor:
        epsilon = self.config.root_epsilon
        return ((quadratic + epsilon) if self.config.root == "add" else quadratic.clamp_min(epsilon)).sqrt()

    def _scale(self, trace: Tensor) -> Tensor:
        """What G_bar is divided by: its trace, or 1."""
        if not self.config.trace_normalised:
            return torch.ones_like(trace)
        scale = trace + (self.latent_dim * self._ridge + self.config.trace_epsilon)  # eq:trace_norm
        return scale.detach() if self.config.trace_detached else scale

    def _probed(self, z: Tensor, generator: torch.Generator | None) -> Tensor:
        count, wanted = z.shape[0], self.config.aux_pairs
        if wanted is None or wanted >= count:
            return torch.arange(count, device=z.device)
        drawn_on = generator.device if generator is not None else z.device
        return torch.randperm(count, generator=generator, device=drawn_on)[:wanted].to(z.device)

    def _anisotropy(self, form: Form, rows: Tensor, generator: torch.Generator | None) -> Tensor:
        """An unbiased estimate [] of the batch mean of |G_tilde - I/d|_F^2 (docs/auxiliary-term.md).

        Always of the trace-normalised matrix: of an unnormalised one, the reward would have no bound.
        """
        d, probes, like = self.latent_dim, self.config.aux_probes, form.trace
        if probes is None:
            v = torch.eye(d, dtype=like.dtype, device=like.device).expand(len(rows), d, d)
        else:
            drawn_on = generator.device if generator is not None else like.device
            coin = torch.randint(0, 2, (len(rows), d, probes), generator=generator, device=drawn_on)
            v = (2 * coin - 1).to(like)
        trace = form.trace[rows] + (d * self._ridge + self.config.trace_epsilon)
        with torch.autocast(like.device.type, enabled=False):
            G_tilde_v = (form.product(v) + self._ridge * v) / trace[:, None, None]
        squared = (G_tilde_v - v / d).square().sum((1, 2)) / (probes or 1)
        return squared.mean() / (d * d if self.config.aux_norm == "mean" else 1)


def _displacement(z: Tensor, z_prime: Tensor) -> Tensor:
    return (z - z_prime).to(torch.promote_types(z.dtype, torch.float32))
