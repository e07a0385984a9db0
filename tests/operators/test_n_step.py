"""Windows of every length and end, against a walk through the steps of both trajectories."""

import itertools
from dataclasses import replace

import pytest
import torch

import pamd
from pamd.errors import ConfigError
from pamd.types import Latents, Pairs

N, GAMMA = 3, 0.5
ENDS = [(length, not_done) for length in range(1, N + 1) for not_done in (1.0, 0.0)]


def windows() -> Latents:
    """One row for each length of a window and each way to end."""
    length, not_done = (torch.tensor(column) for column in zip(*ENDS, strict=True))
    reward = torch.rand(len(ENDS), N, generator=torch.Generator().manual_seed(0))
    reward = torch.where(torch.arange(N) < length[:, None], reward, 0)
    z_next, z_window = (torch.rand(len(ENDS), 2, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    return Latents(
        z=torch.zeros(len(ENDS), 2),
        reward=reward[:, 0],
        z_next=z_next,
        z_window=z_window,
        window_reward=reward,
        window_length=length,
        window_not_done=not_done,
    )


def walked(given: Latents, i: int, j: int) -> float:
    """The target of rows i and j, step by step."""
    total = 0.0
    for k in range(N):
        total += GAMMA**k * abs(float(given.window_reward[i, k] - given.window_reward[j, k]))
        last = [k + 1 == int(given.window_length[row]) for row in (i, j)]
        if any(at_end and given.window_not_done[row] == 0 for at_end, row in zip(last, (i, j), strict=True)):
            return total
        if all(last):
            return total + GAMMA ** (k + 1) * float((given.z_window[i] - given.z_window[j]).abs().sum())
        if any(last):  # a time limit on one side only: one step is all that can be compared
            first = abs(float(given.reward[i] - given.reward[j]))
            return first + GAMMA * float((given.z_next[i] - given.z_next[j]).abs().sum())
    raise AssertionError("a window ends within n steps")


@pytest.mark.parametrize("complete", [True, False])
def test_targets_equal_a_walk(complete):
    given, pairs = windows(), replace(Pairs.all(len(ENDS)), complete=complete)
    target = pamd.operator("n-step", n=N, gamma=GAMMA).target(given, pairs, pamd.distance("l1", latent_dim=2))
    expected = [walked(given, i, j) for i, j in itertools.product(range(len(ENDS)), repeat=2)]
    torch.testing.assert_close(target, torch.tensor(expected))


def test_per_coordinate_targets_share_the_reward_gaps():
    given, pairs, operator = windows(), Pairs.all(len(ENDS)), pamd.operator("n-step", n=N, gamma=GAMMA)
    shifted = replace(given, z_window=given.z_window[:, :1].repeat(1, 2), z_next=given.z_next[:, :1].repeat(1, 2))
    per_coordinate = operator.target(shifted, pairs, pamd.distance("coordinate", latent_dim=2))
    assert per_coordinate.shape == (len(pairs), 2)
    torch.testing.assert_close(per_coordinate[:, 0], per_coordinate[:, 1])
    rewards_alone = operator.target(replace(given, z_window=0 * given.z_window, z_next=0 * given.z_next), pairs, _l2())
    assert (per_coordinate[:, 0] >= rewards_alone - 1e-6).all()
    assert (per_coordinate[:, 0] > rewards_alone + 1e-3).any()


def _l2() -> pamd.Distance:
    return pamd.distance("l2", latent_dim=2)


def test_one_step_is_the_independent_operator():
    given = windows()
    one = replace(
        given,
        z_window=given.z_next,
        window_reward=given.window_reward[:, :1],
        window_length=torch.ones(len(ENDS), dtype=torch.int64),
        window_not_done=torch.ones(len(ENDS)),
    )
    pairs = Pairs.all(len(ENDS))
    found = pamd.operator("n-step", n=1, gamma=GAMMA).target(one, pairs, _l2())
    torch.testing.assert_close(found, pamd.operator("independent", gamma=GAMMA).target(given, pairs, _l2()))


def test_n_must_be_a_whole_number_of_at_least_one():
    with pytest.raises(ConfigError, match="n must be a whole number of at least 1, got 0"):
        pamd.operator("n-step", n=0)
