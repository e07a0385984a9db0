"""Asynchronous copies of batches to a device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.agent.batches import make_batch

from pamd.training.session import Upload
from pamd.types import Batch


def test_on_the_cpu_a_batch_stays_where_it_is() -> None:
    batch, upload = make_batch(), Upload(torch.device("cpu"))
    upload.wait()
    assert upload(batch) is batch


def test_memory_is_free_only_when_the_copy_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []

    class Event:
        def record(self) -> None:
            happened.append("recorded")

        def synchronize(self) -> None:
            happened.append("waited")

    def to(batch: Batch, device: Any, *, non_blocking: bool = False) -> Batch:
        happened.append(f"copied to {device}, non_blocking={non_blocking}")
        return batch

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(Batch, "to", to)
    upload = Upload(torch.device("cuda"))
    upload.wait()
    upload(make_batch())
    upload.wait()
    upload.wait()
    assert happened == ["copied to cuda, non_blocking=True", "recorded", "waited"]
