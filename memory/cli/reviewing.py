"""A person's say: groups answered on a page, or from a file that a report saved."""

from __future__ import annotations

import asyncio
import sys
import threading
import webbrowser
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memory import assembly
from memory.cli.shell import EXIT_PROBLEM, err

if TYPE_CHECKING:
    import socket

    from memory.config import Config
    from memory.runtime import Address


_INSIST = 'if you insist, say so in the report, or write "insist": true in this line'


def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A decisions file, as a report's page saves it.")],
) -> None:
    """Apply the answers of a person to a report.

    An answer that no longer fits is refused, with the reason.
    """
    from memory.errors import InputError
    from memory.review import Already, Given, Objected, read_decisions

    found = read_decisions(file)
    given = already = refused = 0
    with assembly.open_existing_store(context.obj) as store:
        answers = assembly.build_answers(store, context.obj)
        for number, one in found:
            outcome = one if isinstance(one, InputError) else answers.give(one)
            given += isinstance(outcome, Given)
            already += isinstance(outcome, Already)
            if isinstance(outcome, InputError):
                err().print(f"refused: {outcome}")
                refused += 1
            elif not isinstance(outcome, (Given, Already)):
                remedy = _INSIST if isinstance(outcome, Objected) else ""
                err().print(f"refused: {InputError(file, outcome.why, remedy, number)}")
                refused += 1
    undo = f"; `memory-dedup undo {answers.run}` takes them back" if given else ""
    err().print(f"{given:,} applied, {already:,} applied before, {refused:,} refused{undo}")
    if refused:
        raise typer.Exit(EXIT_PROBLEM)


def review(
    context: typer.Context,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to listen [default: a free port].")
    ] = 0,
    host: Annotated[
        str, typer.Option(help="Whose requests to answer; anything but loopback is reachable.")
    ] = "127.0.0.1",
    blind: Annotated[
        bool, typer.Option("--blind", help="Hide similarity and plan until a group is answered.")
    ] = False,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
) -> None:
    """Go through the groups in a browser.

    There you apply or keep each group, leave a member out, write the text, or undo.
    """
    from memory.runtime import Address

    where = Address(host, port)
    with where.listen() as at:
        where = replace(where, port=at.getsockname()[1])
        asyncio.run(_review(context.obj, where, at, blind=blind, open_browser=not no_browser))
    err().print("stopped; every answer that was given is kept")


async def _review(
    config: Config, where: Address, at: socket.socket, *, blind: bool, open_browser: bool
) -> None:
    from memory.review import BrowserSession, ReviewServer
    from memory.runtime import serve_until, stop_event

    session = BrowserSession(where)
    with assembly.open_existing_store(config) as store:
        async with aclosing(assembly.build_model(config)) as model:
            made = assembly.build_review(store, config, model, blind=blind)
            await made.look()
            with stop_event() as stop:
                _tell(session.address(), open_browser)
                await serve_until(stop, ReviewServer(made, session).app(), at)


def _tell(address: str, open_browser: bool) -> None:
    """Where to look; a browser is not waited for, since some stay until they are closed."""
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    err().print("the address works once; Ctrl-C ends the review")
    if open_browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
