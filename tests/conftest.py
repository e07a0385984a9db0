from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import torch

from pamd.envs.backend import choose_backend


def pytest_configure() -> None:
    # Workers share the cores; two threads each would only get in each other's way.
    torch.set_num_threads(1)
    choose_backend()  # before a test imports dm_control by itself
    os.environ["OMP_NUM_THREADS"] = "1"  # what they spawn, too
    # A shell ignores SIGINT for what runs in its background, and nohup ignores SIGHUP. The commands that tests
    # interrupt would inherit that. They do not inherit a handler.
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, lambda *_: None)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture
def double() -> Iterator[None]:
    """Compute in float64, where processors that round differently agree to many digits."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Decoded clips stay out of the user's cache; spawned processes inherit that."""
    before = os.environ.get("PAMD_CACHE")
    os.environ["PAMD_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    os.environ.pop("PAMD_CACHE")
    if before is not None:
        os.environ["PAMD_CACHE"] = before
