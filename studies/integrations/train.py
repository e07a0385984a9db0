"""Learning curves of Stable-Baselines3 with and without a behavioral metric, with one run directory per curve.

    python -m studies.integrations.train                                  # every task, method and seed, one by one
    python -m studies.integrations.train cartpole_balance simsr+pamd 0    # a single run
    python -m studies.integrations.train --pack                           # write the finished runs to runs.parquet
    python -m studies integrations                                        # tables and figure of runs.parquet

Rerun the same command to continue. Each run is saved at every evaluation, and finished runs are skipped.
Every row of eval.jsonl has decisions, frames and updates. "none" is plain SB3 with the same policy. Budgets are small:
the curves show that both kinds of agent train, not their final performance.
Requires pamd[sb3] and, for the games, pamd[atari].
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack

import pamd
from pamd.envs.gym import resize
from pamd.integrations.sb3 import with_metric
from pamd.integrations.sb3.policies import LATENT_POLICIES
from pamd.runs.campaigns import write_campaign

METHODS = ("none", "simsr+pamd", "mico")
SEEDS = (0, 1)
PACKED = ("config.json", "eval.jsonl")
DQN = {"train_freq": 4, "exploration_final_eps": 0.05, "target_update_interval": 500}
TASKS: dict[str, dict[str, Any]] = {
    "cartpole_balance": {
        "algorithm": "SAC",
        "methods": ("none", "simsr+pamd"),
        "decisions": 3000,
        "frames": 8,
        "evaluations": 12,
        "options": {
            "buffer_size": 3000,
            "learning_starts": 250,
            "batch_size": 64,
            "learning_rate": 1e-3,
            "ent_coef": "auto_0.1",
            "tau": 0.01,
        },
    },
    "MinAtar/Breakout-v1": {
        "algorithm": "DQN",
        "methods": METHODS,
        "decisions": 50_000,
        "frames": 1,
        "evaluations": 20,
        "options": {**DQN, "buffer_size": 50_000, "learning_starts": 2000, "learning_rate": 2.5e-4},
    },
    "ALE/Boxing-v5": {
        "algorithm": "DQN",
        "methods": METHODS,
        "decisions": 15_000,
        "frames": 4,
        "evaluations": 5,
        "options": {**DQN, "buffer_size": 10_000, "learning_starts": 1000, "learning_rate": 1e-4},
    },
}
"""The settings of each task. A run takes four to five minutes on one core. The usual budgets are much larger."""
SIZE = 48
"""The height and width of the images of a DMControl task."""
EPISODES = 5
"""The number of episodes per evaluation."""


class Gray(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Converts ALE's gray images [210, 160] to [1, 84, 84]."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = spaces.Box(0, 255, (1, 84, 84), np.uint8)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return resize(observation[:, :, None], 84).transpose(2, 0, 1)


class Planes(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Converts MinAtar's boolean observations [10, 10, C] to images [C, 10, 10]."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        height, width, channels = env.observation_space.shape or ()
        self.observation_space = spaces.Box(0, 255, (channels, height, width), np.uint8)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(observation.transpose(2, 0, 1)).astype(np.uint8) * 255


def make_env(task: str, seed: int) -> VecEnv:
    """Return the vectorized environment of a task for SB3."""
    if task.startswith("ALE/"):
        import ale_py

        gymnasium.register_envs(ale_py)
        game = DummyVecEnv([lambda: Monitor(Gray(gymnasium.make(task, obs_type="grayscale")))])
        env: VecEnv = VecFrameStack(game, 4)
    elif task.startswith("MinAtar/"):
        import minatar.gym

        if task not in gymnasium.registry:
            minatar.gym.register_envs()
        env = DummyVecEnv([lambda: Monitor(Planes(gymnasium.make(task, disable_env_checker=True)))])
    else:
        env = DummyVecEnv([lambda: Monitor(_suite(task, seed))])
    env.seed(seed)
    return env


def _suite(task: str, seed: int) -> Any:
    return pamd.make_env(task, size=SIZE, render="fast", action_repeat=TASKS[task]["frames"], seed=seed)


def make_class(algorithm: str, method: str) -> tuple[Any, Any]:
    """Return the class of an algorithm with a method, and its policy."""
    plain: Any = getattr(stable_baselines3, algorithm)
    return (plain if method == "none" else with_metric(plain, method)), LATENT_POLICIES[algorithm]


def run(task: str, method: str, seed: int, out: Path, saved: Path) -> Path:
    """Train one agent or continue its training. Each evaluation adds a row to eval.jsonl."""
    setting = TASKS[task]
    name = f"{task.replace('/', '-')}_{method}_s{seed}"
    folder, kept = out / name, saved / name
    if (folder / "eval.jsonl").exists() and _read(folder)[-1:] and not _left(setting, _read(folder)[-1]["decisions"]):
        return folder
    folder.mkdir(parents=True, exist_ok=True), kept.mkdir(parents=True, exist_ok=True)
    described = {"task": task, "method": method, "seed": seed, "episodes": EPISODES, **setting}
    (folder / "config.json").write_text(json.dumps(described, indent=1) + "\n")
    env, test_env = make_env(task, seed), make_env(task, seed + 1000)
    saved_before = (kept / "model.zip").exists() and (folder / "eval.jsonl").exists()
    model = _load(setting, method, env, folder, kept) if saved_before else None
    if model is None:
        cls, policy = make_class(setting["algorithm"], method)
        model = cls(policy, env, seed=seed, device="cpu", **setting["options"])
        (folder / "eval.jsonl").write_text("")
    # Call `learn` only once, because schedules depend on the remaining part of the call.
    left, evaluation = _left(setting, model.num_timesteps), Evaluation(test_env, setting, folder, kept)
    model.learn(left, callback=evaluation, reset_num_timesteps=False)
    (kept / "replay.pkl").unlink()  # up to half a gigabyte, not needed after the run
    env.close(), test_env.close()
    return folder


def _left(setting: dict[str, Any], decisions: int) -> int:
    return max(0, setting["decisions"] - decisions)


def _load(setting: dict[str, Any], method: str, env: VecEnv, folder: Path, kept: Path) -> Any:
    """Load the model of the last evaluation, and drop later rows of eval.jsonl."""
    model = make_class(setting["algorithm"], method)[0].load(kept / "model.zip", env=env, device="cpu")
    model.load_replay_buffer(kept / "replay.pkl")
    model.set_random_seed(model.seed + model.num_timesteps)
    done = [row for row in _read(folder) if row["decisions"] <= model.num_timesteps]
    (folder / "eval.jsonl").write_text("".join(json.dumps(row) + "\n" for row in done))
    return model


def _read(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "eval.jsonl").read_text().splitlines()]


class Evaluation(BaseCallback):
    """A callback that evaluates, adds a row and saves, each time after the same number of decisions."""

    def __init__(self, env: VecEnv, setting: dict[str, Any], folder: Path, kept: Path) -> None:
        super().__init__()
        self.env, self.rows, self.kept, self.repeat = env, folder / "eval.jsonl", kept, setting["frames"]
        self.every = max(1, setting["decisions"] // setting["evaluations"])

    def _on_step(self) -> bool:
        if self.num_timesteps % self.every:
            return True
        returns, _ = evaluate_policy(self.model, self.env, n_eval_episodes=EPISODES, return_episode_rewards=True)
        row = {
            "decisions": self.num_timesteps,
            "frames": self.num_timesteps * self.repeat,
            "updates": int(self.model._n_updates),
            "return": float(np.mean(returns)),
            "returns": [float(x) for x in returns],
        }
        with self.rows.open("a") as file:
            file.write(json.dumps(row) + "\n")
        save(self.model, self.kept)
        print(f"{self.rows.parent.name}  {row['decisions']} decisions  return {row['return']:.1f}", flush=True)
        return True


def save(model: Any, kept: Path) -> None:
    """Save the model and the replay. An interrupted write does not damage the previous files."""
    model.save(kept / "new-model.zip")
    model.save_replay_buffer(kept / "new-replay.pkl")
    (kept / "new-replay.pkl").replace(kept / "replay.pkl")
    (kept / "new-model.zip").replace(kept / "model.zip")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", choices=list(TASKS))
    parser.add_argument("method", nargs="?", choices=METHODS)
    parser.add_argument("seed", nargs="?", type=int)
    parser.add_argument("--out", type=Path, default=Path("runs/integrations/logs"))
    parser.add_argument("--saved", type=Path, default=Path("runs/integrations/saved"), help="models and replays")
    parser.add_argument("--pack", action="store_true", help="write the runs in --out to runs.parquet; train nothing")
    args = parser.parse_args()
    if args.pack:
        runs = sorted(path.parent for path in args.out.glob("*/config.json"))
        contents = [(run.name, {name: (run / name).read_bytes() for name in PACKED}) for run in runs]
        write_campaign(contents, Path(__file__).parent / "runs.parquet")
        return
    torch.set_num_threads(1)
    for seed in SEEDS if args.seed is None else (args.seed,):
        for task in (args.task,) if args.task else TASKS:
            for method in (args.method,) if args.method else TASKS[task]["methods"]:
                run(task, method, seed, args.out, args.saved)


if __name__ == "__main__":
    main()
