"""Single-file DQN from pixels with a behavioral metric on its encoder. Every step of the update is shown.

    python examples/cleanrl_style_dqn.py --game breakout --steps 100000  # pip install MinAtar
    python examples/cleanrl_style_dqn.py --game corridor --steps 4000    # requires no other package

The temporal-difference loss and the losses of the representation train the encoder in one backward pass. The script
prints the step, the return, the speed and the losses.
"""

from __future__ import annotations

import argparse
import copy
import time

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import pamd
from pamd.methods import DEFAULT_METHOD


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="breakout", help="corridor, or a game of MinAtar")
    parser.add_argument("--method", default=DEFAULT_METHOD, help="pamd list methods; none: plain DQN")
    parser.add_argument("--steps", type=int, default=100_000, help="decisions")
    parser.add_argument("--start", type=int, default=1000, help="random decisions before learning")
    parser.add_argument("--train-every", type=int, default=1, help="decisions per update")
    parser.add_argument("--target-every", type=int, default=1000, help="updates per copy of the target network")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--replay", type=int, default=100_000, help="transitions that are kept")
    parser.add_argument("--latent-dim", type=int, default=50)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--learning-rate", type=float, default=2.5e-4)
    parser.add_argument("--explore-for", type=float, default=0.1, help="share of the steps in which epsilon falls")
    parser.add_argument("--epsilon", type=float, default=0.05, help="final exploration rate")
    parser.add_argument("--log-every", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class Corridor:
    """A walker [2, 10, 10] must reach the marked column at one end: reward 1 there, else 0, at most 30 decisions."""

    actions = 4

    def __init__(self, draw: np.random.Generator) -> None:
        self.draw, self.place, self.goal, self.age = draw, np.zeros(2, int), 0, 0

    def reset(self) -> np.ndarray:
        self.place, self.goal, self.age = self.draw.integers(0, 10, 2), int(self.draw.integers(0, 2)) * 9, 0
        return self._picture()

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool]:
        """Return the observation, reward, terminated and truncated."""
        move = np.array([(0, 1), (0, -1), (1, 0), (-1, 0)][action])
        self.place = np.clip(self.place + move, 0, 9)
        self.age += 1
        there = bool(self.place[1] == self.goal)
        return self._picture(), float(there), there, self.age >= 30 and not there

    def _picture(self) -> np.ndarray:
        picture = np.zeros((2, 10, 10), np.float32)
        picture[0, self.place[0], self.place[1]] = 1
        picture[1, :, self.goal] = 1
        return picture


class MinAtar:
    """A game of MinAtar, channels first, with its minimal action set."""

    def __init__(self, game: str, seed: int) -> None:
        from minatar import Environment

        self.game = Environment(game)
        self.game.seed(seed)
        self.moves = self.game.minimal_action_set()
        self.actions = len(self.moves)

    def reset(self) -> np.ndarray:
        self.game.reset()
        return self._picture()

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool]:
        reward, terminated = self.game.act(self.moves[action])
        return self._picture(), float(reward), bool(terminated), False

    def _picture(self) -> np.ndarray:
        return self.game.state().transpose(2, 0, 1).astype(np.float32)


class Replay:
    """A ring buffer of transitions in plain arrays."""

    def __init__(self, capacity: int, obs_shape: tuple[int, ...]) -> None:
        self.obs, self.next_obs = (np.zeros((capacity, *obs_shape), np.float32) for _ in range(2))
        self.action = np.zeros(capacity, np.int64)
        self.reward, self.not_done = (np.zeros(capacity, np.float32) for _ in range(2))
        self.capacity, self.added = capacity, 0

    def add(self, obs: np.ndarray, action: int, reward: float, next_obs: np.ndarray, done: bool) -> None:
        row = self.added % self.capacity
        self.obs[row], self.action[row], self.reward[row] = obs, action, reward
        self.next_obs[row], self.not_done[row] = next_obs, not done
        self.added += 1

    def sample(self, batch: int, draw: np.random.Generator) -> tuple[Tensor, ...]:
        rows = draw.integers(0, min(self.added, self.capacity), batch)
        arrays = (self.obs, self.action, self.reward, self.next_obs, self.not_done)
        return tuple(torch.from_numpy(array[rows]) for array in arrays)


def main() -> None:
    args = arguments()
    torch.manual_seed(args.seed)
    draw = np.random.default_rng(args.seed)
    env = Corridor(draw) if args.game == "corridor" else MinAtar(args.game, args.seed)
    obs = env.reset()

    # The representation: encoder, target copies and terms of the method.
    encoder = nn.Sequential(
        nn.Conv2d(obs.shape[0], 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 8 * 8, args.latent_dim)
    )
    rep = pamd.Representation(
        args.method, encoder=encoder, latent_dim=args.latent_dim, action_dim=env.actions, gamma=args.gamma
    )
    q = nn.Sequential(nn.Linear(args.latent_dim, args.hidden), nn.ReLU(), nn.Linear(args.hidden, env.actions))
    target_encoder, target_q = (copy.deepcopy(net).requires_grad_(False) for net in (rep.encoder, q))
    own = [p for p in rep.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam([*own, *q.parameters()], args.learning_rate)
    replay = Replay(min(args.replay, args.steps), obs.shape)

    returns, total, updates, logged, began = [], 0.0, 0, {}, time.time()
    for step in range(args.steps):
        # Act. Epsilon decreases linearly from 1 over the first `explore_for` share of the steps.
        epsilon = max(args.epsilon, 1 - (1 - args.epsilon) * step / (args.explore_for * args.steps))
        if step < args.start or draw.random() < epsilon:
            action = int(draw.integers(env.actions))
        else:
            with torch.no_grad():
                action = int(q(rep.encode(torch.from_numpy(obs)[None])).argmax())
        next_obs, reward, terminated, truncated = env.step(action)
        replay.add(obs, action, reward, next_obs, terminated)  # Bootstrap at a time limit.
        obs, total = next_obs, total + reward
        if terminated or truncated:
            returns, total, obs = [*returns, total], 0.0, env.reset()
        if step < args.start or step % args.train_every:
            continue

        # Update the values and the representation in one backward pass.
        o, a, r, o2, not_done = replay.sample(args.batch, draw)
        target = r + args.gamma * not_done * target_q(target_encoder(o2)).amax(1)
        z = rep.encode(o)
        td = F.smooth_l1_loss(q(z).gather(1, a[:, None])[:, 0], target)
        losses = rep.losses(o, a, r, o2, not_done=not_done, z=z)  # int64 actions are one-hot encoded
        optimizer.zero_grad()
        (td + losses.total).backward()
        nn.utils.clip_grad_norm_([*own, *q.parameters()], 10)
        optimizer.step()

        # Update the target copies.
        rep.update_targets()
        updates += 1
        if updates % args.target_every == 0:
            target_encoder.load_state_dict(rep.encoder.state_dict())
            target_q.load_state_dict(q.state_dict())

        logged = {"td": float(td.detach()), "epsilon": epsilon}
        logged |= {name: float(value) for name, value in losses.metrics.items()}
        if (step + 1) % args.log_every == 0:
            recent = float(np.mean(returns[-20:])) if returns else float("nan")
            speed = (step + 1) / (time.time() - began)
            shown = "  ".join(f"{name} {value:.4g}" for name, value in logged.items())
            print(f"step {step + 1}  return {recent:.2f}  {speed:.0f} steps/s  {shown}", flush=True)


if __name__ == "__main__":
    main()
