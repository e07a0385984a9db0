"""One member of an ensemble predicts what the whole ensemble predicts at its place."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pamd
from pamd.rng import one_of


@pytest.mark.parametrize(("kind", "members"), [("deterministic", 1), ("gaussian", 1), ("ensemble", 4)])
def test_one_member_is_that_of_the_whole(kind: str, members: int) -> None:
    torch.manual_seed(0)
    method = pamd.method("zp", latent_dim=6, transition={"kind": kind, "members": members})
    rep = pamd.Representation(method, encoder=nn.Linear(3, 6), action_dim=2)
    transition = rep.terms["transition"]
    assert transition.members == members
    z, action = torch.randn(5, 6), torch.randn(5, 2)
    latents = rep.batch_latents(torch.randn(5, 3), action, torch.rand(5), torch.randn(5, 3))
    whole = transition.predict(latents, z, action)
    drawn = set()
    for seed in range(20):
        latents.generator = torch.Generator().manual_seed(seed)
        alone = transition.predict_by_one(latents, z, action)
        by_drawing = whole.member(torch.Generator().manual_seed(seed))  # the same draw as ever
        drawn.add(one_of(members, torch.Generator().manual_seed(seed)) if members > 1 else 0)
        torch.testing.assert_close(alone.mean, by_drawing.mean)
        assert (alone.log_std is None) == (by_drawing.log_std is None)
        if alone.log_std is not None:
            torch.testing.assert_close(alone.log_std, by_drawing.log_std)
    assert drawn == set(range(members))
