"""Other people's SAC on our tasks, for `learning`: Stable-Baselines3, and plain PyTorch in the style of single files.

`python -m benchmarks.rivals TASK RIVAL SEED FILE` trains one run on one thread and appends a line to FILE at each
evaluation. It ends at the stated return or the time limit. A run that was interrupted starts again. Runs share FILE.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.peers import Convolutions
from pamd.configuration import configure
from pamd.envs import build_env
from pamd.errors import UnknownNameError
from pamd.training import TrainConfig
from pamd.training.evaluate import EVALUATION

__all__ = ["RIVALS", "PlainSac", "Point", "Rival", "load_points", "rivals_of", "train"]

CAPACITY = 100_000
"""The replay's capacity from pixels. Memory is taken as it fills: 127 KB per decision in SB3 at 84x84."""
CAPACITY_OF_STATES = 1_000_000


class Point(NamedTuple):
    """An evaluation, and the training time before it."""

    seconds: float
    """Wall time of training, without evaluations and checkpoints."""
    cpu_seconds: float
    """CPU time of the process during these seconds."""
    decisions: int
    frames: int
    mean: float
    """The mean return over the episodes of the evaluation."""


class Rival(NamedTuple):
    """An implementation of SAC and its settings."""

    library: str
    pixels: bool
    settings: tuple[str, ...] = ()
    """Changes to the config whose environment it trains on."""
    ours: bool = False
    """Whether it has the sizes of our scale: image, encoder, hidden layers, batch and learning rate."""


RIVALS = {
    "SB3, our sizes": Rival("sb3", pixels=True, ours=True),
    "SB3, 84x84": Rival("sb3", pixels=True, settings=("env.size=84", "env.antialias=1")),
    "plain PyTorch, our sizes": Rival("plain", pixels=True, ours=True),
    "SB3, our sizes (states)": Rival("sb3", pixels=False, ours=True),
    "SB3, its defaults (states)": Rival("sb3", pixels=False),
    "plain PyTorch (states)": Rival("plain", pixels=False),
}


def rivals_of(task: str) -> tuple[str, ...]:
    """Return the rivals on a task: those from pixels or those on states."""
    return tuple(name for name, rival in RIVALS.items() if rival.pixels != task.startswith("state:"))


def load_points(file: Path) -> dict[tuple[str, str, int], list[Point]]:
    """Return the evaluations of each run in a log, by task, rival and seed. Only a run's last start counts."""
    runs: dict[tuple[str, str, int], list[Point]] = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        task, name, seed, *point = json.loads(line)
        if point:
            runs[task, name, seed].append(Point(*point))
        else:
            runs[task, name, seed] = []
    return runs


