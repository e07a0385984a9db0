"""Export a trained agent as a small directory for publication, and upload it to the Hugging Face Hub."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from pamd import atomic_io
from pamd.errors import ConfigError, HubError, ResourceError, RunError, install_command
from pamd.runs import Budget, RunDirectory
from pamd.runs.checkpoints import read_counters, read_state
from pamd.runs.directory import WEIGHTS
from pamd.runs.identity import identity_digest, tree_identity
from pamd.runs.logs import split_log
from pamd.runs.versions import read_versions
from pamd.training.checkpoint import encode
from pamd.training.config import Runtime, TrainConfig, config_text
from pamd.training.model_card import PREVIEW, CardFacts, model_card
from pamd.training.trained import load
from pamd.version import __version__

_VIDEO = re.compile(r"(evaluated-)?([0-9]{9,18})\.mp4")
_REPO_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"


def export_run(run: str | Path, directory: str | Path, *, repo: str | None = None) -> Path:
    """Export the newest complete checkpoint of a run: weights, config, evaluations, videos and a model card.

    `directory` must be new or empty. It is written under a temporary name and then renamed, so it is never incomplete.
    `repo` is the OWNER/NAME that the model card names.
    """
    final = Path(directory)
    _check_new(final)
    opened = RunDirectory.open(Path(run))
    files = _files(opened, repo)
    temporary = final.absolute().with_name(f".{final.absolute().name}.{os.getpid()}")
    try:
        for name, content in files.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            atomic_io.write(temporary / name, content)
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary.rename(final)  # This also replaces an empty directory.
        atomic_io.sync_directory(final.absolute().parent)
    except OSError as error:
        raise ResourceError(f"cannot write the export {final}: {error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return final


def _check_new(directory: Path) -> None:
    if directory.is_symlink() or (directory.exists() and not directory.is_dir()):
        raise RunError(f"{directory} must be a new or empty directory, but it is a file or a link")
    if directory.is_dir() and any(directory.iterdir()):
        raise RunError(f"{directory} must be a new or empty directory, but it contains files")
    atomic_io.check_directory(directory.absolute().parent, "the parent of the export")


def _files(run: RunDirectory, repo: str | None) -> dict[str, bytes]:
    """Return the content of each file of the export, by path."""
    trained = load(run.path)
    saved = run.checkpoints / trained.checkpoint
    state = read_state(saved)
    budget = read_counters(saved, state).budget
    config = _portable_config(trained.config)
    text = config_text(config)
    weights = _weights_file(
        trained.agent.weights(),
        json.loads(text),
        observation_shape=trained.agent.observation_shape,
        action_dim=trained.agent.action_dim,
        budget=budget,
    )
    rows, _ = split_log(run.path / "eval.jsonl", state["logs"]["eval"])
    videos, versions = _videos(run.video, budget.decisions), read_versions(run.path)
    evaluations = [json.loads(row) for row in rows.splitlines()]
    card = model_card(CardFacts(config, budget, evaluations, list(videos), versions[-1] if versions else {}, repo))
    return {
        "README.md": card.encode(),
        "config.json": text.encode(),
        WEIGHTS: weights,
        "eval.jsonl": rows,
        **{name: atomic_io.read(path) for name, path in videos.items()},
    }


def _portable_config(config: TrainConfig) -> TrainConfig:
    """Return the config without machine-specific values: the runtime and the video directory."""
    distractor = config.env.distractor
    if distractor is not None and distractor.train:
        distractor = dataclasses.replace(distractor, videos=None)
    env = dataclasses.replace(config.env, distractor=distractor)
    return dataclasses.replace(config, env=env, runtime=Runtime())


def _videos(directory: Path, decisions: int) -> dict[str, Path]:
    """Return the videos up to the checkpoint, by their path in the export. The newest is the preview."""
    if not directory.is_dir() or directory.is_symlink():
        return {}
    recorded = [(int(match[2]), path) for path in directory.iterdir() if (match := _VIDEO.fullmatch(path.name))]
    shown = sorted((at, path) for at, path in recorded if at <= decisions and path.is_file() and not path.is_symlink())
    if not shown:
        return {}
    *older, (_, newest) = shown
    return {PREVIEW: newest, **{f"video/{path.name}": path for _, path in reversed(older)}}


def _weights_file(
    weights: Mapping[str, Tensor],
    tree: Mapping[str, Any],
    *,
    observation_shape: tuple[int, ...],
    action_dim: int,
    budget: Budget,
) -> bytes:
    """Return the content of `WEIGHTS`. `tree` is the content of the export's config.json."""
    described = {
        "observation_shape": list(observation_shape),
        "action_dim": action_dim,
        "budget": budget._asdict(),
        "config": identity_digest(tree_identity(tree)),
        "version": __version__,
    }
    return encode(weights, {"format": "pt", "pamd": json.dumps(described)})


def check_repo(repo: str) -> None:
    """Raise ConfigError unless `repo` is OWNER/NAME."""
    if not re.fullmatch(f"{_REPO_PART}/{_REPO_PART}", repo):
        raise ConfigError(f"a repository on the hub must be OWNER/NAME, got {repo!r}")


def hub_client() -> Any:
    """Return the client of huggingface_hub, an `HfApi`, which finds the user's token."""
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise ConfigError(f"uploading requires huggingface_hub: {install_command('hub')}") from None
    return HfApi()


def push(directory: Path, repo: str, client: Any, *, private: bool = False) -> str:
    """Upload an export and return the address of the model. The repository is created if it does not exist."""
    check_repo(repo)
    try:
        # None does not change the visibility of an existing repository.
        client.create_repo(repo, private=private or None, exist_ok=True)
        client.upload_folder(repo_id=repo, folder_path=str(directory), commit_message=f"Upload {directory.name}")
    except Exception as error:  # The client raises many types of errors: network, token, permissions.
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise HubError(f"cannot upload to {repo}: {reason}; the export in {directory} is complete") from None
    return f"https://huggingface.co/{repo}"
