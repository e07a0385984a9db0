"""Fuzzing of run directories: states, tensors, checkpoints, status files and logs."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load as load_tensors
from safetensors.torch import save
from tests.reliability.inputs import JSON, as_json, changed_trees, damaged
from tests.reliability.runner import amounts, feed

from pamd.runs import read_progress, read_status
from pamd.runs.checkpoints import list_checkpoints
from pamd.runs.logs import Logs
from pamd.training import RunDirectory, checkpoint, export_run, load
from pamd.training.config import read_config
from pamd.training.session import Session

pytestmark = pytest.mark.reliability


@pytest.fixture
def copied(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / run.name))


def newest(run: Path) -> Path:
    return list_checkpoints(run / "checkpoints")[0]


def rewrite(place: Path, name: str, data: bytes) -> None:
    """Replace a file of a checkpoint, its digest included: what is left to find is what it says."""
    (place / name).write_bytes(data)
    digests = {file: hashlib.sha256((place / file).read_bytes()).hexdigest() for file in (name, _other(name))}
    (place / "complete.json").write_text(json.dumps(digests))


def _other(name: str) -> str:
    return "state.json" if name == "tensors.safetensors" else "tensors.safetensors"


@amounts
def test_states(amount: int, run: Path, copied: Path, tmp_path: Path) -> None:
    session = Session(RunDirectory.open(copied), read_config(copied / "config.json"), 1)
    place, fresh = newest(copied), tmp_path / "fresh"
    shutil.copytree(copied / "replay", fresh)

    def target(state: Any) -> None:
        rewrite(place, "state.json", as_json(state))
        shutil.copytree(fresh, copied / "replay", dirs_exist_ok=True)
        session.restore(checkpoint.read(place))

    outcome = feed(target, changed_trees(json.loads((place / "state.json").read_text())), amount)
    session.close()
    assert outcome["refused"] > 0 < outcome["accepted"]


@amounts
def test_files_of_a_checkpoint(amount: int, copied: Path) -> None:
    place = newest(copied)
    contents = {path.name: path.read_bytes() for path in place.iterdir()}

    def target(given: tuple[str, bytes, bool]) -> None:
        name, data, honest = given
        for file, content in contents.items():
            (place / file).write_bytes(content)
        if honest and name != "complete.json":
            rewrite(place, name, data)
        else:
            (place / name).write_bytes(data)
        checkpoint.read(place)

    inputs = st.sampled_from(sorted(contents)).flatmap(
        lambda name: st.tuples(st.just(name), damaged(contents[name]), st.booleans())
    )
    assert feed(target, inputs, amount)["refused"] > 0


DTYPES = (torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool)


@st.composite
def changed_tensors(draw: st.DrawFn, tensors: dict[str, torch.Tensor]) -> bytes:
    """The bytes of tensors of which one has another shape, type, name or value, or is missing; or damaged bytes."""
    made, name = dict(tensors), draw(st.sampled_from(sorted(tensors)))
    kind = draw(st.sampled_from(("shape", "type", "remove", "rename", "empty", "value", "header")))
    tensor = made.pop(name)
    if kind == "shape":
        made[name] = draw(st.sampled_from((tensor[None], tensor.flatten()[:1], torch.zeros(2, 3), tensor.flatten())))
    elif kind == "type":
        made[name] = tensor.to(draw(st.sampled_from(DTYPES)))
    elif kind in ("rename", "empty", "value"):
        value = {"rename": tensor, "empty": torch.zeros(0), "value": torch.full_like(tensor, 7)}[kind]
        made[name + (draw(st.text(min_size=1, max_size=3)) if kind == "rename" else "")] = value
    data = save({key: value.contiguous() for key, value in made.items()})
    if kind != "header":
        return data
    length = int.from_bytes(data[:8], "little")
    return draw(damaged(data[: 8 + length])) + data[8 + length :]


@amounts
def test_tensors(amount: int, copied: Path) -> None:
    place, session = newest(copied), Session(RunDirectory.open(copied), read_config(copied / "config.json"), 1)
    tensors = load_tensors((place / "tensors.safetensors").read_bytes())

    def target(data: bytes) -> None:
        rewrite(place, "tensors.safetensors", data)
        session.restore(checkpoint.read(place))

    outcome = feed(target, changed_tensors(tensors), amount)
    session.close()
    assert outcome["refused"] > outcome["accepted"]


@amounts
def test_exports(amount: int, run: Path, tmp_path: Path) -> None:
    exported = export_run(run, tmp_path / "exported")
    contents = {name: (exported / name).read_bytes() for name in ("config.json", "model.safetensors")}
    weights = load_tensors(contents["model.safetensors"])
    with safe_open(exported / "model.safetensors", framework="pt") as file:
        described = json.loads(file.metadata()["pamd"])

    def target(given: tuple[str, bytes]) -> None:
        name, data = given
        for file, content in contents.items():
            (exported / file).write_bytes(content)
        (exported / name).write_bytes(data)
        load(exported)

    metadata = changed_trees(described).map(lambda tree: save(weights, {"pamd": as_json(tree).decode()}))
    configs = changed_trees(json.loads(contents["config.json"])).map(as_json)
    files = {"config.json": configs, "model.safetensors": st.one_of(metadata, changed_tensors(weights))}
    inputs = st.sampled_from(sorted(files)).flatmap(lambda name: st.tuples(st.just(name), files[name]))
    assert feed(target, inputs, amount)["refused"] > 0


STATUS = {"state": "finished", "pid": 1, "time": 1.5, "decisions": 40, "frames": 80, "updates": 40, "error": "none"}


@amounts
def test_status_files(amount: int, copied: Path) -> None:
    opened = RunDirectory.open(copied)
    rows = (copied / "eval.jsonl").read_bytes()

    def target(given: tuple[bytes, bytes]) -> None:
        status, log = given
        (copied / "status.json").write_bytes(status)
        (copied / "eval.jsonl").write_bytes(log)
        read_status(copied)
        assert opened.finished(40) in (True, False)
        seen = read_progress(copied)
        assert seen.decisions >= 0
        assert f"{0.0 if seen.last_return is None else seen.last_return:.1f}"

    statuses = st.one_of(
        changed_trees(STATUS).map(as_json), damaged(as_json(STATUS)), JSON.map(as_json), st.just(as_json(STATUS))
    )
    row = json.loads(rows.splitlines()[-1])
    logs = st.one_of(st.just(rows), damaged(rows), changed_trees(row).map(lambda tree: as_json(tree) + b"\n"))
    assert feed(target, st.tuples(statuses, logs), amount)["refused"] == 0


@amounts
def test_logs_of_a_resume(amount: int, copied: Path) -> None:
    """A log that is not what the checkpoint says is refused; what was written after the checkpoint is cut off."""
    state = json.loads((newest(copied) / "state.json").read_text())["logs"]
    contents = {name: (copied / f"{name}.jsonl").read_bytes() for name in state}

    def target(given: tuple[str, bytes]) -> None:
        name, data = given
        for other, content in contents.items():
            (copied / f"{other}.jsonl").write_bytes(content)
        (copied / f"{name}.jsonl").write_bytes(data)
        Logs(copied).restore(state)
        assert (copied / f"{name}.jsonl").read_bytes() == contents[name]

    inputs = st.sampled_from(sorted(contents)).flatmap(
        lambda name: st.tuples(
            st.just(name), st.one_of(damaged(contents[name]), st.binary(max_size=9).map(contents[name].__add__))
        )
    )
    outcome = feed(target, inputs, amount)
    assert outcome["refused"] > 0 < outcome["accepted"]
