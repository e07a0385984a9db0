"""Names that changed still work for one version, with a warning."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import pamd
from pamd import distances
from pamd.distances import base


@pytest.mark.parametrize("module", [distances, base])
def test_the_old_class(module: object) -> None:
    with pytest.warns(DeprecationWarning, match="use Properties"):
        assert module.Laws is base.Properties  # type: ignore[attr-defined]


def test_the_old_attributes() -> None:
    d = pamd.distance("pamd", latent_dim=4)
    with pytest.warns(DeprecationWarning, match="laws is deprecated; use properties"):
        assert d.laws is d.properties
    with pytest.warns(DeprecationWarning, match="use self_distance"):
        assert d.floor == d.self_distance
    with pytest.warns(DeprecationWarning, match="use max_value"):
        assert d.largest(2.0) == d.max_value(2.0)


def test_a_distance_written_with_the_old_names_is_understood() -> None:
    with pytest.warns(DeprecationWarning, match="is deprecated; use"):

        class Old(base.Distance[base.NoOptions]):
            Config = base.NoOptions
            laws = base.Properties(symmetric=False)

            def _value(self, z: Tensor, z_prime: Tensor) -> Tensor:
                return (z - z_prime).abs().amax(-1)

            def largest(self, length: float) -> float:
                return 2 * length

    d = Old(3, base.NoOptions())
    assert not d.properties.symmetric
    assert d.max_value(2.0) == 4.0
    assert d(torch.ones(1, 3), torch.zeros(1, 3)) == 1
