"""Feeds inputs to a target. Only the package's own errors may escape from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from pamd.errors import PamdError

__all__ = ["amounts", "feed"]

QUICK, SLOW = 50, 1000
"""Inputs of one target. Ten targets make 500 in the quick suite, and 10,000 in the slow one."""

amounts = pytest.mark.parametrize("amount", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])


def feed(target: Callable[[Any], object], inputs: SearchStrategy[Any], amount: int) -> Counter[str]:
    """Give `target` this many inputs, the same ones every time; how many it accepted and refused.

    An error that is not ours fails the test, and the input is made as small as possible.
    """
    outcome: Counter[str] = Counter()

    def try_one(value: Any) -> None:
        try:
            target(value)
        except PamdError:
            outcome["refused"] += 1
        else:
            outcome["accepted"] += 1

    chosen = settings(
        max_examples=amount,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    chosen(given(inputs)(try_one))()
    assert outcome.total() >= amount
    return outcome
