"""Write .github/requirements-*.txt: the packages that the workflows install, with the hashes of their wheels.

`python tools/lock.py` in the environment of `make setup` asks pip for the wheels on Linux (x86-64) for each Python
version of the test workflow. torch is left out: the workflows take its CPU build from PyTorch's own index, and its
wheels there differ from those on PyPI.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
_HEAD = """# Written by tools/lock.py. `pip install --no-deps --require-hashes -r FILE` installs exactly these files.
"""


def main() -> None:
    """Write both files."""
    pip = [sys.executable, "-m", "pip"]
    frozen = subprocess.run([*pip, "freeze", "--exclude-editable"], capture_output=True, text=True, check=True).stdout
    pins = [line for line in frozen.splitlines() if "==" in line and not re.match(r"(torch|pamd)==", line)]
    limits = ("-c", str(ROOT / "constraints.txt"))
    release = wheels(["build", "hatchling", "twine"], "3.11", *limits)
    # The editable install of `make setup` needs its build backend, because it builds without isolation.
    present = {pin.partition("==")[0].lower().replace("_", "-") for pin in pins}
    backend = [f"{name}=={version}" for name, version, _ in wheels(["hatchling", "editables"], "3.11", *limits)]
    pins += [pin for pin in backend if pin.partition("==")[0] not in present]
    locked = {python: wheels(pins, python, "--no-deps") for python in PYTHONS}
    (ROOT / ".github" / "requirements-release.txt").write_text(_HEAD + text({"3.11": release}))
    (ROOT / ".github" / "requirements-test.txt").write_text(_HEAD + text(locked))


def wheels(requirements: list[str], python: str, *options: str) -> list[tuple[str, str, str]]:
    """Return (name, version, SHA-256) of the wheels that pip would install. What has no wheel is left out."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--only-binary=:all:", "--target", place, "--python-version", python, "--report", f"{place}/report"]
        done = subprocess.run([*command, *options, *requirements], capture_output=True, text=True, check=False)
        missing = re.search(r"No matching distribution found for (\S+)", done.stderr)
        if missing and missing[1] in requirements:
            return wheels([one for one in requirements if one != missing[1]], python, *options)
        if done.returncode:
            raise SystemExit(done.stderr)
        found = json.loads(Path(place, "report").read_text())["install"]
    return [
        (
            one["metadata"]["name"].lower().replace("_", "-"),
            one["metadata"]["version"],
            one["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for one in found
    ]


def text(locked: dict[str, list[tuple[str, str, str]]]) -> str:
    """Return the lines of a requirements file. A package that the newest Python has no wheel of is marked."""
    hashes: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    last: dict[tuple[str, str], str] = {}
    for python, found in locked.items():
        for name, version, digest in found:
            hashes[name, version][digest], last[name, version] = None, python
    newest = max(locked, key=lambda python: int(python.split(".")[1]))
    lines = []
    for (name, version), digests in sorted(hashes.items()):
        python = last[name, version]
        marker = "" if python == newest else f' ; python_version <= "{python}"'
        lines.append(f"{name}=={version}{marker}" + "".join(f" \\\n    --hash=sha256:{one}" for one in digests))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
