"""What a person decides: groups answered in a browser, or in a file that a report saved."""

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


_INSIST = 'to apply it anyway, insist in the report or write "insist": true in this line'


def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A decisions file that a report saved.")],
) -> None:
    """Apply the answers that a person gave in a report.

    An answer that no longer fits is refused, with the reason.
    """
    from memory.errors import InputError
    from memory.review import Already, Given, Objected, Refused, read_decisions

    found = read_decisions(file)
    given = already = 0
    with assembly.open_existing_store(context.obj) as store:
        answers = assembly.build_answers(store, context.obj)
        for number, one in found:
            outcome = one if isinstance(one, InputError) else answers.give(one)
            given += isinstance(outcome, Given)
            already += isinstance(outcome, Already)
            if isinstance(outcome, (Objected, Refused)):
                remedy = _INSIST if isinstance(outcome, Objected) else ""
                outcome = InputError(file, outcome.why, remedy, number)
            if isinstance(outcome, InputError):
                err().print(f"refused: {outcome}")
    refused = len(found) - given - already
    undo = f"; `memory-dedup undo {answers.run}` undoes them" if given else ""
    err().print(f"{given:,} applied, {already:,} applied before, {refused:,} refused{undo}")
    if refused:
        raise typer.Exit(EXIT_PROBLEM)


def review(
    context: typer.Context,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on [default: a free one].")
    ] = 0,
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on; others than loopback can be reached by others."
        ),
    ] = "127.0.0.1",
    blind: Annotated[
        bool, typer.Option("--blind", help="Hide similarity and plan until you have answered.")
    ] = False,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
) -> None:
    """Go through the groups in a browser.

    There you apply the plan, keep a group apart, leave a member out, write one text, or undo.
    """
    from memory.runtime import Address

    where = Address(host, port)
    with where.listen() as listening:
        where = replace(where, port=listening.getsockname()[1])
        asyncio.run(
            _review(context.obj, where, listening, blind=blind, open_browser=not no_browser)
        )
    err().print("stopped; every answer that was given is kept")


async def _review(
    config: Config, where: Address, listening: socket.socket, *, blind: bool, open_browser: bool
) -> None:
    from memory.review import BrowserSession, ReviewServer
    from memory.runtime import serve_until, stop_event

    session = BrowserSession(where)
    with assembly.open_existing_store(config) as store:
        async with aclosing(assembly.build_model(config)) as model:
            review = assembly.build_review(store, config, model, blind=blind)
            await review.look()
            with stop_event() as stop:
                _show_address(session.address(), open_browser)
                await serve_until(stop, ReviewServer(review, session).app(), listening)


def _show_address(address: str, open_browser: bool) -> None:
    """Print the address; open it in a thread, since some browsers return only when closed."""
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    err().print("the address works once; Ctrl-C ends the review")
    if open_browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
