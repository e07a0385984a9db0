"""The table of differences in docs/fidelity.md."""

from __future__ import annotations

import pytest
from tests.fidelity.difference import PAGE, ROWS, documented, replaced, report, table


def test_the_page_has_all_rows() -> None:
    found = documented()
    assert list(found) == list(ROWS)
    assert all(0 <= difference < 1 for difference in found.values())


def test_a_written_table_is_read_back() -> None:
    numbers = {row: 10.0**-index if index else 0.0 for index, row in enumerate(ROWS)}
    page = replaced(PAGE.read_text(), "differences", table(numbers))
    assert documented(page) == numbers
    assert replaced(page, "differences", table(documented())) == PAGE.read_text(), "nothing else has changed"


def test_a_difference_must_not_exceed_the_pages() -> None:
    limits = {"sigma": 1e-12}
    report("sigma", 0.0, limits)
    with pytest.raises(AssertionError, match=r"docs/fidelity\.md says 1\.0e-12 for sigma"):
        report("sigma", 1e-10, limits)
    with pytest.raises(AssertionError, match="simga is no row of the table"):
        report("simga", 0.0, limits)
