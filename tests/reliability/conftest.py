"""One small real run, created once. Fuzz targets copy it before changing it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.training.runs import toy

from pamd.settings import override
from pamd.training import train

SMALL = ("learner.hidden=16", "method.latent_dim=8", "replay.capacity=64", "evaluate_every=20")


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 decisions on the toy, with a latent model, a reward decoder and a learned distance."""
    config = override(toy("dbc-det+pamd", decisions=40), SMALL)
    return train(config, tmp_path_factory.mktemp("fuzz"))
