"""The vocabulary: pairs are what their names say, and latents of one batch agree in shape."""

import itertools
from dataclasses import FrozenInstanceError

import pytest
import torch

from pamd.errors import ShapeError
from pamd.types import Latents, Pairs


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_permutation_takes_each_row_once_on_either_side():
    pairs = Pairs.permutation(64, seeded(0))
    assert len(pairs) == 64
    assert pairs.left.tolist() == list(range(64))
    assert sorted(pairs.right.tolist()) == list(range(64))
    assert pairs.right.tolist() != list(range(64))
    assert not pairs.complete


def test_permutation_is_its_generators_alone():
    first, again, other = (Pairs.permutation(64, seeded(seed)).right for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_permutation_may_be_any_with_fixed_points_too():
    generator = seeded(0)
    drawn = {tuple(Pairs.permutation(3, generator).right.tolist()) for _ in range(200)}
    assert drawn == set(itertools.permutations(range(3)))


def test_permutation_without_a_generator_follows_torchs():
    torch.manual_seed(3)
    first = Pairs.permutation(32).right
    torch.manual_seed(3)
    assert torch.equal(Pairs.permutation(32).right, first)


def test_all_pairs_are_row_major_with_the_diagonal():
    pairs = Pairs.all(3)
    assert list(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)) == list(
        itertools.product(range(3), repeat=2)
    )
    assert pairs.complete
    assert len(pairs) == 9


@pytest.mark.parametrize("batch", [0, 1])
def test_pairs_of_hardly_any_rows(batch):
    assert len(Pairs.permutation(batch)) == len(Pairs.all(batch)) == batch


def test_latents_know_their_batch_and_stay_as_they_are():
    latents = Latents(z=torch.zeros(4, 3), reward=torch.zeros(4), next_mean=torch.zeros(4, 3))
    assert len(latents) == 4
    assert latents.z_next is None
    with pytest.raises(FrozenInstanceError):
        latents.reward = torch.ones(4)


@pytest.mark.parametrize("shape", [(4,), (4, 3, 2)])
def test_latents_are_rows(shape):
    with pytest.raises(ShapeError, match=r"Latents\.z must be \[B, d\], got \[4") as caught:
        Latents(z=torch.zeros(shape), reward=torch.zeros(4))
    assert str(list(shape)) in str(caught.value)


PER_ROW = ["reward", "reward_std", "not_done", "weight"]


@pytest.mark.parametrize("field", PER_ROW)
@pytest.mark.parametrize("shape", [(5,), (4, 3), (4, 1, 1), (5, 1), (1, 4), ()])
def test_one_number_a_row(field, shape):
    given = {"reward": torch.zeros(4), field: torch.zeros(shape)}
    with pytest.raises(ShapeError, match=rf"Latents\.{field} must be \[4\] or \[4, 1\], got ") as caught:
        Latents(z=torch.zeros(4, 3), **given)
    assert str(list(shape)) in str(caught.value)
    assert ("squeeze(-1)" in str(caught.value)) == (len(shape) > 1 and shape[-1] == 1)


@pytest.mark.parametrize("field", PER_ROW)
@pytest.mark.parametrize("batch", [1, 4])
def test_a_column_is_one_number_a_row(field, batch):
    # Left as it is, [B, 1] would broadcast to B x B against [B] without a word.
    column = torch.randn(batch, 1)
    latents = Latents(z=torch.zeros(batch, 3), **{"reward": torch.zeros(batch), field: column})
    assert torch.equal(getattr(latents, field), column[:, 0])


@pytest.mark.parametrize("field", ["z_target", "z_next", "next_mean", "next_std", "next_sample"])
@pytest.mark.parametrize("shape", [(5, 3), (4, 2), (4,)])
def test_every_latent_has_the_shape_of_z(field, shape):
    with pytest.raises(ShapeError, match=rf"Latents\.{field} must be \[4, 3\], got ") as caught:
        Latents(z=torch.zeros(4, 3), reward=torch.zeros(4), **{field: torch.zeros(shape)})
    assert str(caught.value).endswith(str(list(shape)))
