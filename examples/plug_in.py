"""Add PAMD to existing code with its own encoder, latent model and replay: one distance and one loss."""

import torch
from torch import nn

import pamd

torch.manual_seed(0)

# The existing code: an encoder, a latent model, and a replay of (observation, action, reward, next observation).
encoder = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 16), nn.LayerNorm(16))
model = nn.Linear(16 + 2, 16)
replay = {"obs": torch.randn(1000, 24), "action": torch.rand(1000, 2) * 2 - 1}
replay["reward"] = replay["obs"][:, 0].tanh()
replay["next_obs"] = replay["obs"] + 0.1 * torch.randn(1000, 24)

# The added parts. The optimizer also trains the distance.
distance = pamd.distance("pamd", latent_dim=16)
operator = pamd.operator("independent", gamma=0.9, next_latents="model", c_R="1-gamma")
optimizer = torch.optim.Adam([*encoder.parameters(), *model.parameters(), *distance.parameters()], lr=1e-3)

for step in range(301):
    rows = torch.randint(1000, (128,))
    z = encoder(replay["obs"][rows])
    z_next = encoder(replay["next_obs"][rows]).detach()
    predicted = model(torch.cat([z, replay["action"][rows]], dim=-1))
    latents = pamd.Latents(z=z, reward=replay["reward"][rows], next_sample=predicted)
    metric = pamd.metric_loss(latents, distance, operator)
    loss = metric.value + (predicted - z_next).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step:3d}   metric loss {metric.metrics['metric_loss']:.5f}   loss {loss.item():.4f}")
