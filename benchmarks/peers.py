"""Training compared with plain SAC of Stable-Baselines3: same task, image and batch, and one update per decision."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.common import TASK, Options, make_session
from pamd.configuration import configure
from pamd.envs import build_env
from pamd.measure import interleave, ratio, train_once
from pamd.replay import ReplayConfig, forecast
from pamd.table import Table
from pamd.training import TrainConfig
from pamd.training.process import Stopwatch

__all__ = ["PEERS", "Convolutions", "measure", "peer"]

ON_REQUEST = "requires pamd[sb3]"
RANDOM = 150
"""The replay capacity of a peer, and its decisions before the first update."""
OURS = ("simsr+pamd", "dbc-det+pamd")
PEERS: dict[str, dict[str, Any]] = {
    "SB3 SAC, our convolutions": {"extractor": "ours"},
    "SB3 SAC, our convolutions, shared by actor and critic": {"extractor": "ours", "shared": True},
    "SB3 SAC, its NatureCNN": {"extractor": "nature"},
    "SB3 SAC, our convolutions, optimize_memory_usage": {"extractor": "ours", "compact": True},
}
"""Options of `peer`. The first entry is the reference: the setup that a user would write."""
_NATURE_SIZE = 36
"""The smallest image size that NatureCNN accepts, in pixels."""
YARDSTICK = next(iter(PEERS))
SCALES = {"cpu": ("joint", 10), "paper": ("joint", 2), "paper, sequential": ("sequential", 2)}
"""Schedule and decisions per repetition: an even number, as our actor learns in every second update at paper scale."""


@dataclass
class Contender:
    """One entry of the comparison. `run` makes some decisions, each with an update."""

    run: Callable[[], object]
    bytes_per_transition: float
    cpu: list[float] = field(default_factory=list)

    def timed(self) -> None:
        start = time.process_time()
        self.run()
        self.cpu.append(time.process_time() - start)


class Convolutions(nn.Module):
    """The convolutions and latent layer of a run's encoder as plain layers: [B, C, H, W] -> [B, d]."""

    def __init__(self, config: TrainConfig, shape: tuple[int, ...]) -> None:
        super().__init__()
        options, layers, channels = config.encoder.options, [], shape[0]
        for stride in options.strides:
            layers += [nn.Conv2d(channels, options.filters, 3, stride), nn.ReLU()]
            channels = options.filters
        self.trunk = nn.Sequential(*layers, nn.Flatten())
        features = self.trunk(torch.zeros(1, *shape)).shape[1]
        d = config.method.latent_dim
        self.head = nn.Sequential(nn.Linear(features, d), nn.LayerNorm(d))

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.head(self.trunk(x))
        return z


def measure(options: Options) -> Table:
    from pamd.integrations.requirements import require_library

    require_library("this benchmark", "stable-baselines3", (2, 9), "sb3")
    rows = [row for name in SCALES for row in _rows(name, options)]
    notes = (
        f"{TASK}, the same rendering, image, batch and learning rate; one update per decision; both act, render, step,"
        " store, sample and update. One process, measured alternately; ratios are medians (quartiles). SB3 also"
        " runs with our allocator setting, which it does not have by itself.",
        "x decisions/s: decisions per second of wall time over those of SB3's SAC with our convolutions. x CPU: its"
        " processor time per decision over this row's.",
        "our convolutions: those of the scale as plain layers, a linear layer to d = 50 and LayerNorm, in SB3's SAC"
        " once for the actor and once for the critic (and its target). Shared: one for both, which SB3 then trains by"
        " the actor's loss alone. NatureCNN: SB3's own, with strides 4, 2, 1; it requires 36 x 36 pixels.",
        "SB3 updates the actor at every update, ours at every update at scale cpu and (as in the paper) at every second"
        " one at paper scale.",
        "KB per transition: size of the replay's arrays divided by its capacity. optimize_memory_usage stores one"
        " observation per transition, and SB3 then cannot distinguish time limits from terminations.",
    )
    return Table.from_records(
        "peers", f"training compared with Stable-Baselines3, {options.threads} threads", rows, notes
    )


