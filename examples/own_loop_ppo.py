"""Use a method in an on-policy loop: PPO on CartPole, whose rollouts also train `dbc-unit+pamd`."""

import sys

import gymnasium
import numpy as np
import torch
from torch import nn

import pamd

torch.set_num_threads(1), torch.manual_seed(0)
env, steps, rollout = gymnasium.make("CartPole-v1"), int(sys.argv[1]) if len(sys.argv) > 1 else 20480, 512
encoder = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 16))
rep = pamd.Representation("dbc-unit+pamd", encoder=encoder, latent_dim=16, action_dim=2)
pi, v = (nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, n)) for n in (2, 1))
optimizer = torch.optim.Adam([*rep.parameters(), *pi.parameters(), *v.parameters()], lr=1e-3)
lengths, length, obs = [], 0, env.reset(seed=0)[0]
for start in range(0, steps, rollout):
    rows = []
    for _ in range(rollout):
        with torch.no_grad():
            action = int(torch.distributions.Categorical(logits=pi(rep.encode(torch.tensor(obs)[None]))).sample())
        next_obs, _, terminated, truncated, _ = env.step(action)
        reward = np.float32(1 - abs(next_obs[2]) / 0.21)  # CartPole's own reward is always 1: no states would differ
        # The next observation is the one of this step, and not the first one of the next episode.
        rows.append((obs, action, reward, next_obs, terminated, truncated))
        obs, length = next_obs, length + 1
        if terminated or truncated:
            lengths, length, obs = [*lengths, length], 0, env.reset()[0]
    o, a, r, o2, terminated, truncated = (torch.tensor(np.array(x)) for x in zip(*rows, strict=True))
    not_done, advantage, ahead = 1 - terminated.float(), torch.zeros(rollout), 0.0
    with torch.no_grad():
        z, z2 = rep.encode(o), rep.encode(o2)
        old, value, value2 = pi(z).log_softmax(-1)[range(rollout), a], v(z)[:, 0], v(z2)[:, 0]
    delta, goes_on = r + 0.99 * not_done * value2 - value, not_done * (1 - truncated.float())
    for t in reversed(range(rollout)):
        advantage[t] = ahead = delta[t] + 0.99 * 0.95 * goes_on[t] * ahead
    for rows_ in (part for _ in range(4) for part in torch.randperm(rollout).split(64)):  # shuffled: pairs are random
        z = rep.encode(o[rows_])
        ratio = (pi(z).log_softmax(-1)[range(64), a[rows_]] - old[rows_]).exp()
        gain = (advantage[rows_] - advantage[rows_].mean()) / (advantage[rows_].std() + 1e-8)
        policy = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        fit = (v(z)[:, 0] - advantage[rows_] - value[rows_]).square().mean()
        losses = rep.losses(o[rows_], a[rows_], r[rows_], o2[rows_], not_done=not_done[rows_], z=z)
        optimizer.zero_grad(), (policy + 0.5 * fit + losses.total).backward()
        nn.utils.clip_grad_norm_([*rep.encoder.parameters(), *pi.parameters(), *v.parameters()], 0.5)
        optimizer.step(), rep.update_targets()  # once per gradient step, as in any other loop
    shown = f"length {np.mean(lengths[-10:]):.0f}  metric loss {losses.metrics['metric_loss']:.4f}"
    print(f"step {start + rollout}  {shown}")
