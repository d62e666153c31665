"""The command `serve`, which offers the agent's tools over stdio or HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memory import agent, assembly, config, runtime
from memory.cli.shell import err
from memory.errors import InputError, WrongArgument, installed

if TYPE_CHECKING:
    from memory import MemoryStore

_SWITCH_S = 0.0005
"""A call gives up the interpreter some fifty times, and waits this long for it (default: 5 ms)."""


def serve(
    context: typer.Context,
    user: Annotated[str | None, typer.Option(help="Serve only this user's memories.")] = None,
    workspace: Annotated[
        Path | None, typer.Option(help="A folder that gets a Markdown copy of public memories.")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve over HTTP, at /mcp, instead of stdio."),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            help="With --http: a file of lines TOKEN USER [default: MEMORY_AGENT_TOKENS]."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="With --http: a host name that clients use; repeatable."),
    ] = None,
    quiet_scaffolds: Annotated[
        bool,
        typer.Option("--quiet-scaffolds", help="Leave out the questions that end the answers."),
    ] = False,
) -> None:
    """Serve the agent's tools over MCP.

    The client starts this command and talks over stdio, or connects over HTTP.
    """
    if user is not None and not user.strip():
        raise WrongArgument("--user", "is empty", "name the user, or leave it out")
    given = {
        "user": user,
        "workspace_dir": str(workspace.absolute()) if workspace else None,
        "quiet_scaffolds": quiet_scaffolds or None,
    }
    config = _with_agent(context.obj, {key: value for key, value in given.items() if value})
    if config.agent.user is not None:
        config.memory.check_users_apart("serve without --user and agent.user")
    if http is not None:
        _over_http(config, http, tokens, allow_host or [])
    elif tokens is not None or allow_host:
        raise WrongArgument("--tokens, --allow-host", "are for HTTP", "give --http HOST:PORT too")
    else:
        _over_stdio(config)


def _with_agent(config: config.Config, values: Mapping[str, object]) -> config.Config:
    return config.model_copy(update={"agent": config.agent.model_copy(update=values)})


def _over_stdio(config: config.Config) -> None:
    with installed("agent", "memory-dedup serve"):
        make_server = agent.AgentServer

    def opened() -> agent.Opened:
        store = assembly.open_store(config)
        return _opened(store, config, None)

    agent.run_and_exit(make_server(ThreadPoolExecutor(1, "opening").submit(opened)))


def _over_http(config: config.Config, http: str, file: Path | None, names: list[str]) -> None:
    with installed("agent", "memory-dedup serve"):
        make_server = agent.AgentServer
    from memory.config import TOKENS_VARIABLE

    address = runtime.Address.read(http)
    tokens = agent.read_tokens(file) if file is not None else None
    if tokens is None and (lines := os.environ.get(TOKENS_VARIABLE, "")).strip():
        tokens = agent.Tokens.read(TOKENS_VARIABLE, lines)
    _check_http(config, address, tokens, names)
    with address.listen() as listening, assembly.open_store(config) as store:
        opening: Future[agent.Opened] = Future()
        opening.set_result(_opened(store, config, tokens))
        server = make_server(opening)

        def check() -> None:
            with store.ledger.reading() as reader:
                reader.revision()

        err().print(f"serving at http://{address.name}:{listening.getsockname()[1]}/mcp")
        app = agent.token_gate(server.over_http(address, names), tokens, check)
        before = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_S)
        try:
            asyncio.run(agent.serve_over_http(server, app, listening))
        finally:
            sys.setswitchinterval(before)


def _check_http(
    config: config.Config, address: runtime.Address, tokens: agent.Tokens | None, names: list[str]
) -> None:
    """Check that `serve --http` would show no memories to strangers.

    Without tokens, only this machine may reach the server. With tokens, each client sees the
    memories of one user. The configuration must then set neither `agent.user` nor
    `agent.workspace_dir`, and memories of different users must never be compared. If the server
    listens at all addresses of this machine, `names` must contain the host names that clients use.

    Raises: InputError if there are tokens, but memories of different users may be compared.
    WrongArgument if another condition is not met.
    """
    if tokens is None:
        if not address.is_loopback:
            raise WrongArgument(
                "--http",
                f"others can reach {address.host}, and no token is asked for",
                "give --tokens FILE, or listen on 127.0.0.1",
            )
        return
    if address.is_every and not names:
        raise WrongArgument(
            "--http",
            f"clients cannot call {address.host}",
            "give their name for it with --allow-host",
        )
    if config.agent.user is not None:
        raise WrongArgument("--user", "and tokens both name users", "leave out one of them")
    if config.agent.workspace_dir is not None:
        raise WrongArgument(
            "--workspace", "shows the memories of all users of the tokens", "leave it out"
        )
    config.memory.check_users_apart("use no tokens")


def _opened(store: MemoryStore, config: config.Config, tokens: agent.Tokens | None) -> agent.Opened:
    """Build a set of tools for each user of `tokens`, or one shared set if `tokens` is None.

    If the configuration names a folder for Markdown copies, first record the folder in the ledger.
    All commands read it there, and so keep the copies up to date.
    """
    workspace = agent.build_workspace(config)
    try:
        if workspace is not None:
            workspace.check()
    except InputError as exc:
        err().print(f"warning: {exc}; until then memories are stored without their entries")
    agent.keep_workspace(config, store.ledger)
    propose = assembly.Proposer(store, config)
    if tokens is None:
        shared = agent.build_tools(store, config, propose=propose)
        return agent.Opened(lambda _user: shared, store.close, propose.aclose)
    own: dict[str | None, agent.AgentTools] = {
        user: agent.build_tools(store, _with_agent(config, {"user": user}), propose=propose)
        for user in tokens.users
    }
    return agent.Opened(own.__getitem__, store.close, propose.aclose)
