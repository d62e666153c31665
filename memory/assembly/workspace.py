"""The Markdown beside a store, and where it is kept."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory.agent import WorkspaceMemorySync
    from memory.config import Config
    from memory.ledger import Ledger


_WORKSPACE = "workspace"


def build_workspace(config: Config, ledger: Ledger | None = None) -> WorkspaceMemorySync | None:
    """The Markdown beside the store: in the configured folder, else where a server last kept it."""
    folder = config.agent.workspace_dir
    if folder is None and ledger is not None:
        with ledger.reading() as reader:
            folder = reader.meta(_WORKSPACE)
    if folder is None:
        return None
    from memory.agent import WorkspaceMemorySync

    return WorkspaceMemorySync(Path(folder))


def keep_workspace(config: Config, ledger: Ledger) -> None:
    """Note where a server keeps its Markdown, so that every command can follow it.

    What a process that was killed while it forgot has left there is erased.
    """
    if config.agent.workspace_dir is not None:
        with ledger.writing() as writer:
            writer.set_meta(_WORKSPACE, config.agent.workspace_dir)
    workspace = build_workspace(config, ledger)
    if workspace is not None:
        with contextlib.suppress(OSError):  # whoever writes there next says why
            workspace.erase_forgotten(ledger)
