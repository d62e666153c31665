"""The command that lists memories that may be outdated, and takes a person's answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from memory import assembly
from memory.cli.shell import AsJson, err, grid, show, show_json
from memory.errors import MemoryNotFound, WrongArgument
from memory.models import Memory
from memory.text import shortened

if TYPE_CHECKING:
    from memory.assembly import Suspect

_MOST_CHARACTERS = 300


def conflicts(
    context: typer.Context,
    older: Annotated[str | None, typer.Argument(help="The id of the older memory.")] = None,
    newer: Annotated[str | None, typer.Argument(help="The id of the newer memory.")] = None,
    holds: Annotated[
        Literal["newer", "older", "both"] | None,
        typer.Option(help="Your answer about the two: which one holds now."),
    ] = None,
    user: Annotated[str | None, typer.Option(help="Only memories about this user.")] = None,
    as_json: AsJson = False,
) -> None:
    """List pairs of memories of which the older one may be outdated, or answer one of them.

    The memory that no longer holds is retired; `undo` brings it back. A pair that you have answered
    is not listed again.
    """
    from memory.assembly import Suspect, answer, suspects

    if holds is not None and (older is None or newer is None):
        raise WrongArgument("conflicts", "needs two ids", "give OLDER NEWER --holds newer")
    if holds is None:
        with assembly.read_store(context.obj) as store:
            found = suspects(store, user)
        _show(found, as_json)
        return
    with assembly.open_existing_store(context.obj) as store:
        pair = Suspect(*(_known(store.get(name or ""), name or "") for name in (older, newer)))
        done = answer(store, pair, holds)
    err().print(f"{done.reason}; `memory-dedup undo {done.number}` takes this back")


def _known(memory: Memory | None, name: str) -> Memory:
    if memory is None:
        raise MemoryNotFound(name)
    return memory


def _show(found: Sequence[Suspect], as_json: bool) -> None:
    if as_json:
        show_json(
            [
                {
                    side: {"id": one.id, "content": one.content, "said": one.timestamp.isoformat()}
                    for side, one in pair._asdict().items()
                }
                for pair in found
            ]
        )
        return
    if not found:
        err().print("no memory seems to be outdated")
    rows = [
        (side, one.id, f"{one.timestamp:%Y-%m-%d}", Text(shortened(one.content, _MOST_CHARACTERS)))
        for pair in found
        for side, one in pair._asdict().items()
    ]
    show(grid(rows, fixed=3))
