from __future__ import annotations

from pathlib import Path

import pytest
from tests.training.runs import toy

from pamd.training import train


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small real run of each kind: with a quadratic form, with another distance, without a distance."""
    root = tmp_path_factory.mktemp("runs")
    return {method: train(toy(method), root) for method in ("dbc-det+pamd", "simsr", "sac")}
