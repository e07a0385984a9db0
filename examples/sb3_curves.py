"""Learning curves of Stable-Baselines3 with and without a behavioral metric, one run directory for each curve.

    python examples/sb3_curves.py                                     # every task, method and seed, one after the other
    python examples/sb3_curves.py cartpole_swingup simsr+pamd 0       # one of them
    python examples/sb3_curves.py --plot                              # results/integrations/learning-curves.png

Run the same command again to continue where it stopped: a run is saved at every evaluation, and a finished one is left
alone. Every row of eval.jsonl has decisions, frames and updates. "none" is plain SB3 with the same kind of policy.
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

METHODS = ("none", "simsr+pamd", "mico")
SEEDS = (0, 1)
DQN = {"train_freq": 4, "exploration_final_eps": 0.05, "target_update_interval": 1000}
TASKS: dict[str, dict[str, Any]] = {
    "cartpole_swingup": {
        "algorithm": "SAC",
        "decisions": 30_000,
        "frames": 4,
        "options": {
            "buffer_size": 20_000,
            "learning_starts": 1000,
            "batch_size": 128,
            "learning_rate": 1e-3,
            "ent_coef": "auto_0.1",
            "tau": 0.01,
        },
    },
    "MinAtar/Breakout-v1": {
        "algorithm": "DQN",
        "decisions": 300_000,
        "frames": 1,
        "options": {**DQN, "buffer_size": 100_000, "learning_starts": 5000, "learning_rate": 2.5e-4},
    },
    "ALE/Pong-v5": {
        "algorithm": "DQN",
        "decisions": 200_000,
        "frames": 4,
        "options": {**DQN, "buffer_size": 20_000, "learning_starts": 5000, "learning_rate": 1e-4},
    },
}
EVALUATIONS = 20
"""Of a run, each of 5 episodes."""


class Gray(gymnasium.ObservationWrapper[Any, Any, Any]):
    """ALE's gray pictures [210, 160] as [1, 84, 84]."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = spaces.Box(0, 255, (1, 84, 84), np.uint8)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return resize(observation[:, :, None], 84).transpose(2, 0, 1)


