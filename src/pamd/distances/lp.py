"""Fixed norms of the displacement: l1 and l2, and both at the scale of a form with trace 1."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from pamd.distances.base import DISTANCES, Distance, NoOptions, Properties
from pamd.distances.derivatives import needs_plain, plain_gradients

__all__ = ["L1", "L2", "L1Mean", "L2Unit", "pairwise_norm"]


class _Norm(Distance[NoOptions]):
    """An abstract norm of order `order`, divided by d^`power`.

    The subgradient of vector_norm at 0 is 0, so z = z' needs no root guard.
    """

    Config = NoOptions
    properties = Properties(triangle=True)
    order: float
    power: float = 0.0

    def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
        norm: Tensor = torch.linalg.vector_norm(z - z_prime, ord=self.order, dim=-1)
        return norm / self._divisor

    def max_value(self, length: float) -> float:
        # The longest displacement is 2 * length. Its l1 norm is largest along a diagonal of the cube.
        return 2 * length * float(self.latent_dim ** (1 / self.order - 1 / 2)) / self._divisor

    def _all_pairs(self, z: Tensor, z_prime: Tensor) -> Tensor:
        return pairwise_norm(z, z_prime, self.order) / self._divisor

    @property
    def _divisor(self) -> float:
        return float(self.latent_dim**self.power)


@DISTANCES.register("l1")
class L1(_Norm):
    """The sum of |z - z'|."""

    order = 1.0


@DISTANCES.register("l1-mean")
class L1Mean(_Norm):
    """The mean of |z - z'| over the coordinates."""

    order, power = 1.0, 1.0


@DISTANCES.register("l2")
class L2(_Norm):
    """The Euclidean norm."""

    order = 2.0


@DISTANCES.register("l2-unit")
class L2Unit(_Norm):
    """sqrt(Delta^T (I/d) Delta): the isotropic form of trace 1, and therefore the control for `pamd`."""

    order, power = 2.0, 0.5


def pairwise_norm(z: Tensor, z_prime: Tensor, order: float = 2.0) -> Tensor:
    """Return the norms of all differences. z: [B, d], z_prime: [C, d] -> [B, C].

    It does not use the Gram matrix, because cancellation makes small distances and self-distances inaccurate.
    """
    if z.dtype in (torch.bfloat16, torch.float16):  # cdist has no half-precision kernel on the CPU
        return pairwise_norm(z.float(), z_prime.float(), order).to(z.dtype)
    if needs_plain(z, z_prime):
        return _plain_norms(z, z_prime, order)
    norms: Tensor = _PairwiseNorm.apply(z, z_prime, order)  # type: ignore[no-untyped-call]
    return norms


def _plain_norms(z: Tensor, z_prime: Tensor, order: float) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(z[:, None] - z_prime, ord=order, dim=-1)
    return norms


class _PairwiseNorm(torch.autograd.Function):
    """`_plain_norms` computed by torch.cdist, which needs less memory but is differentiable only once."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, z_prime: Tensor, order: float) -> Tensor:
        norms = torch.cdist(z, z_prime, p=order, compute_mode="donot_use_mm_for_euclid_dist")
        ctx.save_for_backward(z, z_prime, norms)
        ctx.order = order
        return norms

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, z_prime, norms = ctx.saved_tensors
        if torch.is_grad_enabled():
            plain = lambda z, z_prime: (_plain_norms(z, z_prime, ctx.order),)  # noqa: E731
            return (*plain_gradients(plain, [z, z_prime], ctx.needs_input_grad[:2], [grad]), None)
        slope = functools.partial(torch.ops.aten._cdist_backward, p=ctx.order)
        needed, needed_prime, _ = ctx.needs_input_grad
        grad_z = slope(grad.contiguous(), z, z_prime, cdist=norms) if needed else None
        turned = (grad.mT.contiguous(), z_prime, z)
        return grad_z, slope(*turned, cdist=norms.mT.contiguous()) if needed_prime else None, None
