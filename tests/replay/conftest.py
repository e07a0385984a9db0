from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pamd.replay.layout import STORAGES


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Where a replay may go; gone after the test, because pytest keeps the last three of its own."""
    yield tmp_path / "run" / "replay"
    shutil.rmtree(tmp_path)


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest) -> str:
    return str(request.param)
