"""Use a complete method in your own training loop with discrete actions: DQN on CartPole with `dbc-unit+pamd`."""

import random
import sys

import gymnasium
import numpy as np
import torch
from torch import nn

import pamd

torch.set_num_threads(1), torch.manual_seed(0), random.seed(0)
env, steps = gymnasium.make("CartPole-v1"), int(sys.argv[1]) if len(sys.argv) > 1 else 8000
encoder = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 16))
rep = pamd.Representation("dbc-unit+pamd", encoder=encoder, latent_dim=16, action_dim=2)
q, q_target = (nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2)) for _ in range(2))
optimizer = torch.optim.Adam([*rep.parameters(), *q.parameters()], lr=5e-4)
replay, lengths, age, obs = [], [], 0, env.reset(seed=0)[0]

for step in range(steps):
    with torch.no_grad():
        greedy = int(q(rep.encode(torch.tensor(obs)[None])).argmax())
    action = random.randrange(2) if random.random() < max(0.05, 1 - step / 3000) else greedy
    next_obs, _, terminated, truncated, _ = env.step(action)
    reward = np.float32(1 - abs(next_obs[2]) / 0.21)  # CartPole's own reward is always 1, so no states would differ
    replay.append((obs, action, reward, next_obs, np.float32(terminated)))
    obs, age = next_obs, age + 1
    if terminated or truncated:
        lengths, age, obs = [*lengths, age], 0, env.reset()[0]
    if step < 500:
        continue
    o, a, r, o2, done = (torch.tensor(np.array(x)) for x in zip(*random.sample(replay, 64), strict=True))
    z, target = rep.encode(o), r + 0.99 * (1 - done) * q_target(rep.encode(o2)).amax(1)
    td = nn.functional.smooth_l1_loss(q(z).gather(1, a[:, None])[:, 0], target.detach())
    losses = rep.losses(o, a, r, o2, z=z)  # "transition", "reward" and "metric"; int64 actions are one-hot encoded
    optimizer.zero_grad(), (td + losses.total).backward(), optimizer.step(), rep.update_targets()
    if step % 250 == 0:
        q_target.load_state_dict(q.state_dict())
        print(f"step {step}  length {np.mean(lengths[-10:]):.0f}  metric loss {losses.metrics['metric_loss']:.4f}")
