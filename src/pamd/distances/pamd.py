"""PAMD, the distance of the paper: a network predicts the metric of each pair of latents.

The first part of this file is the method itself, with one function per equation of sec:architecture and app:metricnet,
in the order of the paper: MetricNet -> L -> G -> G_bar -> G_tilde -> distance. `QuadraticForm.textbook` combines them.
P is the number of pairs and d the latent dimension; z, z_prime and Delta = z - z_prime are [P, d].
The second part is `QuadraticForm`, the base class of `pamd` and its variants, and `Pamd`. Values do not require G, only
Delta^T G Delta and tr G. The last part computes these from MetricNet without forming G. `packed.py` does it faster.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pamd.distances.base import DISTANCES, Distance
from pamd.distances.packed import floats_per_pair, packed_form, packed_size
from pamd.distances.pairwise import at_least_float32, pair_inputs, pair_network, pair_outputs, rehu
from pamd.distances.quadratic import PRESETS, Form, PairConditionedConfig, QuadraticConfig

_QuadraticT = TypeVar("_QuadraticT", bound=QuadraticConfig)


def predicted_factors(net: nn.Module, z: Tensor, z_prime: Tensor, block: int, epsilon: float) -> Tensor:
    """Return the factors L_k(z, z') [P, K, b, b] on the diagonal of L. MetricNet reads [z; z']. PAMD has K = 1."""
    outputs = at_least_float32(net(torch.cat([z, z_prime], dim=-1)))  # app:metricnet
    return cholesky_factor(outputs.unflatten(-1, (z.shape[-1] // block, -1)), epsilon)


def cholesky_factor(outputs: Tensor, epsilon: float) -> Tensor:
    """Return L [..., d, d] from the d(d+1)/2 network outputs, which fill its lower triangle row by row."""
    d = (math.isqrt(8 * outputs.shape[-1] + 1) - 1) // 2
    row, column = torch.tril_indices(d, d, device=outputs.device)
    entries = outputs.new_zeros(*outputs.shape[:-1], d * d).index_copy(-1, row * d + column, outputs)
    L: Tensor = entries.unflatten(-1, (d, d))
    diagonal = rehu(L.diagonal(dim1=-2, dim2=-1)) + epsilon  # app:metricnet
    return L.tril(-1) + torch.diag_embed(diagonal)


def symmetrize(L: Tensor, L_swapped: Tensor) -> Tensor:
    """Return G [..., d, d] from L(z, z') and L(z', z)."""
    return L @ L.mT + L_swapped @ L_swapped.mT  # eq:symmetrize


def _add_ridge(G: Tensor, ridge: float) -> Tensor:
    """Return G_bar [P, d, d], whose eigenvalues are at least the ridge lambda."""
    return G + ridge * torch.eye(G.shape[-1], dtype=G.dtype, device=G.device)  # eq:ridge


def _normalize_trace(G_bar: Tensor, epsilon: float, detached: bool = False, trace: float = 1.0) -> Tensor:
    """Return G_tilde [P, d, d] with trace `trace` (1 in the paper) up to epsilon. `detached` detaches the divisor."""
    divisor = G_bar.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None] + epsilon
    return trace * G_bar / (divisor.detach() if detached else divisor)  # eq:trace_norm


def _plugin_distance(delta: Tensor, G_tilde: Tensor, epsilon: float, root: str = "add") -> Tensor:
    """Return the distance of each pair: delta [P, d], G_tilde [P, d, d] -> [P]."""
    return _guarded_root(torch.einsum("pi,pij,pj->p", delta, G_tilde, delta), epsilon, root)  # eq:plugin_distance


def _guarded_root(quadratic: Tensor, epsilon: float, root: str) -> Tensor:
    """Return sqrt(q + epsilon) or sqrt(max(q, epsilon)), because the slope of the plain root is unbounded at 0."""
    return ((quadratic + epsilon) if root == "add" else quadratic.clamp_min(epsilon)).sqrt()


def _auxiliary_term(G_tilde: Tensor, weight: float, norm: str = "sum") -> Tensor:
    """Return -weight |G_tilde - I/d|_F^2 [], averaged over the pairs: the loss rewards anisotropy (app:metricnet)."""
    d = G_tilde.shape[-1]
    deviation = (G_tilde - torch.eye(d, dtype=G_tilde.dtype, device=G_tilde.device) / d).square()
    return -weight * (deviation.sum((1, 2)).mean() if norm == "sum" else deviation.mean())


class QuadraticForm(Distance[_QuadraticT]):
    """An abstract distance s * sqrt(Delta^T G_tilde Delta). Subclasses define G twice, as a matrix and as a `Form`.

    s is 1, or learned (`config.scale`). tr G_tilde is 1, or `config.trace`. docs/family.md gives the bounds for both.
    """

    presets = PRESETS

    def __init__(self, latent_dim: int, config: _QuadraticT) -> None:
        super().__init__(latent_dim, config)
        self.log_scale = nn.Parameter(torch.zeros(())) if config.scale == "learned" else None
        self._trace = config.trace_of(latent_dim)

    @abstractmethod
    def _metric(self, z: Tensor, z_prime: Tensor) -> Tensor:
        """Compute G of eq:symmetrize, [P, d, d], in at least float32."""

    @abstractmethod
    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        """Return the form of the pairs on delta [P, d] (at least float32), with products for the pairs `rows`."""

    def rehu_inputs(self, z: Tensor, z_prime: Tensor) -> Tensor | None:
        """Return what ReHU reads for the diagonals of both L, [2, P, d]; None without a ReHU (optional hook).

        The diagnostic `geometry` counts the inputs at or below 0, which get no gradient.
        """
        return None

    def matrix(self, z: Tensor, z_prime: Tensor) -> Tensor:
        """Return G_tilde of each pair before the scale (G_bar if not trace_normalized). [P, d], [P, d] -> [P, d, d]."""
        z, z_prime = self._checked(z, z_prime, paired=True)
        return self._normalized(_add_ridge(self._metric(z, z_prime), self._ridge)).to(z.dtype)

    def textbook(self, z: Tensor, z_prime: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the values [P] and the exact auxiliary term [] with the equations above. z, z_prime: [P, d].

        This method builds every G. It is the reference for tests and benchmarks; `measure` is faster.
        """
        z, z_prime = self._checked(z, z_prime, paired=True)
        c = self.config
        G_bar = _add_ridge(self._metric(z, z_prime), self._ridge)
        value = _plugin_distance(_displacement(z, z_prime), self._normalized(G_bar), c.root_epsilon, c.root)
        G_tilde = _normalize_trace(G_bar, c.trace_epsilon)
        return self._scaled(value).to(z.dtype), _auxiliary_term(G_tilde, c.aux_weight, c.aux_norm)

    def bounds(self, z: Tensor, z_prime: Tensor) -> tuple[Tensor, Tensor]:
        """Return the lower and upper bounds of lem:spectral_sandwich on each value. z, z_prime: [P, d] -> [P], [P].

        Without trace normalization, the upper bound is infinity. Without a ridge, the lower bound is `self_distance`.
        """
        z, z_prime = self._checked(z, z_prime, paired=True)
        delta = _displacement(z, z_prime)
        form = self._form(z, z_prime, delta, _no_rows(z))
        length = delta.square().sum(-1)
        upper = self._trace * length if self.config.trace_normalized else torch.full_like(length, float("inf"))
        lower = length * self._ridge / self._divisor(form.trace)
        return self._scaled(self._root(lower)), self._scaled(self._root(upper))

    def max_value(self, length: float) -> float:
        """Return the upper bound of lem:spectral_sandwich: that of l2 with a root guard, at trace 1 and scale 1."""
        if not self.config.trace_normalized:
            return float("inf")
        return self.scale * float(self._root(torch.tensor(4.0 * self._trace * length**2, dtype=torch.float64)))

    @property
    def self_distance(self) -> float:
        return self.scale * float(self.config.root_epsilon**0.5)

    @property
    def scale(self) -> float:
        """The factor s in front of the root."""
        return 1.0 if self.log_scale is None else float(self.log_scale.detach().exp())

    @property
    def _ridge(self) -> float:
        return self.config.ridge or 0.0

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        delta = _displacement(z, z_prime)
        return self._distance(self._form(z, z_prime, delta, _no_rows(z)), delta).to(z.dtype)

    def _value_and_penalty(
        self, z: Tensor, z_prime: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor | None]:
        c, pairs = self.config, z.shape[0]
        if c.aux_weight == 0 or pairs == 0:
            return self._value(z, z_prime), None
        rows = _draw_pairs(pairs, c.aux_pairs, z.device, generator)
        v = _draw_signs(rows.shape[0], self.latent_dim, c.aux_probes, at_least_float32(z), generator)
        delta = _displacement(z, z_prime)
        form = self._form(z, z_prime, delta, rows)
        return self._distance(form, delta).to(z.dtype), -c.aux_weight * self._anisotropy(form, rows, v)

    def _distance(self, form: Form, delta: Tensor) -> Tensor:
        """Compute the values [P] without G, by applying each equation to Delta^T G Delta and tr G."""
        quadratic = form.quadratic + self._ridge * delta.square().sum(-1)  # eq:ridge
        return self._scaled(self._root(quadratic / self._divisor(form.trace)))  # eq:trace_norm, eq:plugin_distance

    def _anisotropy(self, form: Form, rows: Tensor, v: Tensor) -> Tensor:
        """Return an unbiased estimate [] of the batch mean of |G_tilde - I/d|_F^2 (docs/auxiliary-term.md).

        Here G_tilde always has trace 1. Otherwise, the reward would be unbounded.
        """
        d, probes, v = self.latent_dim, self.config.aux_probes, v.to(form.trace.dtype)
        trace = form.trace.index_select(0, rows) + (d * self._ridge + self.config.trace_epsilon)
        with torch.autocast(v.device.type, enabled=False):
            G_tilde_v = (form.product(v) + self._ridge * v) / trace[:, None, None]
        summed = (G_tilde_v - v / d).square().sum()
        return summed / (len(rows) * (probes or 1) * (d * d if self.config.aux_norm == "mean" else 1))

    def _root(self, quadratic: Tensor) -> Tensor:
        return _guarded_root(quadratic, self.config.root_epsilon, self.config.root)

    def _scaled(self, value: Tensor) -> Tensor:
        return value if self.log_scale is None else self.log_scale.to(value.dtype).exp() * value

    def _divisor(self, trace: Tensor) -> Tensor:
        """Return the divisor of G_bar: its trace divided by the desired trace, or 1 without normalization."""
        if not self.config.trace_normalized:
            return torch.ones_like(trace)
        divisor = trace + (self.latent_dim * self._ridge + self.config.trace_epsilon)  # eq:trace_norm
        divisor = divisor if self._trace == 1 else divisor / self._trace
        return divisor.detach() if self.config.trace_detached else divisor

    def _normalized(self, G_bar: Tensor) -> Tensor:
        c = self.config
        if not c.trace_normalized:
            return G_bar
        return _normalize_trace(G_bar, c.trace_epsilon, c.trace_detached, self._trace)


