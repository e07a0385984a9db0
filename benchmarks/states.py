"""The update of a plain SAC loop on states, with and without the losses of a `Representation`, in CPU time."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.common import ACTIONS, Options
from pamd.measure import interleave, milliseconds, ratio
from pamd.representation import Representation
from pamd.table import Table

__all__ = ["METHODS", "Loop", "measure"]

STATE, LATENT, HIDDEN = 17, 50, 256
"""The sizes of a state of cheetah_run, of a latent, and of every hidden layer."""
BATCHES = (64, 128, 256)
PLAIN = "plain SAC"
METHODS = (
    "zp",
    "deepmdp",
    "dbc",
    "dbc-det",
    "dbc-det+pamd",
    "dbc-unit+pamd",
    "dbc-normed",
    "mico",
    "mico+pamd",
    "simsr",
    "simsr+pamd",
    "rap",
)
UPDATES = 10
"""Updates per repetition."""


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    layers = (nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs))
    return nn.Sequential(*layers)


class Loop:
    """SAC as somebody writes it: an encoder that the critic trains, Adam, and target networks. No environment.

    With a method, the losses of a `Representation` are added to the critic's. Everything else is the same.
    """

    def __init__(self, method: str | None, batch: int) -> None:
        torch.manual_seed(0)
        encoder = mlp(STATE, LATENT)
        self.rep = None
        if method is not None:
            self.rep = Representation(method, encoder=encoder, latent_dim=LATENT, action_dim=ACTIONS)
        self.encoder: nn.Module = nn.Sequential(encoder, nn.LayerNorm(LATENT)) if self.rep is None else self.rep.encoder
        self.q1, self.q2 = (mlp(LATENT + ACTIONS, 1) for _ in range(2))
        self.actor, self.log_temperature = mlp(LATENT, 2 * ACTIONS), torch.zeros((), requires_grad=True)
        self.online = nn.ModuleList([self.encoder, self.q1, self.q2])
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        trained = self.encoder if self.rep is None else self.rep
        critic = [p for module in (trained, self.q1, self.q2) for p in module.parameters() if p.requires_grad]
        self.critic_adam = torch.optim.Adam(critic, lr=1e-3)
        self.actor_adam = torch.optim.Adam([*self.actor.parameters(), self.log_temperature], lr=1e-3)
        self.obs, self.next_obs = (torch.randn(batch, STATE) for _ in range(2))
        self.action, self.reward = torch.rand(batch, ACTIONS) * 2 - 1, torch.rand(batch)
        self.not_done = torch.ones(batch)

    def update(self) -> None:
        """Make one update of critic, encoder, actor, temperature and target networks."""
        target_encoder, target_q1, target_q2 = self.target
        with torch.no_grad():
            action, log_prob = self._sample(self.encoder(self.next_obs))
            z_next = target_encoder(self.next_obs)
            value = torch.min(*(q(torch.cat([z_next, action], -1)) for q in (target_q1, target_q2)))[:, 0]
            goal = self.reward + 0.99 * self.not_done * (value - self.log_temperature.exp() * log_prob)
        z = self.encoder(self.obs)
        values = (q(torch.cat([z, self.action], -1))[:, 0] for q in (self.q1, self.q2))
        loss = sum((F.mse_loss(value, goal) for value in values), torch.zeros(()))
        if self.rep is not None:
            batch = (self.obs, self.action, self.reward, self.next_obs)
            loss = loss + self.rep.losses(*batch, not_done=self.not_done, z=z).total
        self.critic_adam.zero_grad()
        loss.backward()
        self.critic_adam.step()
        z = z.detach()
        action, log_prob = self._sample(z)
        value = torch.min(*(q(torch.cat([z, action], -1)) for q in (self.q1, self.q2)))[:, 0]
        entropy = -self.log_temperature.exp() * (log_prob.detach() - ACTIONS).mean()
        self.actor_adam.zero_grad()
        ((self.log_temperature.exp().detach() * log_prob - value).mean() + entropy).backward()
        self.actor_adam.step()
        with torch.no_grad():
            for target, online in zip(self.target.parameters(), self.online.parameters(), strict=True):
                target.lerp_(online, 0.005)
        if self.rep is not None:
            self.rep.update_targets()

    def _sample(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return squashed Gaussian actions [B, A] and their log-probabilities [B]."""
        mean, raw = self.actor(z).chunk(2, -1)
        log_std, noise = -5 + 3.5 * (torch.tanh(raw) + 1), torch.randn_like(mean)
        action = torch.tanh(mean + log_std.exp() * noise)
        density = -noise.square() / 2 - log_std - math.log(2 * math.pi) / 2 - torch.log(1 - action.square() + 1e-6)
        return action, density.sum(-1)


def _several(loop: Loop) -> Callable[[], None]:
    def run() -> None:
        for _ in range(UPDATES):
            loop.update()

    return run


def measure(options: Options) -> Table:
    rows = []
    for batch in BATCHES:
        runs = {name: _several(Loop(None if name == PLAIN else name, batch)) for name in (PLAIN, *METHODS)}
        seconds = interleave(runs, options.repetitions, time.process_time)
        rows += [
            {
                "batch": batch,
                "method": name,
                "update, CPU ms": round(milliseconds(seconds[name]) / UPDATES, 3),
                "x plain": str(ratio(seconds[name], seconds[PLAIN])),
            }
            for name in runs
        ]
    notes = (
        "One update of a SAC loop in plain PyTorch: states of 17 numbers, d = 50, hidden layers of 256, torch's Adam."
        " With a method, `losses` and `update_targets` of a Representation are added.",
        f"x plain: CPU time relative to the plain loop, in repetitions of {UPDATES} updates that alternate; median"
        " (quartiles). There is no environment: its time, which is the same on both sides, lowers the ratio.",
    )
    title = f"Cost of a representation on states, {options.threads} threads"
    return Table.from_records("states", title, rows, notes)
