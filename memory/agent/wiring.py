"""Build the agent's tools and its folder of Markdown copies."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from memory import Config, MemoryStore
from memory.agent.consolidation import ConsolidationEngine, Propose
from memory.agent.memory_store import AgentMemory, OnSaved
from memory.agent.tools import AgentTools
from memory.agent.workspace_sync import WorkspaceMemorySync
from memory.assembly import Ledger

_WORKSPACE = "workspace"


def build_tools(
    store: MemoryStore,
    config: Config,
    observers: Sequence[OnSaved] = (),
    *,
    propose: Propose | None = None,
) -> AgentTools:
    """Build the tools with which an agent uses its memories.

    `observers`: functions that are called with each memory that the agent saves. `propose`: a
    `Proposer`, so that `consolidate` shows the merges that a model proposes.

    Raises: InputError if `agent.user` is set, but `memory.dedup_scope` does not contain `user`.
    """
    settings = config.agent
    if settings.user is not None:
        config.memory.check_users_apart("leave agent.user out")
    return AgentTools(
        AgentMemory(
            store,
            user=settings.user,
            observers=observers,
            rules=config.memory.rules,
        ),
        ConsolidationEngine(propose),
        build_workspace(config),
        near=config.memory.rules.lower,
        quiet=settings.quiet_scaffolds,
    )


def build_workspace(config: Config, ledger: Ledger | None = None) -> WorkspaceMemorySync | None:
    """Return the object that keeps Markdown copies of memories; None if no folder is known.

    If no folder is configured, use the folder that `keep_workspace` recorded in `ledger`.
    """
    folder = config.agent.workspace_dir
    if folder is None and ledger is not None:
        with ledger.reading() as reader:
            folder = reader.meta(_WORKSPACE)
    return None if folder is None else WorkspaceMemorySync(Path(folder))


def keep_workspace(config: Config, ledger: Ledger) -> None:
    """Record the configured folder of Markdown copies in the ledger, so that all commands find it.

    Also erase leftover copies of forgotten memories from the folder. Copies are left over if a
    process was killed after it erased memories from the store.
    """
    if config.agent.workspace_dir is not None:
        with ledger.writing() as writer:
            writer.set_meta(_WORKSPACE, config.agent.workspace_dir)
    workspace = build_workspace(config, ledger)
    if workspace is not None:
        with contextlib.suppress(OSError):  # the next write to the folder reports the error
            workspace.erase_ids(workspace.forgotten(ledger))
