"""The examples run as documented."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from tests.scripts import load_script

from pamd.training.config import config_text, parse_config

ROOT = Path(__file__).parents[1]


def test_plug_in_learns_and_stays_short() -> None:
    source = ROOT / "examples" / "plug_in.py"
    assert len(source.read_text().splitlines()) < 40
    done = subprocess.run([sys.executable, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    losses = [float(x) for x in re.findall(r"metric loss ([\d.]+)", done.stdout)]
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("name", ["own_loop.py", "own_loop_discrete.py"])
def test_a_strangers_loop_trains_a_whole_method_in_forty_lines(name: str) -> None:
    source = ROOT / "examples" / name
    assert len(source.read_text().splitlines()) <= 40
    done = subprocess.run([sys.executable, str(source), "1001"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    losses = [float(x) for x in re.findall(r"metric loss ([\d.]+)", done.stdout)]
    assert len(losses) >= 2
    assert losses[-1] < 1


def test_an_on_policy_loop_trains_a_method_and_its_policy() -> None:
    source = ROOT / "examples" / "own_loop_ppo.py"
    assert len(source.read_text().splitlines()) <= 50
    done = subprocess.run([sys.executable, str(source), "2560"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lengths, losses = ([float(x) for x in re.findall(f"{word} ([\\d.]+)", done.stdout)] for word in ("length", "loss"))
    assert len(losses) == 5
    assert max(losses) < 3
    assert lengths[-1] > 1.5 * lengths[0]


def test_the_readmes_representation_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (code,) = [block for block in blocks if "pamd.Representation(" in block]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_readmes_five_lines_run() -> None:
    readme = (ROOT / "README.md").read_text()
    first = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert first is not None
    code = "import torch\nencode = torch.nn.Linear(9, 50)\nobs, obs2 = torch.randn(8, 9), torch.randn(8, 9)\n"
    code += "target = torch.rand(8)\n" + first.group(1)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_demos_runs_can_be_configured() -> None:
    demo = load_script("examples/demo.py")
    for method in demo.METHODS:
        made = demo.config(method)
        assert parse_config(json.loads(config_text(made)), "it") == made


def test_the_demos_table_fits_a_terminal_of_80_columns(tmp_path: Path) -> None:
    demo = load_script("examples/demo.py")
    runs = {method: tmp_path / method for method in demo.METHODS}
    for run in runs.values():
        run.mkdir()
        rows = [{"decisions": 1000 * at, "return_mean": 1000.0} for at in range(13)]
        (run / "eval.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    console = Console(width=80, file=io.StringIO())
    console.print(demo.table(runs, dict.fromkeys(runs, 0), 10.0))
    head, *lines = console.file.getvalue().splitlines()
    assert len(lines) == len(runs), "one line per agent"
    assert all(column in head for column in demo.COLUMNS)
    assert all(
        line.startswith(f"{method} ") and line.count("1000") == 5 for line, method in zip(lines, runs, strict=True)
    )


DEMO = """
import sys
from pathlib import Path
from tests.scripts import load_script
demo = load_script("examples/demo.py")
demo.TASK, demo.ROOT = "toy", Path(sys.argv[1])
demo.OPTIONS = {"scale": "smoke", "decisions": 9000, "checkpoint_every": 9000}
sys.exit(demo.main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_demo_stops_its_agents(tmp_path: Path, number: signal.Signals) -> None:
    words = [sys.executable, "-c", DEMO, str(tmp_path)]
    demo = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True)
    while len(list(tmp_path.glob("*/train.jsonl"))) < 2:
        assert demo.poll() is None
        time.sleep(0.1)
    time.sleep(1)
    demo.send_signal(number)
    said, _ = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert "again to continue" in said
    for run in tmp_path.glob("toy_*"):
        status = json.loads((run / "status.json").read_text())
        assert status["state"] == "interrupted"
        assert [int(path.name) for path in (run / "checkpoints").iterdir()] == [status["decisions"]]
        assert not Path(f"/proc/{status['pid']}").exists()


@pytest.mark.slow
def test_diagnose_runs_at_its_smallest(tmp_path: Path) -> None:
    source = ROOT / "examples" / "diagnose.py"
    words = [sys.executable, str(source), str(tmp_path), "60", "4"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "effective rank" in done.stdout
    assert all((tmp_path / name / "section.json").is_file() for name in ("residual", "geometry", "latents", "exact"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "cleanrl_style_sac.py",
            "--task toy --size 20 --steps 120 --start 60 --log-every 30 --latent-dim 8 --hidden 16",
        ),
        ("cleanrl_style_dqn.py", "--game corridor --steps 240 --start 60 --log-every 60 --latent-dim 8"),
    ],
)
def test_a_single_file_script_runs_and_stays_short(name: str, words: str) -> None:
    source = ROOT / "examples" / name
    assert len(source.read_text().splitlines()) < 250
    tiny = [*words.split(), "--batch", "8", "--method", "dbc-det+pamd"]
    done = subprocess.run([sys.executable, str(source), *tiny], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    losses = [float(x) for x in re.findall(r"metric_loss ([\d.e+-]+)", done.stdout)]
    rewards = [float(x) for x in re.findall(r"return ([\d.-]+)", done.stdout)]
    assert len(losses) == len(rewards) >= 2
    assert max(losses) < 1