class Planes(gymnasium.ObservationWrapper[Any, Any, Any]):
    """MinAtar's truth values [10, 10, C] as pictures [C, 10, 10]."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        height, width, channels = env.observation_space.shape or ()
        self.observation_space = spaces.Box(0, 255, (channels, height, width), np.uint8)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(observation.transpose(2, 0, 1)).astype(np.uint8) * 255


def make_env(task: str, seed: int) -> VecEnv:
    """The environment of a task, as SB3 takes it."""
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
        env = DummyVecEnv([lambda: Monitor(pamd.make_env(task, size=64, render="fast", seed=seed))])
    env.seed(seed)
    return env


def make_class(algorithm: str, method: str) -> tuple[Any, Any]:
    """The class of an algorithm with a method, and its policy."""
    plain: Any = getattr(stable_baselines3, algorithm)
    return (plain if method == "none" else with_metric(plain, method)), LATENT_POLICIES[algorithm]


def run(task: str, method: str, seed: int, decisions: int | None, out: Path, saved: Path) -> Path:
    """Train one agent, or continue it; rows go to eval.jsonl."""
    setting = TASKS[task]
    decisions = decisions or setting["decisions"]
    name = f"{task.replace('/', '-')}_{method}_s{seed}"
    folder, kept = out / name, saved / name
    folder.mkdir(parents=True, exist_ok=True), kept.mkdir(parents=True, exist_ok=True)
    cls, policy = make_class(setting["algorithm"], method)
    env, test_env = make_env(task, seed), make_env(task, seed + 1000)
    rows = folder / "eval.jsonl"
    if (kept / "model.zip").exists():
        model = cls.load(kept / "model.zip", env=env, device="cpu")
        model.load_replay_buffer(kept / "replay.pkl")
        model.set_random_seed(seed + model.num_timesteps)
        done = [line for line in rows.read_text().splitlines() if json.loads(line)["decisions"] <= model.num_timesteps]
        rows.write_text("".join(f"{line}\n" for line in done))
    else:
        model = cls(policy, env, seed=seed, device="cpu", **setting["options"])
        rows.write_text("")
        described = {"task": task, "method": method, "seed": seed, **setting, "decisions": decisions}
        (folder / "config.json").write_text(json.dumps(described, indent=1) + "\n")
    evaluation = Evaluation(test_env, rows, kept, max(1, decisions // EVALUATIONS), setting["frames"])
    if model.num_timesteps < decisions:
        # In one call, because schedules read how much of it is left.
        model.learn(decisions - model.num_timesteps, callback=evaluation, reset_num_timesteps=False)
    env.close(), test_env.close()
    return folder


class Evaluation(BaseCallback):
    """At every `every`-th decision: evaluate, save, then add a row."""

    def __init__(self, env: VecEnv, rows: Path, kept: Path, every: int, repeat: int) -> None:
        super().__init__()
        self.env, self.rows, self.kept, self.every, self.repeat = env, rows, kept, every, repeat

    def _on_step(self) -> bool:
        if self.num_timesteps % self.every:
            return True
        returns, _ = evaluate_policy(self.model, self.env, n_eval_episodes=5, return_episode_rewards=True)
        row = {
            "decisions": self.num_timesteps,
            "frames": self.num_timesteps * self.repeat,
            "updates": int(self.model._n_updates),
            "return": float(np.mean(returns)),
            "returns": [float(x) for x in returns],
        }
        save(self.model, self.kept)
        with self.rows.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{self.rows.parent.name}  {row['decisions']} decisions  return {row['return']:.1f}", flush=True)
        return True


def save(model: Any, kept: Path) -> None:
    """Write model and replay; an interrupted write leaves the last ones in place."""
    model.save(kept / "new-model.zip")
    model.save_replay_buffer(kept / "new-replay.pkl")
    (kept / "new-replay.pkl").replace(kept / "replay.pkl")
    (kept / "new-model.zip").replace(kept / "model.zip")


def plot(out: Path) -> Path:
    """One panel for each task, one line for each method: the mean over seeds, and every seed."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(TASKS), figsize=(5 * len(TASKS), 4), squeeze=False)
    for axis, task in zip(axes[0], TASKS, strict=True):
        for index, method in enumerate(METHODS):
            curves = []
            for file in sorted(out.glob(f"{task.replace('/', '-')}_{method}_s*/eval.jsonl")):
                rows = [json.loads(line) for line in file.read_text().splitlines()]
                curves.append(([row["frames"] for row in rows], [row["return"] for row in rows]))
                axis.plot(*curves[-1], color=f"C{index}", alpha=0.3)
            if curves:
                shortest = min(len(x) for x, _ in curves)
                mean = np.mean([y[:shortest] for _, y in curves], axis=0)
                label = f"{method} ({len(curves)} seeds)"
                axis.plot(curves[0][0][:shortest], mean, color=f"C{index}", label=label)
        axis.set(title=f"{TASKS[task]['algorithm']}, {task}", xlabel="frames", ylabel="return of 5 episodes")
        if axis.lines:
            axis.legend()
    figure.tight_layout()
    figure.savefig(out / "learning-curves.png", dpi=120)
    plt.close(figure)
    return out / "learning-curves.png"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", choices=list(TASKS))
    parser.add_argument("method", nargs="?", choices=METHODS)
    parser.add_argument("seed", nargs="?", type=int)
    parser.add_argument("--decisions", type=int, help="another budget than the task's")
    parser.add_argument("--out", type=Path, default=Path("results/integrations"))
    parser.add_argument("--saved", type=Path, default=Path("runs/integrations"), help="models and replays: gigabytes")
    parser.add_argument("--plot", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.plot:
        print(plot(args.out))
        return
    for seed in SEEDS if args.seed is None else (args.seed,):
        for task in (args.task,) if args.task else TASKS:
            for method in (args.method,) if args.method else METHODS:
                run(task, method, seed, args.decisions, args.out, args.saved)


if __name__ == "__main__":
    main()
