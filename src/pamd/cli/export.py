"""`pamd export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from pamd.cli.parser import Metavar
from pamd.errors import ConfigError


def export(
    run: Path,
    directory: Path,
    /,
    *,
    push_to_hub: Annotated[str | None, Metavar("OWNER/NAME")] = None,
    private: bool = False,
) -> None:
    """Export a trained agent to a small directory: weights, config, returns, videos and a model card.

    `pamd.load(DIRECTORY)` and `pamd eval DIRECTORY` read it. It contains no replay and no optimizer states.

    Args:
        run: a run directory
        directory: where to write the export; must be new or empty
        push_to_hub: also upload the export to this repository of the Hugging Face hub
        private: create a private repository
    """
    from pamd.training import export as exporting

    if private and push_to_hub is None:
        raise ConfigError("--private requires --push-to-hub OWNER/NAME")
    client = None
    if push_to_hub is not None:  # Fail early, before any work is done.
        exporting.check_repo(push_to_hub)
        client = exporting.hub_client()
    written = exporting.export_run(run, directory, repo=push_to_hub)
    if not (written / "replay.mp4").exists():
        sys.stderr.write(f"note: the run has no video; `pamd eval {run}` records one before an export\n")
    sys.stdout.write(f"{written}\n")
    if client is not None and push_to_hub is not None:
        sys.stdout.write(exporting.push(written, push_to_hub, client, private=private) + "\n")
