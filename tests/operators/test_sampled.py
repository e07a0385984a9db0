"""The mean of an operator's sampled targets is its exact counterpart, on a garnet and on a grid with slips."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.exact.values import value

import pamd
from pamd import exact
from pamd.distances.base import NoOptions
from pamd.types import Latents, Pairs

SAMPLES = 100_000
C_R = 0.7


class Table(pamd.Distance[NoOptions]):
    """d(s, s') looked up, for latents that hold the number of the state."""

    Config = NoOptions

    def __init__(self, d: np.ndarray) -> None:
        super().__init__(1, NoOptions())
        self.d = torch.from_numpy(d)

    def _value(self, z, z_prime):
        return self.d[z[:, 0].long(), z_prime[:, 0].long()]


def garnet() -> exact.FiniteMDP:
    return exact.garnet(4, 2, 3, rng=np.random.default_rng(0), gamma=0.7)


def grid() -> exact.FiniteMDP:
    return exact.grid_world("..\n.G", slip=0.5, gamma=0.8)


def by_state(mdp: exact.FiniteMDP) -> exact.FiniteMDP:
    """`mdp` with rewards that depend on the state alone."""
    return exact.FiniteMDP(mdp.transition, np.repeat(mdp.reward[:, :1], mdp.n_actions, axis=1), mdp.gamma)


class Walks:
    """Independent trajectories from every state in turn, all sampled at once."""

    def __init__(self, mdp: exact.FiniteMDP, seed: int = 0) -> None:
        self.mdp, self.rng = mdp, np.random.default_rng(seed)
        self.policy = self.rng.dirichlet(np.ones(mdp.n_actions), size=mdp.n_states)
        self.state = np.arange(2 * SAMPLES) // (2 * SAMPLES // mdp.n_states)
        self.rng.shuffle(self.state)
        # Row p meets row SAMPLES + p: every trajectory is in one pair, so that targets are independent.
        self.pairs = Pairs(torch.arange(SAMPLES), torch.arange(SAMPLES) + SAMPLES)

    def step(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """An action of the policy, its reward and the next state."""
        action = self._draw(self.policy[state])
        return action, self.mdp.reward[state, action], self._draw(self.mdp.transition[state, action])

    def check(self, target: torch.Tensor, expected: np.ndarray) -> None:
        """The mean target of each pair of states is within 4.5 standard errors of `expected` [S, S]."""
        left, right = self.state[:SAMPLES], self.state[SAMPLES:]
        for s, t in np.ndindex(expected.shape):
            own = target.numpy()[(left == s) & (right == t)]
            error = own.std() / len(own) ** 0.5
            assert abs(own.mean() - expected[s, t]) <= 4.5 * error + 1e-9, (s, t, own.mean(), expected[s, t], error)

    def _draw(self, probability: np.ndarray) -> np.ndarray:
        return (self.rng.random(len(probability))[:, None] > probability.cumsum(1)[:, :-1]).sum(1)


def column(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(x.astype(np.float64))[:, None]


def symmetric(states: int) -> np.ndarray:
    d = np.random.default_rng(9).random((states, states))
    return d + d.T


both = pytest.mark.parametrize("make", [garnet, grid])


@both
def test_value(make):
    walks = Walks(make())
    V = value(walks.mdp, walks.policy)
    given = Latents(z=column(walks.state), reward=torch.zeros(2 * SAMPLES), value=torch.from_numpy(V)[walks.state])
    target = pamd.operator("value", c_R=C_R).target(given, walks.pairs, Table(np.zeros((4, 4))))
    walks.check(target, exact.value_gap(walks.mdp, walks.policy, c_R=C_R, tolerance=1e-12))


@both
def test_advantage(make):
    walks = Walks(make())
    V = value(walks.mdp, walks.policy)
    Q = exact.action_value(walks.mdp, V)
    action, reward, _ = walks.step(walks.state)
    given = Latents(
        z=column(walks.state),
        reward=torch.from_numpy(reward),
        value=torch.from_numpy(V[walks.state]),
        action_value=torch.from_numpy(Q[walks.state, action]),
    )
    target = pamd.operator("advantage", c_R=C_R).target(given, walks.pairs, Table(np.zeros((4, 4))))
    walks.check(target, exact.advantage_gap(walks.mdp, walks.policy, c_R=C_R, tolerance=1e-12))


@both
@pytest.mark.parametrize("n", [1, 3])
def test_n_step(make, n):
    walks, state, rewards, first = Walks(make()), None, [], None
    state = walks.state
    for _ in range(n):
        _, reward, state = walks.step(state)
        rewards.append(torch.from_numpy(reward))
        first = state if first is None else first
    given = Latents(
        z=column(walks.state),
        reward=rewards[0],
        z_next=column(first),
        z_window=column(state),
        window_reward=torch.stack(rewards, 1),
        window_length=torch.full((2 * SAMPLES,), n),
        window_not_done=torch.ones(2 * SAMPLES),
    )
    d = symmetric(walks.mdp.n_states)
    target = pamd.operator("n-step", n=n, gamma=walks.mdp.gamma, c_R=C_R).target(given, walks.pairs, Table(d))
    walks.check(target, exact.n_step_operator(walks.mdp, walks.policy, n, C_R)(d))


@both
def test_state_action(make):
    walks = Walks(make())
    _, reward, following = walks.step(walks.state)
    given = Latents(
        z=column(walks.state),
        reward=torch.from_numpy(reward),
        z_next=column(following),
        action_reward=torch.from_numpy(walks.mdp.reward[walks.state]),
    )
    d = symmetric(walks.mdp.n_states)
    target = pamd.operator("state-action", gamma=walks.mdp.gamma, c_R=C_R).target(given, walks.pairs, Table(d))
    walks.check(target, exact.state_action_operator(walks.mdp, walks.policy, C_R)(d))


@both
def test_psm(make):
    walks = Walks(make())
    _, reward, following = walks.step(walks.state)
    given = Latents(
        z=column(walks.state),
        reward=torch.from_numpy(reward),
        z_next=column(following),
        policy_action=torch.from_numpy(walks.policy[walks.state]),
    )
    d = symmetric(walks.mdp.n_states)
    operator = pamd.operator("psm", gamma=walks.mdp.gamma, c_R=C_R, actions="discrete")
    expected = exact.policy_similarity_operator(walks.mdp, walks.policy, C_R)(d)
    walks.check(operator.target(given, walks.pairs, Table(d)), expected)


@both
def test_kernel(make):
    # As for MICo, rewards depend on the state alone: one sample's |r - r'| is else no estimate of |r^pi - r^pi'|.
    walks = Walks(by_state(make()))
    _, reward, one = walks.step(walks.state)
    _, _, other = walks.step(walks.state)
    given = Latents(
        z=column(walks.state),
        reward=torch.from_numpy(reward),
        next_sample=column(one),
        next_sample_other=column(other),
    )
    features = np.random.default_rng(9).random((walks.mdp.n_states, 3))
    k = features @ features.T
    operator = pamd.operator("kernel", gamma=walks.mdp.gamma, c_R=C_R, next_latents="model")
    target = operator.target(given, walks.pairs, Table(exact.kernel_distance(k)))
    expected = exact.kernel_distance(exact.kernel_operator(walks.mdp, walks.policy, C_R)(k))
    walks.check(target, expected)
    # With one next state for two samples the spread is missed, unless transitions are deterministic.
    once = replace(given, next_sample_other=given.next_sample)
    missed = operator.target(once, walks.pairs, Table(exact.kernel_distance(k)))
    with pytest.raises(AssertionError):
        walks.check(missed, expected)
