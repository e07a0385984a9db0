"""The lines of each page run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

PAGES = Path(__file__).parents[2] / "docs" / "integrations"
LIBRARIES = {"metric-learning": "pytorch_metric_learning", "tianshou": "tianshou", "torchrl": "torchrl"}


@pytest.mark.slow
@pytest.mark.parametrize("page", LIBRARIES)
def test_the_lines_of_the_page_run(page: str) -> None:
    pytest.importorskip(LIBRARIES[page])
    torch.manual_seed(0)
    (code,) = re.findall(r"```python\n(.*?)```", (PAGES / f"{page}.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, page, "exec"), names)
    if page == "torchrl":
        assert int(names["rep"].updates) == 1  # type: ignore[attr-defined]
