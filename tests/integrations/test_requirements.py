"""Errors for a missing or outdated library state what to install."""

from __future__ import annotations

import importlib.metadata

import pytest

from pamd.errors import ConfigError
from pamd.integrations.requirements import require_library


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.13.9", r"pamd.integrations.torchrl requires torchrl >= 0.14, got 0.13.9: pip install .*\[torchrl\]"),
        (None, r"requires torchrl >= 0.14: pip install .*\[torchrl\]"),
    ],
)
def test_a_library_that_is_too_old_or_missing(version: str | None, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str) -> str:
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", found)
    with pytest.raises(ConfigError, match=said):
        require_library("pamd.integrations.torchrl", "torchrl", (0, 14), "torchrl")


@pytest.mark.parametrize("version", ["0.14.1", "0.15.0", "1.0"])
def test_a_library_that_is_new_enough(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    require_library("pamd.integrations.torchrl", "torchrl", (0, 14), "torchrl")