class Clock:
    """Training time so far, without evaluations: wall time and CPU time of this process."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self._since = time.perf_counter(), time.process_time()

    def pause(self) -> None:
        wall, cpu = self._since
        self.wall, self.cpu = self.wall + time.perf_counter() - wall, self.cpu + time.process_time() - cpu

    def resume(self) -> None:
        self._since = time.perf_counter(), time.process_time()


def train(
    task: str, name: str, seed: int, file: Path, *, target: float, limit: float, every: int = 1_000, episodes: int = 5
) -> None:
    """Train a rival until an evaluation has the return `target`, or for `limit` seconds."""
    if name not in rivals_of(task):
        raise UnknownNameError(f"rival on {task}", name, rivals_of(task))
    rival = RIVALS[name]
    config = configure(task, "sac", scale="cpu" if rival.pixels else "state", seed=seed, settings=rival.settings)
    repeat = config.env.action_repeat
    assert repeat is not None
    clock = Clock()

    def write(*point: float) -> None:
        """Add a line: task, rival, seed and the fields of a point. The line of a start has no point."""
        with file.open("a") as log:  # one short write per line, so that several runs can share the file
            log.write(json.dumps([task, name, seed, *point]) + "\n")

    write()

    def evaluated(decisions: int, act: Callable[[NDArray[Any]], NDArray[np.float32]]) -> bool:
        """Evaluate the policy on the episodes that our runs use, add a line, and return whether the run is over."""
        clock.pause()
        env, returns = build_env(config.env, seed=seed + EVALUATION), []
        for _ in range(episodes):
            obs, _ = env.reset()
            total, over = 0.0, False
            while not over:
                obs, reward, terminated, truncated, _ = env.step(act(obs))
                total, over = total + float(reward), terminated or truncated
            returns.append(total)
        env.close()
        point = Point(clock.wall, clock.cpu, decisions, decisions * repeat, float(np.mean(returns)))
        write(*point)
        clock.resume()
        return point.mean >= target or point.seconds >= limit

    torch.manual_seed(seed)
    runners = {"sb3": _train_sb3, "plain": _train_plain}
    runners[rival.library](config, rival, lambda n, act: n % every == 0 and evaluated(n, act))


def _capacity(rival: Rival) -> int:
    return CAPACITY if rival.pixels else CAPACITY_OF_STATES


Evaluated = Callable[[int, Callable[[NDArray[Any]], NDArray[np.float32]]], bool]
"""Called after each decision with their number and the policy. True ends the run."""


def _train_sb3(config: TrainConfig, rival: Rival, evaluated: Evaluated) -> None:
    """Train SAC of Stable-Baselines3: with its defaults, or with the sizes of our scale."""
    from stable_baselines3 import SAC
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Extractor(BaseFeaturesExtractor):
        """The convolutions of our scale as plain layers."""

        def __init__(self, space: Any) -> None:
            super().__init__(space, config.method.latent_dim)
            self.net = Convolutions(config, space.shape)

        def forward(self, observations: Tensor) -> Tensor:
            z: Tensor = self.net(observations)
            return z

    class Evaluations(BaseCallback):
        def _on_step(self) -> bool:
            policy = self.model.policy
            return not evaluated(self.num_timesteps, lambda obs: policy.predict(obs, deterministic=True)[0])

    options: dict[str, Any] = {"buffer_size": _capacity(rival), "seed": config.seed, "device": "cpu"}
    if rival.ours:
        learner = config.learner.options
        options |= {"learning_rate": learner.learning_rate, "batch_size": learner.batch, "tau": learner.critic_tau}
        options |= {"learning_starts": learner.random_decisions, "policy_kwargs": {"net_arch": [learner.hidden] * 2}}
        if rival.pixels:
            options["policy_kwargs"]["features_extractor_class"] = Extractor
    env = build_env(config.env, seed=config.seed)
    model = SAC("CnnPolicy" if rival.pixels else "MlpPolicy", env, **options)
    model.learn(10**9, callback=Evaluations())


def _train_plain(config: TrainConfig, rival: Rival, evaluated: Evaluated) -> None:
    """Train `PlainSac` as scripts do: act, store both observations, sample, update."""
    env, rng = build_env(config.env, seed=config.seed), np.random.default_rng(config.seed)
    obs, _ = env.reset()
    (actions,) = env.action_space.shape or (0,)
    learner = config.learner.options
    encoder: nn.Module = Convolutions(config, obs.shape) if rival.pixels else nn.Identity()
    features = config.method.latent_dim if rival.pixels else obs.shape[0]
    agent = PlainSac(encoder, features, actions, *((learner.batch, learner.learning_rate) if rival.ours else ()))
    capacity = _capacity(rival)
    stored: list[NDArray[Any]] = [np.zeros((capacity, *obs.shape), obs.dtype) for _ in range(2)]
    stored += [np.zeros((capacity, actions), np.float32), *(np.zeros(capacity, np.float32) for _ in range(2))]
    for step in range(1, 10**9):
        random = step <= learner.random_decisions
        action = env.action_space.sample() if random else agent.act(obs, explore=True)
        following, reward, terminated, truncated, _ = env.step(action)
        for array, value in zip(stored, (obs, following, action, reward, terminated), strict=True):
            array[(step - 1) % capacity] = value
        obs = env.reset()[0] if terminated or truncated else following
        if not random:
            rows = rng.integers(0, min(step, capacity), agent.batch)
            agent.update(*(torch.as_tensor(array[rows]) for array in stored))
        if evaluated(step, agent.act):
            return


def _mlp(inputs: int, outputs: int, hidden: int = 256) -> nn.Sequential:
    layers = (nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs))
    return nn.Sequential(*layers)


class PlainSac:
    """SAC in plain PyTorch: two critics, a squashed Gaussian actor, a learned temperature. The critic trains `encoder`.

    The actor learns twice at every second update. Defaults are those of common single-file scripts.
    """

    def __init__(self, encoder: nn.Module, features: int, actions: int, batch: int = 256, rate: float = 1e-3) -> None:
        self.batch, self.actions, self.updates = batch, actions, 0
        self.critic = nn.ModuleList([encoder, *(_mlp(features + actions, 1) for _ in range(2))])
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor, self.log_alpha = _mlp(features, 2 * actions), torch.zeros((), requires_grad=True)
        self.critic_adam = torch.optim.Adam(self.critic.parameters(), lr=rate)
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.alpha_adam = torch.optim.Adam([self.log_alpha], lr=rate)

    @torch.no_grad()
    def act(self, obs: NDArray[Any], explore: bool = False) -> NDArray[np.float32]:
        """Return the action for one observation: sampled to explore, else the policy's mode."""
        z = self.critic[0](_as_float(torch.as_tensor(obs[None])))
        action = self._sample(z)[0] if explore else torch.tanh(self.actor(z).chunk(2, -1)[0])
        chosen: NDArray[np.float32] = action[0].numpy()
        return chosen

    def update(self, obs: Tensor, next_obs: Tensor, action: Tensor, reward: Tensor, done: Tensor) -> None:
        """Make one update on a batch."""
        self.updates += 1
        obs, next_obs = _as_float(obs), _as_float(next_obs)
        with torch.no_grad():
            chosen, log_prob = self._sample(self.critic[0](next_obs))
            value = self._min_q(self.target, self.target[0](next_obs), chosen)
            goal = reward + 0.99 * (1 - done) * (value - self.log_alpha.exp() * log_prob)
        z = self.critic[0](obs)
        joined = torch.cat([z, action], -1)
        loss = F.mse_loss(self.critic[1](joined)[:, 0], goal) + F.mse_loss(self.critic[2](joined)[:, 0], goal)
        self.critic_adam.zero_grad()
        loss.backward()
        self.critic_adam.step()
        if self.updates % 2 == 0:
            for _ in range(2):
                self._update_actor(z.detach())
        with torch.no_grad():
            for target, online in zip(self.target.parameters(), self.critic.parameters(), strict=True):
                target.lerp_(online, 0.005)

    def _update_actor(self, z: Tensor) -> None:
        action, log_prob = self._sample(z)
        loss = (self.log_alpha.exp().detach() * log_prob - self._min_q(self.critic, z, action)).mean()
        self.actor_adam.zero_grad()
        loss.backward()
        self.actor_adam.step()
        temperature = -self.log_alpha.exp() * (log_prob.detach() - self.actions).mean()
        self.alpha_adam.zero_grad()
        temperature.backward()
        self.alpha_adam.step()

    def _min_q(self, critic: nn.ModuleList, z: Tensor, action: Tensor) -> Tensor:
        joined = torch.cat([z, action], -1)
        return torch.minimum(critic[1](joined), critic[2](joined))[:, 0]

    def _sample(self, z: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = self.actor(z).chunk(2, -1)
        log_std, noise = -5 + 3.5 * (torch.tanh(raw) + 1), torch.randn_like(mean)
        action = torch.tanh(mean + log_std.exp() * noise)
        density = -noise.square() / 2 - log_std - math.log(2 * math.pi) / 2 - torch.log(1 - action.square() + 1e-6)
        return action, density.sum(-1)


def _as_float(obs: Tensor) -> Tensor:
    return obs.float() / 255 if obs.dtype == torch.uint8 else obs


def main(words: Sequence[str] | None = None) -> None:
    """Train one run."""
    parser = argparse.ArgumentParser("python -m benchmarks.rivals")
    parser.add_argument("task")
    parser.add_argument("rival")
    parser.add_argument("seed", type=int)
    parser.add_argument("file", type=Path)
    parser.add_argument("--target", type=float, default=math.inf)
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds of training")
    chosen = parser.parse_args(words)
    torch.set_num_threads(1)
    train(chosen.task, chosen.rival, chosen.seed, chosen.file, target=chosen.target, limit=chosen.limit)


if __name__ == "__main__":
    main(sys.argv[1:])