@DISTANCES.register("pamd")
class Pamd(QuadraticForm[PairConditionedConfig]):
    """sqrt(Delta^T G_tilde(z, z') Delta + epsilon) with G = L(z,z') L(z,z')^T + L(z',z) L(z',z)^T + lambda I."""

    Config = PairConditionedConfig

    def __init__(self, latent_dim: int, config: PairConditionedConfig) -> None:
        super().__init__(latent_dim, config)
        self.net = pair_network(latent_dim, config.hidden, packed_size(latent_dim), config.frozen)

    def factor(self, z: Tensor, z_prime: Tensor) -> Tensor:
        """Return L(z, z') [P, d, d]."""
        return predicted_factors(self.net, z, z_prime, self.latent_dim, self.config.diagonal_epsilon).squeeze(1)

    def rehu_inputs(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return diagonal_of_packed(pair_outputs(self.net, z, z_prime), self.latent_dim)

    def _metric(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return symmetrize(self.factor(z, z_prime), self.factor(z_prime, z))

    def _form(self, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor) -> Form:
        return predicted_form(self.net, z, z_prime, delta, rows, self.latent_dim, self.config.diagonal_epsilon)

    def _floats_per_pair(self) -> int:
        return floats_per_pair(self.latent_dim, self.latent_dim) + 4 * self.config.hidden


def predicted_form(
    net: nn.Sequential, z: Tensor, z_prime: Tensor, delta: Tensor, rows: Tensor, block: int, epsilon: float
) -> Form:
    """Return the form of an L whose diagonal consists of factors of `block` x `block`, predicted by `net`.

    The forward pass of the last layer is not called, because its product is part of the packed operation. Its hooks do
    not run.
    """
    layers: list[Any] = list(net)
    last = layers.pop()
    hidden = pair_inputs(z, z_prime)
    for layer in layers:
        hidden = layer(hidden)
    hidden = at_least_float32(hidden)  # [2, P, h]
    split = delta.unflatten(-1, (-1, block))  # [P, K, b]
    quadratic, trace, L = packed_form(triangular_form, hidden, last.weight, last.bias, split, epsilon, rows)

    def product(v: Tensor) -> Tensor:
        # Compute the transpose v^T L L^T: a product with few rows is several times faster than one with few columns.
        rows_of_v = v.mT.unflatten(-1, split.shape[1:]).transpose(1, 2)  # [m, K, n, b]
        G_v: Tensor = (rows_of_v @ L @ L.mT).sum(0).mT.flatten(1, 2)
        return G_v

    return Form(quadratic, trace, product)


def triangular_form(
    hidden: Tensor, weight: Tensor, bias: Tensor, delta: Tensor, epsilon: float, rows: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return Delta^T G Delta [P], tr G [P], and L [2, m, K, b, b] of the distinct `rows` [m], the plain way.

    `packed_form` computes the same, faster. It calls this function if more than a first derivative is needed.
    G sums L L^T over both orders. L has K factors on its diagonal, from the last layer: hidden [2, P, h] times weight
    plus bias. delta: [P, K, b].
    """
    outputs = F.linear(hidden, weight, bias).unflatten(-1, (delta.shape[1], -1))
    L = cholesky_factor(outputs, epsilon)
    y = (L.mT @ delta[..., None]).squeeze(-1)  # Delta^T L L^T Delta = |L^T Delta|^2 and tr L L^T = |L|_F^2
    return y.square().sum((0, 2, 3)), L.square().sum((0, 2, 3, 4)), L[:, rows]  # eq:symmetrize


def diagonal_of_packed(outputs: Tensor, block: int) -> Tensor:
    """Return the entries on the diagonals of packed triangles of `block` x `block`: [..., K b(b+1)/2] -> [..., d]."""
    ends = torch.arange(1, block + 1, device=outputs.device).cumsum(0) - 1  # Row i has i + 1 entries.
    diagonals: Tensor = outputs.unflatten(-1, (-1, packed_size(block)))[..., ends].flatten(-2)
    return diagonals


def _displacement(z: Tensor, z_prime: Tensor) -> Tensor:
    return at_least_float32(z - z_prime)


def _no_rows(z: Tensor) -> Tensor:
    return torch.empty(0, dtype=torch.long, device=z.device)


def _draw_pairs(pairs: int, count: int | None, device: torch.device, generator: torch.Generator | None) -> Tensor:
    """Draw `count` of the pairs, each at most once; None draws all -> [m]."""
    if count is None or count >= pairs:
        return torch.arange(pairs, device=device)
    drawn_on = generator.device if generator is not None else device
    return torch.randperm(pairs, generator=generator, device=drawn_on)[:count].to(device)


def _draw_signs(pairs: int, d: int, probes: int | None, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw `probes` random sign vectors per pair -> [m, d, probes]. None returns the unit vectors, which are exact."""
    if probes is None:
        return torch.eye(d, dtype=like.dtype, device=like.device).expand(pairs, d, d)
    drawn_on = generator.device if generator is not None else like.device
    coin = torch.randint(0, 2, (pairs, d, probes), generator=generator, device=drawn_on)
    return (2 * coin - 1).to(like)
