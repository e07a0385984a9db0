from __future__ import annotations

import torch


def pytest_configure() -> None:
    # Workers share the cores; two threads each would only get in each other's way.
    torch.set_num_threads(1)
