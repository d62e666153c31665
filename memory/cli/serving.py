"""Serving an agent over stdio."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memory import assembly
from memory.errors import InputError


def serve(
    context: typer.Context,
    user: Annotated[str | None, typer.Option(help="Only this user's memories.")] = None,
    workspace: Annotated[
        Path | None, typer.Option(help="A folder that gets a Markdown copy of public memories.")
    ] = None,
) -> None:
    """Serve the agent's tools over stdio, for an MCP client that starts this command."""
    from memory.agent import AgentServer, run_and_exit

    if user is not None and not user.strip():
        raise InputError("--user", "is empty", "name the user, or leave it out")
    given = {"user": user, "workspace_dir": str(workspace.absolute()) if workspace else None}
    set_here = {key: value for key, value in given.items() if value is not None}
    agent = context.obj.agent.model_copy(update=set_here)
    config = context.obj.model_copy(update={"agent": agent})
    store = assembly.open_store(config)
    assembly.keep_workspace(config, store.ledger)
    store.index.postpone()

    def when_idle() -> None:
        store.index.open_in_background(store.scrub)

    run_and_exit(AgentServer(assembly.build_tools(store, config), when_idle), store.close)
