"""`pamd pack`."""

from __future__ import annotations

from pathlib import Path

from pamd.cli.console import print_text
from pamd.errors import ConfigError
from pamd.report.run import load_runs
from pamd.runs import files
from pamd.runs.campaigns import FILES, write_campaign
from pamd.table import counted


def pack(runs: list[Path], /, *, out: Path) -> None:
    """Write runs to one Parquet file, which `pamd report` reads like a directory of runs.

    It has config, status, versions and logs of every run, unchanged. Videos, checkpoints and replays are left out.

    Args:
        runs: run directories, directories that contain them, or Parquet files of runs.
        out: the Parquet file; an existing one is replaced.
    """
    if out.suffix != ".parquet":
        raise ConfigError(f"pack: --out must be a file that ends with .parquet, got {out}")
    loaded = load_runs(runs)
    write_campaign(((run.path.resolve().name, _content(run.path)) for run in loaded), out)
    finished = sum(run.finished for run in loaded)
    print_text(f"{out}: {counted(len(loaded), 'run')}, {finished} of them finished, {out.stat().st_size:,} bytes")


def _content(run: Path) -> dict[str, bytes]:
    """Return the files of a run that exist."""
    found = {}
    for name in FILES:
        try:
            found[name] = files.read(run, name)
        except FileNotFoundError:
            continue
    return found
