"""Reading a store: export, search, stats, audit, history, show; nothing is changed."""

from __future__ import annotations

import asyncio
import difflib
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memory import assembly
from memory.cli.reporting import ReportFile, check_report, report_audit, report_history
from memory.cli.shell import (
    EXIT_PROBLEM,
    AsJson,
    compared,
    err,
    progress,
    show,
    show_json,
)
from memory.cli.sources import brought_from, with_source
from memory.errors import LedgerMissing, MemoryNotFound, WrongArgument
from memory.text import shortened

if TYPE_CHECKING:
    from rich.text import Text

    from memory.assembly import Source
    from memory.config import Config
    from memory.decide import GroupFilter
    from memory.ledger import DecisionRecord, Reader
    from memory.models import SearchResult
    from memory.store import MemoryStore

Order = Literal["certain", "size", "time"]
_GROUPS = 50
"""Groups that an audit shows by default."""
_MOST_USERS = 5
"""Users that a message names."""
_MOST_CHARACTERS = 2_000
"""Characters of a memory that a search shows."""


def export(
    context: typer.Context,
    user: Annotated[str | None, typer.Option(help="Only memories about this user.")] = None,
) -> None:
    """Write every live memory to stdout as JSON Lines.

    `import` reads it back.
    """
    from memory.interchange import write_memory
    from memory.text import clean

    user = clean(user) if user is not None else None
    with assembly.read_store(context.obj) as store:
        with store.ledger.reading() as reader:
            behind = reader.external_ids_behind()
        for memory in store.memories():
            if user is None or memory.user == user:
                sys.stdout.write(write_memory(memory, behind.get(memory.id, ())) + "\n")
        if user is not None and (others := who_exists(store, user)):
            err().print(f"nothing to export{others}")


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many memories to show.")] = 5,
    user: Annotated[str | None, typer.Option(help="Only memories about this user.")] = None,
    min_score: Annotated[float | None, typer.Option(help="Leave out what scores less.")] = None,
) -> None:
    """Show the memories that match a query best, with scores."""
    from memory.cli.views import grid

    with assembly.read_store(context.obj) as store:
        warn_of_missing_vectors(store)
        found = store.search(query, k, user=user, everyone=user is None, min_score=min_score)
        others = "" if found or user is None else who_exists(store, user)
    if not found:
        err().print(f"nothing found{others}")
    show(grid(map(_hit_row, found), fixed=2))


def who_exists(store: MemoryStore, user: str) -> str:
    """Return the end of a message that names the users there are; "" if this one has memories."""
    from memory.text import clean

    user = clean(user)
    users = [name for name in store.counts().users if name is not None]
    if user in users:
        return ""
    same = [name for name in users if name.casefold() == user.casefold()]
    close = difflib.get_close_matches(user, users, _MOST_USERS, 0.6)
    near = list(dict.fromkeys([*same, *close]))
    shown = ", ".join(near or users[:_MOST_USERS])
    more = (
        f" and {len(users) - _MOST_USERS:,} more" if not near and len(users) > _MOST_USERS else ""
    )
    return f": no memory is about {user!r}; there is {shown}{more}" if shown else ""


def _hit_row(hit: SearchResult) -> tuple[str, str, Text]:
    from rich.text import Text

    content = hit.memory.content
    left = f" ({len(content):,} characters; see export)" if len(content) > _MOST_CHARACTERS else ""
    shown = Text(shortened(content, _MOST_CHARACTERS) + left if left else content)
    return f"{hit.score:.2f}", hit.memory.id, shown


