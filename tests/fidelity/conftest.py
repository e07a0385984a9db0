"""Everything here is computed in float64."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _double(double: None) -> None:
    """Use the fixture `double` of all tests."""
