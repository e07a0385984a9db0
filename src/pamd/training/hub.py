"""Upload an export to the Hugging Face Hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Protocol

from pamd.errors import ConfigError, HubError

__all__ = ["HubClient", "check_repo", "hub_client", "push"]

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"


class HubClient(Protocol):
    """The methods of `huggingface_hub.HfApi` that an upload uses."""

    def create_repo(self, repo_id: str, *, private: bool | None, exist_ok: bool) -> Any: ...

    def upload_folder(self, *, repo_id: str, folder_path: str, commit_message: str) -> Any: ...


def check_repo(repo: str) -> None:
    """Raise ConfigError unless `repo` is OWNER/NAME."""
    if not re.fullmatch(f"{_NAME}/{_NAME}", repo):
        raise ConfigError(f"a repository on the hub must be OWNER/NAME, got {repo!r}")


def hub_client() -> HubClient:
    """Return the client of huggingface_hub, which finds the user's token."""
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise ConfigError("uploading requires huggingface_hub: pip install 'pamd[hub]'") from None
    client: HubClient = HfApi()
    return client


def push(directory: Path, repo: str, client: HubClient, *, private: bool = False) -> str:
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