def stats(context: typer.Context, as_json: AsJson = False) -> None:
    """Show what the store holds."""
    from memory.cli.views import table

    with assembly.read_store(context.obj) as store:
        counts = store.counts()
        warn_of_missing_vectors(store)
        with store.ledger.reading() as reader:
            embedder = reader.meta("embedder") or "none yet"
            private = context.obj.memory.read_private
            unread = {
                model: reader.readings.count_unread(model, private=private)
                for model in reader.readings.models()
            }
    if as_json:
        users_of = [{"user": user, "memories": n} for user, n in counts.users.items()]
        held = {**asdict(counts), "users": users_of, "embedder": embedder, "unread": unread}
        show_json({**held, "ledger": store.ledger.name})
        return
    users = [f"{user or 'everyone'} {n:,}" for user, n in counts.users.items()]
    shown = ", ".join(users[:20]) + (", ..." if len(users) > 20 else "")
    decided = ", ".join(f"{n:,} {name}" for name, n in sorted(counts.decisions.items()))
    rows = [
        ("memories", f"{counts.live:,} live, {counts.retired:,} retired"),
        ("users", f"{len(users):,}: {shown}" if users else "none"),
        ("decisions", decided or "none"),
        ("pending", f"{counts.pending:,}"),
        *(("read", f"all but {left:,} memories ({model})") for model, left in unread.items()),
        ("turns to extract", f"{counts.turns:,}"),
        ("embedder", embedder),
        ("ledger", store.ledger.name),
    ]
    show(table(rows))


def warn_of_missing_vectors(store: MemoryStore) -> None:
    """Warn of memories without a vector: nothing is found near them."""
    with store.ledger.reading() as reader:
        say_missing_vectors(len(reader.vectors.missing_texts()))


def say_missing_vectors(missing: int) -> None:
    if missing:
        err().print(
            f"warning: {missing:,} texts have no vector: their memories are kept, but nothing is "
            "found near them; run `memory-dedup doctor --fix`"
        )


@dataclass(frozen=True)
class Showing:
    """Which groups of an audit are shown, and how."""

    groups: int | None = None
    sort: Order = "certain"
    user: str | None = None
    as_json: bool = False
    report: Path | None = None

    @property
    def chosen(self) -> GroupFilter:
        """Return which groups to show: for people the first 50, for programs all."""
        from memory.decide import GroupFilter

        most = _GROUPS if self.groups is None and not self.as_json else self.groups
        return GroupFilter(most, self.sort, self.user)


Groups = Annotated[
    int | None,
    typer.Option("--groups", min=0, help="Groups to show [default: 50, all with --json]."),
]
Sort = Annotated[
    Order,
    typer.Option("--sort", help="Least certain, largest, or newest groups first."),
]


@with_source
def audit(
    *,
    context: typer.Context,
    groups: Groups = None,
    sort: Sort = "certain",
    user: Annotated[str | None, typer.Option(help="Only groups about this user.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole report as JSON.")
    ] = False,
    report: ReportFile = None,
    source: Source,
) -> None:
    """Show what a clean-up would do, and change nothing.

    With a --from option it reads another store and imports nothing.
    """
    showing = Showing(groups, sort, user, as_json, report)
    if source.stores == 0:
        show_audit(context.obj, showing)
        return
    if source.stores > 1:
        raise WrongArgument("audit", "needs one store at a time", "give one --from option")
    _show_foreign_audit(context.obj, source, showing)


def _show_foreign_audit(config: Config, source: Source, showing: Showing) -> None:
    """Plan for another store, in a temporary ledger."""
    check_report(showing.report)
    brought = brought_from(source, config)
    with TemporaryDirectory(prefix="memory-audit-") as folder:
        elsewhere = config.at(folder)
        with assembly.open_store(elsewhere) as store, progress("reading"):
            store.add_batch(brought.memories)
        left_out = len(brought.left_out)
        del brought  # the plan takes as much memory again
        show_audit(elsewhere, showing)
    if left_out:
        err().print(f"{left_out:,} left out; the reasons are above")
        raise typer.Exit(EXIT_PROBLEM)


