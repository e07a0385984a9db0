"""Copies of a distance measure the same, and live apart."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

import pamd
from pamd.distances import Distance

D = 6
NAMES = pamd.DISTANCES.names()


def saved(d: Distance[Any]) -> Distance[Any]:
    file = io.BytesIO()
    torch.save(d.state_dict(), file)
    file.seek(0)
    other = type(d)(D, d.config)
    other.load_state_dict(torch.load(file, weights_only=True))
    return other


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda d: pickle.loads(pickle.dumps(d)),
    "state": saved,
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", NAMES)
def test_a_copy_measures_the_same_and_lives_apart(name: str, how: str) -> None:
    torch.manual_seed(0)
    d = pamd.distance(name, latent_dim=D)
    z, z_prime = torch.randn(2, 5, D)
    expected = d(z, z_prime)
    d.all_pairs(z)  # what a first call keeps must not be in the way
    other = COPIES[how](d)
    assert torch.equal(other(z, z_prime), expected)
    assert other.config == d.config
    assert repr(other) == repr(d)
    for parameter in other.parameters():
        torch.nn.init.zeros_(parameter)
    assert torch.equal(d(z, z_prime), expected)
