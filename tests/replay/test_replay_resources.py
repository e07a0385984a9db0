"""The forecast equals the used resources, and a lack of resources is reported before anything is created."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from pamd.errors import ConfigError, ResourceError
from pamd.replay import (
    Forecast,
    Replay,
    ReplayConfig,
    available_disk,
    available_memory,
    check_resources,
    forecast,
)

MODULE = "pamd.replay.resources"


def test_forecast_is_what_is_allocated(directory: Path, storage: str) -> None:
    config, shape = ReplayConfig(2000, storage), (3, 40, 40)
    tracemalloc.start()
    try:
        replay = Replay.create(config, frame_shape=shape, action_dim=6, margin=100, directory=directory)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    expected = forecast(config, shape, 6, 100)
    on_disk = sum(path.stat().st_size for path in directory.iterdir() if path.suffix != ".json")
    assert on_disk == expected.bytes_disk
    # Small objects come on top: a few kilobytes, whatever the size.
    assert taken - 30_000 < expected.bytes_memory < taken
    if storage != "mmap":
        assert expected.bytes_memory == pytest.approx(taken, rel=0.01)
    assert len(replay) == 0


def test_full_files_take_what_was_forecast(directory: Path, storage: str) -> None:
    config, shape = ReplayConfig(500, storage), (3, 40, 40)
    replay = Replay.create(config, frame_shape=shape, action_dim=6, margin=20, directory=directory)
    replay.start(np.full(shape, 255, np.uint8))
    for _ in range(600):
        replay.add(np.ones(6), 1.0, False, np.full(shape, 255, np.uint8))
    replay.sync()
    blocks = sum(path.stat().st_blocks * 512 for path in directory.iterdir())
    # Memory writes its window alone; a block may be half full.
    full = forecast(config, shape, 6, 20).bytes_disk * (1 if storage == "mmap" else 500 / 520)
    assert blocks == pytest.approx(full, rel=0.03)


def test_at_most_22_kilobytes_per_transition(storage: str) -> None:
    cost = forecast(ReplayConfig(1_000_000, storage), (3, 84, 84), action_dim=38, margin=20_000)
    episodes_of_125_steps = 126 / 125  # The last frame of an episode starts no transition.
    assert cost.bytes_per_transition * episodes_of_125_steps < 22_000
    assert cost.bytes_per_transition > 3 * 84 * 84
    assert (cost.bytes_memory < 200e6) == (storage == "mmap")


def test_the_impossible_is_refused_at_once(directory: Path, storage: str) -> None:
    with pytest.raises(
        ResourceError, match=r"requires [0-9]?[0-9],[0-9,.]+ GB of (memory|disk).* bytes per transition.* available"
    ):
        Replay.create(
            ReplayConfig(10**12, storage), frame_shape=(3, 84, 84), action_dim=6, margin=4, directory=directory
        )
    assert not directory.parent.exists()


def test_memory_alone_needs_no_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(f"{MODULE}.available_disk", lambda directory: 0)
    cost = Forecast(bytes_memory=1, bytes_disk=1000, bytes_per_transition=1.0)
    check_resources(cost, None)
    with pytest.raises(ResourceError, match="of disk"):
        check_resources(cost, tmp_path)


def test_what_is_on_disk_already_counts(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """A replay that fills the disk can be opened again."""
    config = ReplayConfig(100, "mmap")
    replay = Replay.create(config, frame_shape=(3, 40, 40), action_dim=1, margin=4, directory=directory)
    replay.start(np.ones((3, 40, 40), np.uint8))
    for _ in range(103):
        replay.add(np.ones(1), 1.0, False, np.ones((3, 40, 40), np.uint8))
    replay.sync()
    monkeypatch.setattr(f"{MODULE}.available_disk", lambda directory: 0)
    assert Replay.open(directory).written == 104
    with pytest.raises(ResourceError, match="of disk"):
        Replay.create(config, frame_shape=(3, 80, 80), action_dim=1, margin=4, directory=directory, overwrite=True)
    assert Replay.open(directory).written == 104, "a refused one destroys nothing"


def test_disk_of_a_directory_that_is_not_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = available_disk(tmp_path)
    assert there > 0
    assert available_disk(tmp_path / "not" / "yet" / "there") == pytest.approx(there, rel=0.05)
    monkeypatch.chdir(tmp_path)
    assert available_disk("not/yet") == pytest.approx(there, rel=0.05)


def machine(root: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> None:
    """A machine whose /proc and /sys/fs/cgroup hold these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(f"{MODULE}._PROC", root / "proc")
    monkeypatch.setattr(f"{MODULE}._CGROUPS", root / "cgroup")


MEMINFO = {"proc/meminfo": "MemTotal:  999 kB\nMemAvailable:   100 kB\nSwapFree: 7 kB\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (MEMINFO, 102_400),
        (
            {
                **MEMINFO,
                "proc/self/cgroup": "0::/job/step\n",
                "cgroup/job/step/memory.max": "max\n",
                "cgroup/job/step/memory.current": "1\n",
                "cgroup/job/memory.max": "50000\n",
                "cgroup/job/memory.current": "20000\n",
                "cgroup/job/memory.stat": "anon 15000\ninactive_file 5000\n",
            },
            35_000,
        ),
        (
            {
                **MEMINFO,
                "proc/self/cgroup": "5:cpu:/x\n4:memory:/outside/of/the/container\n0::/\n",
                "cgroup/memory/memory.limit_in_bytes": "40000",
                "cgroup/memory/memory.usage_in_bytes": "10000",
                "cgroup/memory/memory.stat": "cache 3\ntotal_inactive_file 2000\n",
            },
            32_000,
        ),
        (
            {
                **MEMINFO,
                "proc/self/cgroup": "4:memory:/\n",
                "cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
                "cgroup/memory/memory.usage_in_bytes": "10000",
            },
            102_400,
        ),
        (
            {
                **MEMINFO,
                "proc/self/cgroup": "0::/\n",
                "cgroup/memory.max": "1000",
                "cgroup/memory.current": "2000",
            },
            0,
        ),
    ],
    ids=["none", "version 2, limit above", "version 1 in a container", "version 1 without limit", "used up"],
)
def test_the_lower_of_machine_and_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: int
) -> None:
    machine(tmp_path, monkeypatch, files)
    assert available_memory() == expected


def test_other_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(tmp_path, monkeypatch, {})
    assert available_memory() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_this_machine_has_some() -> None:
    assert 10**7 < available_memory() < 10**14


def test_bad_numbers() -> None:
    with pytest.raises(ConfigError, match="action_dim"):
        forecast(ReplayConfig(10), (3, 4, 4), action_dim=0, margin=0)