def show_audit(config: Config, showing: Showing | None = None) -> None:
    """Print the plan of a deduplication; without a ledger, say that there is none."""
    from memory.cli.views import view

    showing = showing or Showing()
    check_report(showing.report)
    try:
        store = assembly.read_store(config)
    except LedgerMissing as exc:
        err().print(f"{exc}")
        return

    with store:
        warn_of_missing_vectors(store)
        with progress("looking") as tell:
            looking = assembly.audit_store(store, config, showing.chosen, compared(tell))
            found = asyncio.run(looking)
        if showing.report is not None:
            report_audit(showing.report, store, found, config.memory.rules)
    if showing.as_json:
        sys.stdout.write(found.report.model_dump_json(indent=2) + "\n")
    elif showing.report is None:
        show(view(found.report, groups=True), paged=True)


def history(
    context: typer.Context,
    memory_id: Annotated[
        str | None, typer.Argument(help="A memory's id [default: all decisions but additions].")
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Show all wordings of a memory, retired ones too.")
    ] = False,
    as_json: AsJson = False,
    report: ReportFile = None,
) -> None:
    """List the decisions with their reasons, oldest first.

    `undo` takes a decision's number, `show` a memory's id.
    """
    from memory.cli.views import decisions_view
    from memory.review import recorded_cards

    check_report(report)
    if text:
        _show_wordings(context.obj, memory_id)
        return
    with assembly.read_store(context.obj) as store, store.ledger.reading() as reader:
        known = None if memory_id is None else known_id(reader, memory_id)
        recorded = store.history(known)
        if known is not None and not recorded:
            raise MemoryNotFound(known)
        cards = [] if as_json or report else recorded_cards(reader, recorded)
        if report is not None:
            report_history(report, store, recorded, context.obj.memory.rules)
    if as_json:
        show_json([_decision_json(one) for one in recorded])
    elif report is None:
        show(decisions_view(cards), paged=True)


def known_id(reader: Reader, given: str) -> str:
    """Return the id of a memory that a person names by its id or by the id that its import gave.

    Raises: WrongArgument if several memories have it.
    """
    found = reader.memories.named(given)
    if len(found) > 1:
        ids = ", ".join(sorted(row.memory.id for row in found))
        raise WrongArgument(given, f"{len(found)} memories have this id", f"name one: {ids}")
    return found[0].memory.id if found else given


def _decision_json(one: DecisionRecord) -> dict[str, object]:
    fields = asdict(one)
    del fields["before"]  # only undo reads it
    survivors = [{"id": name, "stands_for": gone} for name, gone in one.survivors]
    return {**fields, "at": one.at.isoformat(), "survivors": survivors}


def show_memory(
    context: typer.Context,
    memory_id: Annotated[str, typer.Argument(help="The id of a live or retired memory.")],
    as_json: AsJson = False,
) -> None:
    """Show one memory, its wordings and its decisions."""
    from memory.cli.views import memory_json, memory_view
    from memory.review import memory_history

    with assembly.read_store(context.obj) as store, store.ledger.reading() as reader:
        found = memory_history(reader, known_id(reader, memory_id))
    if found is None:
        raise MemoryNotFound(memory_id)
    if as_json:
        show_json(memory_json(found))
    else:
        show(memory_view(found), paged=True)


def _show_wordings(config: Config, memory_id: str | None) -> None:
    """Show a memory's text and those of the memories that it stands for, oldest first.

    Raises: InputError, MemoryNotFound.
    """
    from memory.cli.views import wordings_view

    if memory_id is None:
        raise WrongArgument("history", "--text needs a memory's id", "see `memory-dedup search`")
    with assembly.read_store(config) as store, store.ledger.reading() as reader:
        known = known_id(reader, memory_id)
        found = reader.memories.rows([known, *reader.memories.ancestors(known)])
    rows = [row for row in found.values() if not row.forgotten]
    if not rows:
        raise MemoryNotFound(memory_id)
    rows.sort(key=lambda row: (row.live, row.memory.timestamp, row.seq))
    show(wordings_view(rows))
