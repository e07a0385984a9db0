"""Use a complete method in your own training loop: DDPG on Pendulum with your encoder and `dbc-unit+pamd`."""

import random
import sys

import gymnasium
import numpy as np
import torch
from torch import nn

import pamd

torch.set_num_threads(1), torch.manual_seed(0), random.seed(0)
env, steps = gymnasium.make("Pendulum-v1"), int(sys.argv[1]) if len(sys.argv) > 1 else 8000
encoder = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 16))
rep = pamd.Representation("dbc-unit+pamd", encoder=encoder, latent_dim=16, action_dim=1, target_encoder=True)
q, q_slow = (nn.Sequential(nn.Linear(17, 64), nn.ReLU(), nn.Linear(64, 1)) for _ in range(2))
pi = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh())
learn_q, learn_pi = torch.optim.Adam([*rep.parameters(), *q.parameters()]), torch.optim.Adam(pi.parameters())
replay, returns, total, obs = [], [], 0.0, env.reset(seed=0)[0]
for step in range(steps):
    with torch.no_grad():
        action = (pi(rep.encode(torch.tensor(obs)[None]))[0] + 0.2 * torch.randn(1)).clamp(-1, 1).numpy()
    next_obs, reward, _, truncated, _ = env.step(2 * action)
    replay.append((obs, action, np.float32(reward / 10), next_obs))
    obs, total = next_obs, total + float(reward)
    if truncated:
        returns, total, obs = [*returns, total], 0.0, env.reset()[0]
    if step < 500:
        continue
    o, a, r, o2 = (torch.tensor(np.array(x)) for x in zip(*random.sample(replay, 64), strict=True))
    z, z2 = rep.encode(o), rep.target_encoders["ema"](o2)
    td = (q(torch.cat([z, a], -1))[:, 0] - (r + 0.99 * q_slow(torch.cat([z2, pi(z2)], -1))[:, 0]).detach()).square()
    losses = rep.losses(o, a, r, o2, z=z)  # "transition", "reward" and "metric"
    learn_q.zero_grad(), (td.mean() + losses.total).backward(), learn_q.step(), rep.update_targets()
    learn_pi.zero_grad(), (-q(torch.cat([z.detach(), pi(z.detach())], -1)).mean()).backward(), learn_pi.step()
    for slow, fast in zip(q_slow.parameters(), q.parameters(), strict=True):
        slow.data.lerp_(fast.data, 0.01)
    if step % 500 == 0:
        print(f"step {step}  return {np.mean(returns[-5:]):.0f}  metric loss {losses.metrics['metric_loss']:.4f}")
