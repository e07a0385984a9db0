"""Ray and Slurm backends give the same results, tested on a Ray cluster of two workers and submitit's local jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.sweep.sweeps import Eyes, Killer, toys
from tests.training.runs import products

from pamd.cli.main import main
from pamd.errors import ConfigError, ResourceError, RunInterrupted, install_command
from pamd.sweep import BACKENDS, Resources, Sweep, Tracked
from pamd.sweep.backends import slurm
from pamd.training import train

SMALL = ["sweep", "--tasks", "toy", "--methods", "sac", "--scale", "smoke", "--decisions", "60"]


@pytest.mark.parametrize(("backend", "module"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_missing_extra_is_named_and_nothing_is_lost(
    backend: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert main([*SMALL, "--backend", backend, "--runs", str(tmp_path)]) == 2
    assert install_command(backend) in capsys.readouterr().err
    # A plan needs no cluster.
    assert main([*SMALL, "--backend", backend, "--runs", str(tmp_path), "--plan"]) == 0


def test_slurm_without_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ResourceError, match="srun"):
        BACKENDS.get("slurm")(Resources())


def test_slurm_does_not_round_half_a_gpu_down_to_none() -> None:
    with pytest.raises(ConfigError, match=r"a whole number of GPUs per run, got 0\.5"):
        BACKENDS.get("slurm")(Resources(gpus=0.5))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9"])
def test_an_address_that_does_not_answer(address: str) -> None:
    pytest.importorskip("ray")
    with pytest.raises(ResourceError, match="no Ray cluster responds at"):
        BACKENDS.get("ray")(Resources(address=address))


@pytest.mark.filterwarnings("ignore")
def test_an_address_that_is_none() -> None:
    pytest.importorskip("ray")
    with pytest.raises(ConfigError, match="HOST:PORT"):
        BACKENDS.get("ray")(Resources(address="somewhere"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray_goes_on_after_a_killed_worker(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    made = toys(tmp_path / "swept", [0, 1, 2], decisions=100)
    victim = made[0]
    eyes = Eyes(killer := Killer(victim.path))
    resources = Resources(workers=2, threads=1)
    runs = Sweep(made, lambda: BACKENDS.get("ray")(resources), eyes).run()
    assert killer.killed
    assert [(run.state, run.attempts) for run in runs] == [("finished", 2), ("finished", 1), ("finished", 1)]
    assert products(victim.path) == products(train(victim.config, tmp_path / "straight"))
    again = Sweep(made, lambda: BACKENDS.get("ray")(resources), Eyes()).run()
    assert all(run.skipped for run in again)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_is_there_and_a_driver_that_is_killed(tmp_path: Path) -> None:
    """Two nodes; the driver of a sweep is killed, and the next one goes on from checkpoints in the shared directory."""
    ray = pytest.importorskip("ray")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        root = tmp_path / "shared"
        words = [*SMALL[:-1], "300", "--seeds", "0", "1", "--threads", "1", "--backend", "ray"]
        words += ["--set", "checkpoint_every=20", "env.time_limit=9", "--address", cluster.address]
        run = [sys.executable, "-m", "pamd", *words, "--runs", str(root)]
        first = subprocess.Popen(run, stderr=subprocess.PIPE, text=True)
        while len(list(root.glob("*/checkpoints/0*"))) < 2:
            assert first.poll() is None, first.communicate()
            time.sleep(0.05)
        first.send_signal(signal.SIGKILL)
        first.communicate()
        done = subprocess.run(run, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        assert "2 of 2 runs finished" in done.stderr
    finally:
        cluster.shutdown()
        ray.shutdown()
    local = tmp_path / "local"
    alone = words[: words.index("--backend")] + words[words.index("--set") : words.index("--address")]
    assert main([*alone, "--runs", str(local)]) == 0
    for path in root.glob("toy_*"):
        assert products(path) == products(local / path.name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_whose_node_is_lost_goes_on_at_another(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        (job,) = toys(tmp_path / "shared", [0], decisions=100)
        lost: list[int] = []

        def lose_its_node(runs: Sequence[Tracked]) -> None:
            if lost or not any((job.path / "checkpoints").glob("0*")):
                return
            raylet = json.loads((job.path / "status.json").read_text())["pid"]
            for _ in range(3):  # Its parents are the supervisor, the process of the task, and the node.
                raylet = int(Path(f"/proc/{raylet}/stat").read_text().rpartition(")")[2].split()[1])
            (node,) = (n for n in nodes if n.all_processes["raylet"][0].process.pid == raylet)
            lost.append(raylet)
            cluster.remove_node(node, allow_graceful=False)

        resources = Resources(workers=1, threads=1, address=cluster.address)
        (run,) = Sweep([job], lambda: BACKENDS.get("ray")(resources), Eyes(lose_its_node)).run()
    finally:
        cluster.shutdown()
        ray.shutdown()
    assert lost
    assert (run.state, run.attempts) == ("finished", 2)
    assert products(job.path) == products(train(job.config, tmp_path / "straight"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_without_an_address_no_other_cluster_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # nobody answers there
    BACKENDS.get("ray")(Resources(workers=1, threads=1)).close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_slurm_jobs_through_submitit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    slurm = BACKENDS.get("slurm")
    monkeypatch.setattr(slurm, "cluster", "local")
    made = toys(tmp_path / "swept", [0, 1], decisions=100)
    eyes = Eyes(killer := Killer(made[0].path))
    runs = Sweep(made, lambda: slurm(Resources(workers=2, threads=1)), eyes).run()
    assert killer.killed
    assert [(run.state, run.attempts) for run in runs] == [("finished", 2), ("finished", 1)]
    assert products(made[0].path) == products(train(made[0].config, tmp_path / "straight"))
    assert os.listdir(tmp_path / "swept" / ".slurm")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("backend", "module"), [("ray", "ray"), ("slurm", "submitit")])
def test_ctrl_c_leaves_runs_that_the_same_sweep_finishes(
    backend: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(module)
    monkeypatch.setattr(BACKENDS.get("slurm"), "cluster", "local")
    (job,) = toys(tmp_path / "swept", [0], decisions=400)  # long enough to be caught half way

    def interrupt(runs: Sequence[Tracked]) -> None:
        if any((job.path / "checkpoints").glob("0*")):
            raise KeyboardInterrupt

    resources = Resources(workers=1, threads=1)
    stopped = Sweep([job], lambda: BACKENDS.get(backend)(resources), Eyes(interrupt))
    with pytest.raises(RunInterrupted, match="0 of 1 runs finished"):
        stopped.run()
    assert [run.state for run in stopped.runs.values()] == ["interrupted"]
    (run,) = Sweep([job], lambda: BACKENDS.get(backend)(resources), Eyes()).run()
    assert (run.state, run.skipped) == ("finished", False), run.error
    assert products(job.path) == products(train(job.config, tmp_path / "straight"))


SWEEP = """
import sys
from pamd.cli.main import main
from pamd.sweep import BACKENDS
BACKENDS.get("slurm").cluster = "local"
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize(("backend", "module"), [("local", "json"), ("ray", "ray"), ("slurm", "submitit")])
def test_every_backend_ends_its_runs_with_a_checkpoint(
    backend: str, module: str, number: signal.Signals, tmp_path: Path
) -> None:
    pytest.importorskip(module)
    words = [*SMALL[:-1], "9000", "--seeds", "0", "1", "--workers", "2", "--backend", backend]
    words += ["--set", "checkpoint_every=9000", "env.time_limit=9", "--runs", str(tmp_path)]
    driver = subprocess.Popen([sys.executable, "-c", SWEEP, *words], stderr=subprocess.PIPE, text=True)
    while len(list(tmp_path.glob("*/train.jsonl"))) < 2:
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.1)
    pids = [json.loads(file.read_text())["pid"] for file in tmp_path.glob("*/status.json")]
    time.sleep(1)
    driver.send_signal(number)
    _, said = driver.communicate(timeout=120)
    ended = time.monotonic()
    assert driver.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130), said
    assert backend == "slurm" or "Traceback" not in said  # Submitit's stand-in for Slurm prints one.
    assert "*** SIG" not in said
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        time.sleep(0.1)
        assert time.monotonic() - ended < 30  # Ten seconds on a machine that is not busy.
    for run in tmp_path.glob("toy_*"):
        status = json.loads((run / "status.json").read_text())
        assert status["state"] == "interrupted"
        assert [int(path.name) for path in (run / "checkpoints").iterdir()] == [status["decisions"]]


def test_a_job_stops_when_the_heartbeat_of_its_sweep_stops(tmp_path: Path) -> None:
    heartbeat = tmp_path / "heartbeat"
    alive = slurm._beats(heartbeat)
    for beat in range(30):
        heartbeat.write_text(str(beat))
        assert alive()
    assert [alive() for _ in range(slurm._MISSED)] == [True] * (slurm._MISSED - 1) + [False]
    missing = slurm._beats(tmp_path / "missing")
    assert [missing() for _ in range(slurm._MISSED)][-1] is False
    unreadable = slurm._beats(tmp_path)  # A directory: the storage fails, not the sweep.
    assert all(unreadable() for _ in range(2 * slurm._MISSED))
