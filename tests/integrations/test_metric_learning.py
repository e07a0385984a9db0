"""Every distance inside pytorch-metric-learning."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pamd
from pamd.errors import ConfigError, ShapeError, UnknownNameError

pytestmark = pytest.mark.slow
pytest.importorskip("pytorch_metric_learning")

from pytorch_metric_learning import losses, miners  # noqa: E402

from pamd.integrations.metric_learning import LatentDistance  # noqa: E402

D = 6
NAMES = pamd.DISTANCES.names()


def embeddings(seed: int = 0, count: int = 8) -> Tensor:
    return 3 * torch.randn(count, D, generator=torch.Generator().manual_seed(seed))


def make(name: str) -> LatentDistance:
    torch.manual_seed(0)
    return LatentDistance(name, latent_dim=D)


@pytest.mark.parametrize("name", NAMES)
def test_the_matrix_holds_the_distances_of_embeddings_as_they_are(name: str) -> None:
    wrapped, query, ref = make(name), embeddings(), embeddings(1, 5)
    inner = wrapped.distance
    assert not wrapped.normalize_embeddings
    for other in (query, ref):
        rows = [inner(row.expand(len(other), -1), other) for row in query]
        expected = torch.stack([row.mean(-1) if inner.coordinate_wise else row for row in rows])
        got = wrapped(query) if other is query else wrapped(query, other)
        torch.testing.assert_close(got, expected)
    torch.testing.assert_close(wrapped.pairwise_distance(query[:5], ref), wrapped(query, ref).diagonal())


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_and_a_miner_train_embeddings_and_distance(name: str) -> None:
    wrapped, encoder = make(name), nn.Linear(4, D)
    labels, obs = torch.arange(8) % 2, torch.randn(8, 4)
    loss = losses.TripletMarginLoss(margin=100.0, distance=wrapped)
    z = encoder(obs)
    mined = miners.BatchHardMiner(distance=wrapped)(z, labels)
    loss(z, labels, mined).backward()
    assert encoder.weight.grad is not None
    assert encoder.weight.grad.abs().sum() > 0
    learned = [p for p in loss.parameters() if p.requires_grad]
    assert len(learned) == len(list(wrapped.distance.parameters()))
    if learned:
        assert sum(float(p.grad.abs().sum()) for p in learned if p.grad is not None) > 0


def test_a_triplet_loss_by_hand() -> None:
    z = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    loss = losses.TripletMarginLoss(margin=0.5, distance=LatentDistance("l2", latent_dim=2))
    anchors, positives, negatives = torch.tensor([0]), torch.tensor([1]), torch.tensor([2])
    got = loss(z, torch.tensor([0, 0, 1]), (anchors, positives, negatives))
    assert float(got) == pytest.approx(5 - 1 + 0.5)  # normalized embeddings would give 0.5 + a difference below 2


@pytest.mark.parametrize(
    ("arguments", "options", "error", "said"),
    [
        (("pamd",), {}, ConfigError, r"LatentDistance\('pamd'\) requires latent_dim"),
        (("pmad",), {"latent_dim": 4}, UnknownNameError, "Did you mean 'pamd'"),
        ((nn.Linear(2, 2),), {}, ConfigError, "requires a name or a pamd.Distance, got Linear"),
        ((pamd.distance("l2", latent_dim=4),), {"latent_dim": 5}, ConfigError, "was built already, with latent_dim 4"),
        (("pamd",), {"latent_dim": 4, "normalize_embeddings": True}, UnknownNameError, "normalize_embeddings"),
    ],
)
def test_wrong_arguments(arguments: Any, options: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        LatentDistance(*arguments, **options)


def test_embeddings_of_another_size_are_named() -> None:
    with pytest.raises(ShapeError, match=r"\[P, 6\], got \[3, 5\]"):
        make("pamd")(torch.zeros(3, 5))