def peer(config: TrainConfig, extractor: str, shared: bool = False, compact: bool = False, size: int = RANDOM) -> Any:
    """Make SB3's SAC with the environment and sizes of `config`, and fill its replay with at least one batch."""
    from stable_baselines3 import SAC
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Extractor(BaseFeaturesExtractor):
        def __init__(self, space: Any) -> None:
            super().__init__(space, config.method.latent_dim)
            self.net = Convolutions(config, space.shape)

        def forward(self, observations: Tensor) -> Tensor:
            z: Tensor = self.net(observations)
            return z

    learner = config.learner.options
    policy: dict[str, Any] = {"net_arch": [learner.hidden] * 2, "share_features_extractor": shared}
    if extractor == "ours":
        policy["features_extractor_class"] = Extractor
    model = SAC(
        "CnnPolicy",
        build_env(config.env, seed=0),
        learning_rate=learner.learning_rate,
        batch_size=learner.batch,
        buffer_size=size,
        learning_starts=size,
        gamma=learner.gamma,
        optimize_memory_usage=compact,
        replay_buffer_kwargs={"handle_timeout_termination": False} if compact else None,
        policy_kwargs=policy,
        seed=0,
        device="cpu",
    )
    return model.learn(size)


def _peers_for(size: int) -> dict[str, dict[str, Any]]:
    """Return the peers that accept images of `size` x `size` pixels."""
    return {title: setup for title, setup in PEERS.items() if setup["extractor"] == "ours" or size >= _NATURE_SIZE}


def _rows(name: str, options: Options) -> list[dict[str, Any]]:
    schedule, decisions = SCALES[name]
    scale = name.partition(",")[0]
    with ExitStack() as stack:
        contenders = {
            method: stack.enter_context(_ours(method, scale, schedule, decisions, options.threads)) for method in OURS
        }
        config = configure(TASK, "sac", scale=scale)
        for title, setup in _peers_for(config.env.size).items():
            model = peer(config, **setup)
            stack.callback(model.get_env().close)
            contenders[title] = Contender(_learning(model, decisions), _bytes(model.replay_buffer))
        wall = interleave({key: one.timed for key, one in contenders.items()}, options.repetitions)
    theirs = contenders[YARDSTICK]
    return [
        {
            "scale": name if scale != "paper" else f"{name} (84x84)",
            "trained": key,
            "decisions/s": round(decisions / statistics.median(wall[key]), 2),
            "x decisions/s": str(ratio(wall[YARDSTICK], wall[key])),
            "CPU ms per decision": round(1e3 * statistics.median(one.cpu[1:]) / decisions, 1),
            "x CPU": str(ratio(theirs.cpu[1:], one.cpu[1:])),
            "KB per transition": round(one.bytes_per_transition / 1e3, 1),
            "of SB3's memory": round(one.bytes_per_transition / theirs.bytes_per_transition, 3),
        }
        for key, one in contenders.items()
    ]


@contextmanager
def _ours(method: str, scale: str, schedule: str, decisions: int, threads: int) -> Iterator[Contender]:
    with make_session(method, scale, schedule, threads) as session:
        clock = Stopwatch()

        def run() -> None:
            for _ in range(decisions):
                train_once(session, clock)

        env, action = session.config.env, int(session.env.action_space.shape[0])  # type: ignore[index]
        kept = forecast(ReplayConfig(1_000_000), (3, env.size, env.size), action, 0)
        yield Contender(run, kept.bytes_per_transition)


def _learning(model: Any, decisions: int) -> Callable[[], object]:
    return lambda: model.learn(decisions, reset_num_timesteps=False)


def _bytes(buffer: Any) -> float:
    """Return the bytes per transition of SB3's replay."""
    names = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
    arrays = [getattr(buffer, name, None) for name in names]
    return float(sum(array.nbytes for array in arrays if array is not None) / buffer.buffer_size)
