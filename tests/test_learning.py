"""Agents learn on the toy: to a stated return, with a distance that says what it should. And a broken update does not.

Random play returns 5.8 and going straight to the target 36.4 (`pamd.envs.toy`). After 1,100 decisions an agent must
return 20, its distance must correlate with differences of value, and it must not have shrunk: measured over seeds 0 to
2, returns 31 to 33, correlations 0.72 to 0.92, mean distances 0.29 to 0.46.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tests.training.runs import QUIET

import pamd.agent.agent as agent_module
from pamd.agent import representation
from pamd.agent.encoded import EncodedBatch
from pamd.configuration import configure
from pamd.errors import DivergenceError
from pamd.operators import Operator
from pamd.replay import Replay
from pamd.training import TrainConfig, checkpoint, loop, train
from pamd.training.evaluate import load_agent
from pamd.types import Loss

METHODS = ["simsr+pamd", "dbc-det+pamd"]


class Learned(NamedTuple):
    returned: float
    correlation: float
    """Of the distance with the difference of Q, over pairs from replay."""
    distance: float
    """Its mean."""

    @property
    def enough(self) -> bool:
        return self.returned >= 20 and self.correlation >= 0.55 and self.distance >= 0.2


def config(method: str, seed: int) -> TrainConfig:
    settings = {
        "scale.frame_stack": 1,
        "scale.size": 16,
        "scale.filters": 16,
        "scale.strides": [2, 2],
        "scale.batch": 32,
        "env.time_limit": None,
        "log_every": 100,
        "method.sac.random_decisions": 100,
        "method.sac.gamma": 0.95,
        "method.sac.hidden": 128,
        "method.sac.critic_tau": 0.05,
        "method.sac.encoder_tau": 0.05,
        # Keeps the fixed point within [0, 1], which both latent spaces can express.
        "method.operator.options.c_R": "1-gamma",
    }
    return configure(
        "toy",
        method,
        scale="smoke",
        schedule="joint",
        seed=seed,
        decisions=1100,
        evaluate_every=1100,
        evaluate_episodes=10,
        checkpoint_every=1100,
        runtime=QUIET,
        settings=tuple(f"{key}={json.dumps(value)}" for key, value in settings.items()),
    )


def learn(method: str, seed: int, root: Path) -> Learned:
    made = config(method, seed)
    run = train(made, root)
    returned = json.loads((run / "eval.jsonl").read_text().splitlines()[-1])["return_mean"]
    found, _ = checkpoint.newest(run / "checkpoints")
    assert found is not None
    nets = load_agent(made, found[0])[0].nets
    batch = Replay.open(run / "replay", read_only=True).sample(256, np.random.default_rng(0))
    with torch.no_grad():
        z = nets.encoder(batch.obs)
        q = torch.minimum(*nets.critic(z, batch.action))
        assert nets.distance is not None
        distance, gap = nets.distance(z, z.roll(1, 0)), (q - q.roll(1)).abs()
    return Learned(returned, float(np.corrcoef(distance, gap)[0, 1]), float(distance.mean()))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize("method", METHODS)
def test_learns_the_toy(method: str, seed: int, tmp_path: Path) -> None:
    learned = learn(method, seed, tmp_path)
    assert learned.enough, learned


def flipped(plain: Callable[..., Any]) -> Callable[..., Any]:
    def turned(*args: Any) -> Any:
        outcome = plain(*args)
        loss, rest = (outcome, None) if isinstance(outcome, Loss) else outcome
        turned_loss = Loss(-loss.value, loss.metrics)
        return turned_loss if rest is None else (turned_loss, rest)

    return turned


# On the unit sphere a target that is not detached pulls all distances to nothing; LayerNorm latents resist that for as
# long as this run lasts, so there it is for tests/operators alone to catch.
BROKEN = [(m, t) for m in METHODS for t in ("actor_loss", "critic_loss", "metric_term", "model_term")]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "term"), [*BROKEN, ("simsr+pamd", "attached target")])
def test_a_broken_update_does_not(method: str, term: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign flipped, or the gradient let through the metric target: each fails what the test above asks."""
    if term == "attached target":
        monkeypatch.setattr(Operator, "target", Operator.target.__wrapped__)  # type: ignore[attr-defined]
        monkeypatch.setattr(representation, "_predicted", representation._predicted.__wrapped__)
        monkeypatch.setattr(EncodedBatch, "fixed_z", lambda self, which: self.z)
        # The meters would stumble over it at once; what is asked here is whether the update suffers.
        monkeypatch.setattr(loop, "read_meters", lambda *_: {"effective_rank": 9.0})
    else:
        monkeypatch.setattr(agent_module, term, flipped(getattr(agent_module, term)))
    try:
        learned = learn(method, 0, tmp_path)
    except DivergenceError:
        return
    assert not learned.enough, learned
