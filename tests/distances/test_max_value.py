"""`max_value` bounds every value on latents of a given length, and is no larger than it must be."""

from __future__ import annotations

import math

import pytest
import torch

import pamd

LENGTHS = (0.1, 1.0, 7.0)
TIGHT = ("l1", "l1-mean", "l2", "l2-unit", "cosine", "coordinate", "mico")


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", pamd.DISTANCES.names())
def test_no_value_lies_beyond(name: str, length: float) -> None:
    torch.manual_seed(0)
    d = 10
    distance = pamd.distance(name, latent_dim=d).double()
    bound = distance.max_value(length)
    directions = torch.nn.functional.normalize(torch.randn(400, d, dtype=torch.float64), dim=-1)
    corners = torch.ones(1, d, dtype=torch.float64) / d**0.5
    axes = torch.eye(d, dtype=torch.float64)
    z = length * torch.cat([directions, corners, axes])
    values = torch.cat([distance(z, -z), distance(z, z.roll(1, 0)), distance(z, z)]).detach()
    assert float(values.max()) <= bound * (1 + 1e-9)
    if name in TIGHT:
        assert float(values.max()) == pytest.approx(bound)


def test_what_is_not_normalized_has_no_bound() -> None:
    assert math.isinf(pamd.distance("pamd", latent_dim=4, trace_normalized=False).max_value(1.0))
    assert math.isinf(pamd.distance("mlp", latent_dim=4).max_value(1.0))
    assert pamd.distance("pamd", latent_dim=50).max_value(50**0.5) == pytest.approx(2 * 50**0.5), "facts: about 14"
