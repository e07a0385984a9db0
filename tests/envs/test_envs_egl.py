"""The EGL devices, and the choice of one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pamd.cli.main import main
from pamd.envs import choose_egl_device, egl_devices
from pamd.envs.egl import VARIABLE, EGLDevice
from pamd.errors import ConfigError

GPU, SOFTWARE = EGLDevice(False, 1, "/dev/dri/card0"), EGLDevice(True, None, None)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment where nobody has chosen anything, restored afterwards."""
    for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM", VARIABLE):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.delitem(sys.modules, "mujoco", raising=False)
    return monkeypatch


def test_a_number_is_the_position_in_the_list(bare: pytest.MonkeyPatch) -> None:
    bare.setattr("pamd.envs.egl.egl_devices", lambda: [GPU, SOFTWARE])
    choose_egl_device(1)
    assert (os.environ[VARIABLE], os.environ["MUJOCO_GL"], os.environ["PYOPENGL_PLATFORM"]) == ("1", "egl", "egl")


def test_no_number_keeps_what_the_user_has_set(bare: pytest.MonkeyPatch) -> None:
    choose_egl_device(None)
    assert VARIABLE not in os.environ
    bare.setenv(VARIABLE, "3")
    choose_egl_device(None)
    assert os.environ[VARIABLE] == "3"


@pytest.mark.parametrize(
    ("number", "devices", "backend", "message"),
    [
        (2, [GPU, SOFTWARE], "", "must be from 0 to 1, got 2"),
        (-1, [SOFTWARE], "egl", "must be 0, got -1"),
        (0, [], "", "must be omitted: there is none, got 0"),
        (0, [GPU], "osmesa", "requires MUJOCO_GL=egl, got MUJOCO_GL=osmesa"),
    ],
)
def test_refusals(bare: pytest.MonkeyPatch, number: int, devices: list[EGLDevice], backend: str, message: str) -> None:
    bare.setenv("MUJOCO_GL", backend)
    bare.setattr("pamd.envs.egl.egl_devices", lambda: devices)
    with pytest.raises(ConfigError, match=message):
        choose_egl_device(number)
    assert VARIABLE not in os.environ


def test_after_mujoco_was_imported_it_is_too_late(bare: pytest.MonkeyPatch) -> None:
    bare.setitem(sys.modules, "mujoco", None)  # type: ignore[arg-type]
    bare.setattr("pamd.envs.egl.egl_devices", lambda: [GPU])
    with pytest.raises(ConfigError, match=f"set {VARIABLE} before that"):
        choose_egl_device(0)


def test_mujoco_counts_the_same_devices() -> None:
    code = "from mujoco.egl import egl_ext; print(len(egl_ext.eglQueryDevicesEXT()))"
    environment = {**os.environ, "MUJOCO_GL": "egl", "PYOPENGL_PLATFORM": "egl"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert len(egl_devices()) == (int(done.stdout) if done.returncode == 0 else 0)


def test_without_the_library_there_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr("ctypes.CDLL", missing)
    assert egl_devices() == []


@pytest.mark.skipif(not egl_devices(), reason="EGL is not installed")
def test_the_device_changes_neither_the_name_nor_the_results_of_a_run(tmp_path: Path) -> None:
    words = ["train", "toy", "--method", "sac", "--scale", "smoke", "--decisions", "60", "--threads", "1"]
    words += ["--video", "off", "--no-tensorboard", "--device", "cpu", "--runs"]
    assert main([*words, str(tmp_path / "one")]) == 0
    chosen = [sys.executable, "-m", "pamd", *words, str(tmp_path / "other"), "--egl-device", "0"]
    subprocess.run(chosen, check=True, capture_output=True, timeout=300)
    (one,), (other,) = ([*(tmp_path / name).iterdir()] for name in ("one", "other"))
    assert one.name == other.name
    for file in ("config.json", "eval.jsonl"):
        assert (one / file).read_bytes() == (other / file).read_bytes()


def test_doctor_lists_the_devices_and_refuses_a_wrong_one(
    bare: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare.setattr("pamd.envs.egl_devices", lambda: [GPU, SOFTWARE])
    bare.setenv(VARIABLE, "7")
    assert main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert "EGL 0        GPU, CUDA device 1, /dev/dri/card0" in printed
    assert "EGL 1        software, on the CPU" in printed
    assert f"--egl-device N or {VARIABLE}=N" in printed
    assert f"{VARIABLE} is '7', and the EGL devices are 0, 1" in printed
