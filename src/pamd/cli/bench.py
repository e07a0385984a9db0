"""`pamd bench`: the speed and memory of one config on this machine."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Annotated, Any

from pamd.cli.console import prepare_clips, print_text
from pamd.cli.parser import Without
from pamd.cli.train import RUN_GROUPS, Settings, build_config
from pamd.configuration import RunOptions
from pamd.envs import choose_egl_device
from pamd.errors import ConfigError
from pamd.settings import override
from pamd.training.config import Runtime, TrainConfig

_BENCHMARKS = (
    *("update", "head", "replay", "render", "distractors", "pipeline", "capacity", "learning", "encoders", "peers"),
    "integrations",
)
MOVED = {
    **{name: f"`python -m benchmarks {name}` in a clone of the repository" for name in _BENCHMARKS},
    **{name: f"`python -m tests.reliability {name}` in a clone" for name in ("kills", "mutations", "soak")},
    **{name: f"`pamd reproduce table-{name}`" for name in ("flops", "scaling")},
}
"""The benchmarks that `pamd bench NAME` ran up to version 0.2.0, and what runs them now."""
_REPLAY = 10_000
"""The largest replay of the measured session. The replay of a whole run is forecast."""

_UNUSED = (*RUN_GROUPS["evaluation and logs"], "memory")
"""Options of `pamd train` that no measured decision depends on."""
GROUPS = {
    "bench": {
        "run": ("method", "scale", "decisions", "seed", "config", "trust", "set_"),
        **{title: names for title, names in RUN_GROUPS.items() if title != "evaluation and logs"},
        "machine": ("device", "threads", "egl_device", "seconds", "json_"),
    }
}


def bench(
    task: str | None = None,
    /,
    options: Annotated[RunOptions, Without(_UNUSED)] = RunOptions(),  # noqa: B008
    config: Path | None = None,
    set_: Settings = (),
    runtime: Annotated[Runtime, Without(_UNUSED)] = Runtime(),  # noqa: B008
    seconds: float = 20.0,
    json_: bool = False,
    trust: bool = False,
    egl_device: int | None = None,
) -> None:
    """Measure decisions per second and memory of a run on this machine. It takes the options of `pamd train`.

    The measured decisions include updates, but no evaluations or checkpoints. No run directory is kept.

    Args:
        task: a task, e.g. cheetah_run, state:cheetah_run, metaworld:reach-v3, gym:ID or toy; see `pamd list tasks`
        config: a config.json to measure, instead of a task and options; override its fields with --set
        set_: any field of the config, e.g. method.metric.pairing=all learner.batch=256
        seconds: time of the measurement, after a short warm-up
        json_: print the result as JSON
        trust: import the module that the task of --config names, as in gym:module:ID
        egl_device: number of the EGL device that renders; see `pamd doctor` (default: MuJoCo's choice)
    """
    if seconds <= 0:
        raise ConfigError(f"bench: seconds must be positive, got {seconds:g}")
    choose_egl_device(egl_device)
    made = prepare_clips(build_config("bench", task, options, config, set_, runtime, trust), print_text)
    row = _measure(made, seconds)
    if json_:
        sys.stdout.write(json.dumps(row) + "\n")
        return
    width = max(map(len, row))
    print_text("\n".join(f"{name:<{width}}  {value}" for name, value in row.items()), stderr=False)


def _measure(config: TrainConfig, seconds: float) -> dict[str, Any]:
    """Train for about `seconds` after a warm-up. Return the speed, the share of each part, and the memory."""
    import torch

    from pamd.measure import learning_session, machine, train_once
    from pamd.replay import forecast
    from pamd.training.process import Stopwatch, default_threads
    from pamd.training.session import replay_plan

    threads = config.runtime.threads or default_threads(config.env)
    small = override(config, (f"replay.capacity={min(config.replay.capacity, _REPLAY)}",))
    with learning_session(small, threads) as session:
        cuda = session.device.type == "cuda"
        clock, before, start = Stopwatch(), session.budget, time.perf_counter()
        while time.perf_counter() < start + seconds:
            train_once(session, clock)
        whole, shares = clock.read()
        decisions = session.budget.decisions - before.decisions
        updates = session.budget.updates - before.updates
        layout = session.replay.layout
    capacity, margin = replay_plan(config)
    replay = forecast(capacity, layout.frame_shape, layout.action_dim, margin, layout.dtype)
    # Linux counts the largest resident size in kilobytes, macOS in bytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {
        "decisions per second": round(decisions / whole, 2),
        "updates per second": round(updates / whole, 2),
        "measured decisions": decisions,
        "budget, decisions": config.decisions,
        "budget, hours": round(config.decisions * whole / decisions / 3600, 3),
        **{f"% {name}": round(100 * share, 1) for name, share in shares.items() if name != "cpu"},
        "cores used": shares["cpu"],
        "peak memory, GB": round(peak / 1e9, 2),
        "replay, frames": capacity.capacity,
        "replay, GB of memory": round(replay.bytes_memory / 1e9, 3),
        "replay, GB of disk": round(replay.bytes_disk / 1e9, 3),
        **({"peak memory of CUDA, GB": round(torch.cuda.max_memory_allocated() / 1e9, 2)} if cuda else {}),
        **{name: value for name, value in machine(threads).items() if value is not None},
    }
