"""Single-file SAC from pixels with a behavioral metric on the critic's encoder. Every step of the update is shown.

    python examples/cleanrl_style_sac.py --task cartpole_swingup --steps 50000
    python examples/cleanrl_style_sac.py --method none                # the same without any representation loss

The critic's loss and the losses of the representation train the encoder in one backward pass. The actor reads the same
latents without gradient. The script prints the step, the return, the speed and the losses.
"""

from __future__ import annotations

import argparse
import copy
import random
import time

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import pamd
from pamd.methods import DEFAULT_METHOD

LOG_STD = (-5.0, 2.0)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="cartpole_swingup", help="a task of pamd.make_env")
    parser.add_argument("--method", default=DEFAULT_METHOD, help="pamd list methods; none: plain SAC")
    parser.add_argument("--steps", type=int, default=50_000, help="decisions")
    parser.add_argument("--start", type=int, default=1000, help="random decisions before learning")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--size", type=int, default=84, help="side of the picture")
    parser.add_argument("--replay", type=int, default=50_000, help="transitions that are kept")
    parser.add_argument("--latent-dim", type=int, default=50)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--tau", type=float, default=0.01, help="rate at which the target network follows")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--temperature", type=float, default=0.1, help="at the start; it is learned")
    parser.add_argument("--log-every", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )


class Critic(nn.Module):
    """Two action values [B] of a latent [B, d] and an action [B, A]."""

    def __init__(self, latent_dim: int, action_dim: int, hidden: int) -> None:
        super().__init__()
        self.q1, self.q2 = (mlp(latent_dim + action_dim, hidden, 1) for _ in range(2))

    def forward(self, z: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.cat([z, action], -1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class Actor(nn.Module):
    """A squashed Gaussian over actions, from a latent [B, d]."""

    def __init__(self, latent_dim: int, action_dim: int, hidden: int) -> None:
        super().__init__()
        self.net = mlp(latent_dim, hidden, 2 * action_dim)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return a sampled action [B, A] and its log-probability [B]."""
        mean, log_std = self.net(z).chunk(2, -1)
        low, high = LOG_STD
        log_std = low + (high - low) * (torch.tanh(log_std) + 1) / 2
        noise = torch.randn_like(mean)
        raw = mean + log_std.exp() * noise
        log_prob = (-0.5 * noise.square() - log_std - 0.5 * np.log(2 * np.pi)).sum(-1)
        # log(1 - tanh(x)^2), written so that it does not underflow.
        squash = 2 * (np.log(2) - raw - F.softplus(-2 * raw))
        return torch.tanh(raw), log_prob - squash.sum(-1)


class Replay:
    """A ring buffer of transitions in plain arrays."""

    def __init__(self, capacity: int, obs_shape: tuple[int, ...], action_dim: int) -> None:
        self.obs, self.next_obs = (np.zeros((capacity, *obs_shape), np.uint8) for _ in range(2))
        self.action = np.zeros((capacity, action_dim), np.float32)
        self.reward, self.not_done = (np.zeros(capacity, np.float32) for _ in range(2))
        self.capacity, self.added = capacity, 0

    def add(self, obs: np.ndarray, action: np.ndarray, reward: float, next_obs: np.ndarray, done: bool) -> None:
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
    random.seed(args.seed), torch.manual_seed(args.seed)
    draw = np.random.default_rng(args.seed)
    env = pamd.make_env(args.task, size=args.size, seed=args.seed)
    action_dim = env.action_space.shape[0]

    # The representation: encoder, target copy and terms of the method.
    encoder = pamd.encoder("conv", observation_shape=env.observation_space.shape, latent_dim=args.latent_dim)
    rep = pamd.Representation(
        args.method,
        encoder=encoder,
        latent_dim=args.latent_dim,
        action_dim=action_dim,
        gamma=args.gamma,
        target_encoder=True,
    )
    critic, actor = Critic(args.latent_dim, action_dim, args.hidden), Actor(args.latent_dim, action_dim, args.hidden)
    target_critic = copy.deepcopy(critic).requires_grad_(False)
    log_alpha = torch.tensor(np.log(args.temperature), dtype=torch.float32, requires_grad=True)
    own = [p for p in rep.parameters() if p.requires_grad]
    learn_critic = torch.optim.Adam([*own, *critic.parameters()], args.learning_rate)
    learn_actor = torch.optim.Adam(actor.parameters(), args.learning_rate)
    learn_alpha = torch.optim.Adam([log_alpha], 1e-4)
    replay = Replay(min(args.replay, args.steps), env.observation_space.shape, action_dim)

    returns, total, logged, began = [], 0.0, {}, time.time()
    obs, _ = env.reset()
    for step in range(args.steps):
        # Act.
        if step < args.start:
            action = draw.uniform(-1, 1, action_dim).astype(np.float32)
        else:
            with torch.no_grad():
                action = actor(rep.encode(torch.from_numpy(obs)[None]))[0][0].numpy()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        replay.add(obs, action, reward, next_obs, terminated)  # Bootstrap at a time limit.
        obs, total = next_obs, total + reward
        if terminated or truncated:
            returns, total = [*returns, total], 0.0
            obs, _ = env.reset()
        if step < args.start:
            continue

        # Update the critic and the representation in one backward pass.
        o, a, r, o2, not_done = replay.sample(args.batch, draw)
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            z2 = rep.target_encoders["ema"](o2)
            a2, log_prob2 = actor(rep.encode(o2))
            target = r + args.gamma * not_done * (torch.minimum(*target_critic(z2, a2)) - alpha * log_prob2)
        z = rep.encode(o)
        q1, q2 = critic(z, a)
        td = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        losses = rep.losses(o, a, r, o2, not_done=not_done, z=z)
        learn_critic.zero_grad()
        (td + losses.total).backward()
        learn_critic.step()

        # Update the actor and the temperature. The latents have no gradient.
        z = z.detach()
        new_action, log_prob = actor(z)
        actor_loss = (alpha * log_prob - torch.minimum(*critic(z, new_action))).mean()
        learn_actor.zero_grad()
        actor_loss.backward()
        learn_actor.step()
        alpha_loss = -(log_alpha * (log_prob.detach() - action_dim).mean())
        learn_alpha.zero_grad()
        alpha_loss.backward()
        learn_alpha.step()

        # Update the target copies.
        rep.update_targets()
        with torch.no_grad():
            for slow, fast in zip(target_critic.parameters(), critic.parameters(), strict=True):
                slow.lerp_(fast, args.tau)

        logged = {"td": float(td.detach()), "actor": float(actor_loss.detach()), "alpha": float(alpha)}
        logged |= {name: float(value) for name, value in losses.metrics.items()}
        if (step + 1) % args.log_every == 0:
            recent = float(np.mean(returns[-10:])) if returns else float("nan")
            speed = (step + 1) / (time.time() - began)
            shown = "  ".join(f"{name} {value:.4g}" for name, value in logged.items())
            print(f"step {step + 1}  return {recent:.1f}  {speed:.0f} steps/s  {shown}", flush=True)


if __name__ == "__main__":
    main()
