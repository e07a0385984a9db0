"""Agents learn on the toy: to a stated return, with a distance that says what it should. And a broken update does not.

Random play returns 5.8 and going straight to the target 36.4 (`pamd.envs.toy`). After 1,100 decisions an agent must
return 20, its distance must correlate with differences of value, and it must not have shrunk: measured over seeds 0 to
2, returns 31 to 33, correlations 0.72 to 0.92, mean distances 0.29 to 0.46.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tests.training.runs import QUIET

from pamd.configuration import configure
from pamd.errors import DivergenceError
from pamd.learners.drqv2 import DrqV2
from pamd.learners.sac import Sac
from pamd.operators import Operator
from pamd.replay import Replay
from pamd.terms.metric import Metric, MetricInputs, _NextState
from pamd.terms.transition import Transition
from pamd.training import TrainConfig, load, loop, train
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


# A deterministic policy that learns too fast ends in a corner. At the toy's size these settings avoid that: measured
# returns over seeds 0 to 2 are 30 to 31. A shift by a pixel would hide what the toy's picture shows.
DRQV2: dict[str, Any] = {
    "decisions": 1600,
    "learner.random_decisions": 300,
    "learner.learning_rate": 3e-4,
    "learner.updates_per_decision": 2.0,
    "learner.noise_decisions": 1500,
    "learner.augmentation.name": "none",
}


def config(method: str, seed: int) -> TrainConfig:
    settings: dict[str, Any] = {
        "env.frame_stack": 1,
        "env.size": 16,
        "env.time_limit": None,
        "encoder.filters": 16,
        "encoder.strides": [2, 2],
        "log_every": 100,
        "learner.batch": 32,
        "learner.random_decisions": 100,
        "learner.hidden": 128,
        "learner.critic_tau": 0.05,
        "method.targets.tau": 0.05,
        # Keeps the fixed point within [0, 1], which both latent spaces can express.
        "method.metric.operator.c_R": "1-gamma",
    }
    if method.startswith("drqv2"):
        settings |= DRQV2
    return configure(
        "toy",
        method,
        scale="smoke",
        schedule="joint",
        gamma=0.95,
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
    trained = load(run)
    batch = Replay.open(run / "replay", read_only=True).sample(256, np.random.default_rng(0))
    with torch.no_grad():
        z = trained.representation.encode(batch.obs)
        learner = trained.agent.learner
        assert isinstance(learner, Sac | DrqV2)
        q = learner.critic.min_q(z, batch.action)
        assert trained.distance is not None
        distance, gap = trained.distance(z, z.roll(1, 0)), (q - q.roll(1)).abs()
    return Learned(returned, float(np.corrcoef(distance, gap)[0, 1]), float(distance.mean()))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize("method", ["simsr+pamd", pytest.param("dbc-det+pamd", marks=pytest.mark.slow)])
def test_learns_the_toy(method: str, seed: int, tmp_path: Path) -> None:
    learned = learn(method, seed, tmp_path)
    assert learned.enough, learned


@pytest.mark.slow
def test_drqv2_learns_the_toy_with_two_of_three_seeds(tmp_path: Path) -> None:
    """One seed may end in the corner, and which one depends on how the processor rounds."""
    learned = [learn("drqv2:simsr+pamd", seed, tmp_path / str(seed)) for seed in range(3)]
    assert sum(one.enough for one in learned) >= 2, learned


def flipped(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The same losses with their sign turned."""

    def turned(*args: Any) -> Any:
        outcome = plain(*args)
        loss, rest = (outcome, None) if isinstance(outcome, Loss) else outcome
        turned_loss = Loss(-loss.value, loss.metrics)
        return turned_loss if rest is None else (turned_loss, rest)

    return turned


def attached_prediction(inputs: MetricInputs) -> Any:
    """The prediction of the next state from the online latents, with its gradient."""
    latents = inputs.latents
    chosen = latents.terms["transition"].prediction(latents).member(latents.generator)
    return _NextState(chosen.mean[0], None, chosen.sample(latents.generator), None)


TERMS = {
    "actor_loss": (Sac, "actor_loss"),
    "critic_loss": (Sac, "critic_loss"),
    "metric": (Metric, "loss"),
    "model": (Transition, "loss"),
}
# On the unit sphere a target that is not detached pulls all distances to nothing; LayerNorm latents resist that for as
# long as this run lasts, so there it is for tests/operators alone to catch.
BROKEN = [(m, t) for m in METHODS for t in TERMS]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "term"), [*BROKEN, ("simsr+pamd", "attached target")])
def test_a_broken_update_does_not(method: str, term: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign flipped, or the gradient let through the metric target: each fails what the test above asks."""
    if term == "attached target":
        monkeypatch.setattr(Operator, "target", Operator._target)
        monkeypatch.setattr(MetricInputs, "_next", functools.cached_property(attached_prediction))
        MetricInputs.__dict__["_next"].__set_name__(MetricInputs, "_next")
        # The meters would stumble over it at once. The question here is whether the update suffers.
        monkeypatch.setattr(loop, "read_meters", lambda *_, **__: {"effective_rank": 9.0})
    else:
        owner, name = TERMS[term]
        monkeypatch.setattr(owner, name, flipped(getattr(owner, name)))
    try:
        learned = learn(method, 0, tmp_path)
    except DivergenceError:
        return
    assert not learned.enough, learned
