"""One member of an ensemble predicts what the whole ensemble predicts at its place."""

from __future__ import annotations

import pytest
import torch

from pamd.models import make_transition
from pamd.models.transition import TransitionKind


@pytest.mark.parametrize(("kind", "members"), [("deterministic", 1), ("gaussian", 1), ("ensemble", 4)])
def test_one_member_is_that_of_the_whole(kind: TransitionKind, members: int) -> None:
    torch.manual_seed(0)
    transition = make_transition(kind, latent_dim=6, action_dim=2, members=members)
    assert transition is not None
    assert transition.members == members
    z, action = torch.randn(5, 6), torch.randn(5, 2)
    whole = transition(z, action)
    drawn = set()
    for seed in range(20):
        one = transition.one(torch.Generator().manual_seed(seed))
        by_drawing = whole.member(torch.Generator().manual_seed(seed))  # the same draw as ever
        alone = transition(z, action, one)
        drawn.add(one.start)
        torch.testing.assert_close(alone.mean, by_drawing.mean)
        assert (alone.log_std is None) == (by_drawing.log_std is None)
        if alone.log_std is not None:
            torch.testing.assert_close(alone.log_std, by_drawing.log_std)
    assert drawn == set(range(members))
