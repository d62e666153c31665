"""Commands that find, show, export and erase memories, and that list and undo decisions."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, time, timedelta
from functools import partial
from typing import Annotated, Any, Literal

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from memory import agent, assembly, interchange, models, upkeep
from memory.cli.shell import (
    AsJson,
    ReportFile,
    confirm,
    err,
    excerpt,
    grid,
    members_view,
    save_report,
    show,
    show_json,
    table,
    warn_of_missing_vectors,
)
from memory.errors import InputError, MemoryNotFound, WrongArgument
from memory.text import clean, counted, shortened

_MOST_USERS = 5
_MOST_OF_A_PAIR = 300


def export(
    context: typer.Context,
    user: Annotated[str | None, typer.Option(help="Only memories about this user.")] = None,
) -> None:
    """Write live and superseded memories to stdout as JSON Lines.

    `import` reads this output.
    """
    user = clean(user) if user is not None else None
    with assembly.read_store(context.obj) as store:
        with store.ledger.reading() as reader:
            behind = reader.external_ids_behind()
            ended = reader.superseded.within(models.Scope.of_all(private=True))
        for memory in store.memories():
            if user is None or memory.user == user:
                sys.stdout.write(interchange.write_memory(memory, behind.get(memory.id, ())) + "\n")
        for row in ended:
            if user is None or row.memory.user == user:
                line = interchange.write_memory(row.memory, (), row.until, row.successor_id)
                sys.stdout.write(line + "\n")
        if user is not None and (others := users_hint(store, user)):
            err().print(f"nothing to export{others}")


def remember(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="One fact, as a sentence.")],
    user: Annotated[str | None, typer.Option(help="Whom it is about.")] = None,
    no_user: Annotated[
        bool, typer.Option("--no-user", help="It is about no user; instead of --user.")
    ] = False,
    private: Annotated[
        bool, typer.Option("--private", help="Leave it out when all users are searched.")
    ] = False,
) -> None:
    """Deduplicate and store one memory, and say what happened."""
    if (user is None) is not no_user:
        raise WrongArgument("remember", "needs a user", "give --user NAME, or --no-user")
    with assembly.Memories(config=context.obj) as memories:
        done = memories.remember(text, user=user, is_private=private)
    show(f"{done.action.value}: {done.reason}")
    show(grid([(done.memory.id, Text(done.memory.content))], fixed=1))
    err().print(f"stored in {memories.store.ledger.name}")


def list_(
    context: typer.Context,
    user: Annotated[str, typer.Option(help="Whose memories to list.")],
    limit: Annotated[int, typer.Option(min=1, help="How many to list.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the live memories of a user, newest first."""
    with assembly.read_store(context.obj) as store, store.ledger.reading() as reader:
        rows = reader.memories.newest(limit, models.Scope.of_user(user))
        now = store.clock()  # of a store that is only read, what is due is still live
        found = [
            row.memory for row in rows if not ((ends := row.memory.expires_at) and ends <= now)
        ]
        if not found:
            err().print(f"nothing is stored{users_hint(store, user)}")
        _tell_of_waiting(reader, user)
    if as_json:
        show_json([memory.model_dump(mode="json") for memory in found])
        return
    show(grid([(memory.id, Text(excerpt(memory.content))) for memory in found], fixed=1))


def recall(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many memories to show.")] = 5,
    user: Annotated[str | None, typer.Option(help="Only memories about this user.")] = None,
    min_score: Annotated[float | None, typer.Option(help="Leave out what scores less.")] = None,
    include_superseded: Annotated[
        bool | None,
        typer.Option(help="Show what no longer holds, too [default: if the query asks for it]."),
    ] = None,
    as_of: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"],
            help="Only what had been said by the end of this day, or by this time, and still held.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the memories that match a query best, with scores."""
    with assembly.read_store(context.obj) as store:
        warn_of_missing_vectors(store)
        everybody = {"everyone": True, "private": True}
        whose: dict[str, Any] = everybody if user is None else {"user": user}
        if as_of is not None:
            if as_of.time() == time():  # a day
                as_of += timedelta(days=1, microseconds=-1)
            as_of = as_of.replace(tzinfo=store.now().tzinfo)
        whose |= {"include_superseded": include_superseded, "as_of": as_of}
        found = store.search(query, k, **whose, min_score=min_score)
        others = "" if found or user is None else users_hint(store, user)
        with store.ledger.reading() as reader:
            _tell_of_waiting(reader, user)
    if not found:
        err().print(f"nothing found{others}")
    if as_json:
        show_json([_hit_json(hit) for hit in found])
        return
    show(grid((_hit_row(hit, tells_user=user is None) for hit in found), fixed=2))


def _tell_of_waiting(reader: assembly.Reader, user: str | None) -> None:
    """Say how many turns of a user, or of all, are no memories yet."""
    waiting = [one.turn for one in reader.turns.waiting() if not one.turn.is_bot]
    count = sum(user is None or turn.speaker == clean(user) for turn in waiting)
    if count:
        said = counted(count, "turn") + (f" of {user}" if user else "")
        err().print(f"{said} not extracted yet: the bot does it while it runs, or in its `settle`")


def users_hint(store: assembly.MemoryStore, user: str) -> str:
    """Return a hint that names existing users if `user` has no memories.

    The hint names the users whose names resemble `user`. If there are none, it names the five users
    with the most memories. Return "" if `user` has memories, or if there are no users at all.
    """
    user = clean(user)
    users = [name for name in store.counts().users if name is not None]
    if user in users or not users:
        return ""
    like = [name for name in users if name.casefold() == user.casefold()]
    like += [one for one in difflib.get_close_matches(user, users, _MOST_USERS) if one not in like]
    named = like or users[:_MOST_USERS]
    more = "" if like or len(users) == len(named) else f" and {len(users) - len(named):,} more"
    return f": no memory is about {user!r}; there is {', '.join(named)}{more}"


def _hit_json(hit: models.SearchResult) -> dict[str, Any]:
    also = {"also": [one.id for one in hit.also], "newer": hit.newer}
    if hit.until is not None:
        also["until"] = hit.until.isoformat()
    return {**hit.memory.model_dump(mode="json"), "score": hit.score, **also}


def _hit_row(hit: models.SearchResult, *, tells_user: bool) -> tuple[str, str, Text]:
    text = Text(excerpt(hit.memory.content))
    text += f" [{hit.memory.user}]" if tells_user and hit.memory.user else ""
    text += f"\nalso: {', '.join(one.id for one in hit.also)}" if hit.also else ""
    text += f"\nmay be outdated by {hit.newer}" if hit.newer else ""
    text += f"\nheld until {hit.until:%Y-%m-%d}" if hit.until else ""
    return f"{hit.score:.2f}", hit.memory.id, text


def stats(context: typer.Context, as_json: AsJson = False) -> None:
    """Count the memories, users and decisions in the store."""
    with assembly.read_store(context.obj) as store:
        counts = store.counts()
        warn_of_missing_vectors(store)
        with store.ledger.reading() as reader:
            embedder = reader.meta("embedder") or "none yet"
            unread = {
                model: reader.readings.count_unread(model, private=context.obj.memory.read_private)
                for model in reader.readings.models()
            }
    if as_json:
        show_json(
            {
                **asdict(counts),
                "users": [{"user": user, "memories": n} for user, n in counts.users.items()],
                "embedder": embedder,
                "unread": unread,
                "ledger": store.ledger.name,
            }
        )
        return
    users = [f"{user or 'no user'} {n:,}" for user, n in counts.users.items()]
    shown = ", ".join(users[:20]) + (", ..." if len(users) > 20 else "")
    actions = sorted(counts.decisions, key=str)  # a damaged row may have none
    decided = ", ".join(f"{counts.decisions[name]:,} {name}" for name in actions)
    rows = [
        ("memories", f"{counts.live:,} live, {counts.retired:,} retired"),
        ("users", f"{len(users):,}: {shown}" if users else "none"),
        ("decisions", decided or "none"),
        ("pending", f"{counts.pending:,}"),
        (
            "refused",
            f"{counts.refused:,} with a merged text; see history" if counts.refused else "",
        ),
        *(
            ("read", f"all but {counted(left, 'memory')} ({model})")
            for model, left in unread.items()
        ),
        ("turns to extract", f"{counts.turns:,}"),
        ("embedder", embedder),
        ("ledger", store.ledger.name),
    ]
    show(table([row for row in rows if row[1]]))


def history(
    context: typer.Context,
    memory_id: Annotated[
        str | None, typer.Argument(help="A memory's id [default: all decisions but additions].")
    ] = None,
    all_runs: Annotated[
        bool, typer.Option("--runs", help="List the batches and imports instead.")
    ] = False,
    as_json: AsJson = False,
    report: ReportFile = None,
) -> None:
    """List the decisions with their reasons, oldest first.

    Use the number of a decision with `undo`, and the id of a memory with `show`.
    """
    if all_runs:
        if memory_id is not None or report is not None:
            raise WrongArgument("--runs", "lists all runs", "give no id and no --report")
        runs(context, as_json)
        return
    with assembly.read_store(context.obj) as store, store.ledger.reading() as reader:
        known = None if memory_id is None else known_id(reader, memory_id)
        recorded = store.history(known)
        cards = upkeep.recorded_cards(reader, recorded) if report or not as_json else []
        named = dict.fromkeys(name for record in recorded for name in record.members)
        texts = {id_: row.memory.content for id_, row in reader.memories.rows([*named]).items()}
    if report is not None:
        save_report(report, upkeep.history_report(cards, context.obj.memory.rules, store.clock()))
    if as_json:
        show_json([_decision_json(record, texts) for record in recorded])
    elif report is None:
        show(_decisions_view(cards), paged=True)


def known_id(reader: assembly.Reader, given: str) -> str:
    """Return the id of a memory, given this id or the memory's external id.

    An unknown id is returned unchanged.

    Raises: WrongArgument if several memories have this external id.
    """
    found = reader.memories.named(given)
    if len(found) > 1:
        ids = ", ".join(sorted(row.memory.id for row in found))
        raise WrongArgument(given, f"{len(found)} memories have this id", f"name one: {ids}")
    return found[0].memory.id if found else given


def _decision_json(record: assembly.DecisionRecord, texts: Mapping[str, str]) -> dict[str, object]:
    """Return a decision for JSON; `texts` has the texts of memories by their ids."""
    fields = asdict(record) | {"refused": [one.model_dump() for one in record.refused]}
    del fields["before"]  # only undo reads it
    return {
        **fields,
        "at": record.at.isoformat(),
        "texts": {name: texts[name] for name in record.members if name in texts},
        "survivors": [{"id": name, "stands_for": retired} for name, retired in record.survivors],
    }


def show_memory(
    context: typer.Context,
    memory_id: Annotated[
        str | None, typer.Argument(help="Its id, live or retired [default: count what is stored].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show one memory, its earlier texts and its decisions."""
    if memory_id is None:
        stats(context, as_json)
        return
    with assembly.read_store(context.obj) as store, store.ledger.reading() as reader:
        found = upkeep.memory_history(reader, known_id(reader, memory_id))
    if found is None:
        raise MemoryNotFound(memory_id)
    if not as_json:
        show(_memory_view(found), paged=True)
        return
    wordings = [
        {**row.memory.model_dump(mode="json"), "live": row.live, "successor": row.successor_id}
        for row in found.wordings
    ]
    decisions = [card.model_dump(mode="json") for card in found.decisions]
    show_json({"living": found.living, "wordings": wordings, "decisions": decisions})


def _memory_view(found: upkeep.MemoryHistory) -> RenderableType:
    wordings = [
        (
            f"{row.memory.timestamp:%Y-%m-%d %H:%M}",
            row.memory.id,
            "live" if row.live else "retired",
            Text(excerpt(row.memory.content)),
        )
        for row in found.wordings
    ]
    added = [_title(card) for card in found.decisions if card.action == models.Action.ADD]
    decisions = [
        Padding(_decision(card), (1, 0, 0, 0))
        for card in found.decisions
        if card.action != models.Action.ADD
    ]
    living = table([("lives today", found.living or "nobody")])
    return Group(grid(wordings, fixed=3), "", *added, *decisions, "", living)


def _decisions_view(cards: Sequence[upkeep.Card]) -> RenderableType:
    return Group(*(Padding(_decision(card), (0, 0, 1, 0)) for card in cards))


def _title(card: upkeep.Card) -> Text:
    recorded = card.recorded
    assert recorded is not None
    state = "undone" if recorded.undone else "pending" if recorded.pending else ""
    alike = "" if card.similarity is None else f"similarity {card.similarity:.2f}"
    if recorded.cosine not in (None, card.similarity):
        alike += f" (cosine {recorded.cosine:.2f})"
    stored = card.reason if card.action == models.Action.ADD else ""
    facts = (f"{recorded.at:%Y-%m-%d %H:%M}", alike, (card.action, "bold"), state, stored)
    parts = [part for fact in facts if fact for part in ("  ", fact)]
    return Text.assemble((f"decision {recorded.number}", "bold"), *parts)


def _decision(card: upkeep.Card) -> RenderableType:
    recorded = card.recorded
    assert recorded is not None
    verified = f", verified {recorded.verified}" if recorded.verified else ""
    made = [
        ("becomes", f"{excerpt(kept.text)}  {kept.id}")
        for kept in card.kept
        if kept.is_new and kept.text
    ]
    refused = [
        ("refused", f"{excerpt(one.text)}  (by {one.by}: {one.why})") for one in recorded.refused
    ]
    rows = [*made, ("reason", card.reason), *refused, ("by", f"{recorded.by}{verified}")]
    if recorded.reversible and not recorded.undone:
        rows.append(("to undo", f"memory-dedup undo {recorded.number}"))
    return members_view(_title(card), card.members, rows)


# --- what may be outdated ----------------------------------------------------------------------


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
    if len({older is None, newer is None, holds is None}) > 1:
        raise WrongArgument(
            "conflicts", "needs two ids and an answer", "give OLDER NEWER --holds newer"
        )
    if holds is None:
        with assembly.read_store(context.obj) as store:
            found = assembly.suspects(store, user)
        _show_suspects(found, as_json)
        return
    with assembly.open_existing_store(context.obj) as store:
        left, right = store.get(older or ""), store.get(newer or "")
        if left is None or right is None:
            raise MemoryNotFound(str(older if left is None else newer))
        done = assembly.answer(store, assembly.Suspect(left, right), holds)
    err().print(f"{done.reason}; `memory-dedup undo {done.number}` takes this back")


def _show_suspects(found: Sequence[assembly.Suspect], as_json: bool) -> None:
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
        (side, one.id, f"{one.timestamp:%Y-%m-%d}", Text(shortened(one.content, _MOST_OF_A_PAIR)))
        for pair in found
        for side, one in pair._asdict().items()
    ]
    show(grid(rows, fixed=3))


# --- changes --------------------------------------------------------------------------------------


def undo(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(help="A decision's number, a run's name, or a memory's id (its last one)."),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be undone.")
    ] = False,
) -> None:
    """Undo a decision or a run.

    The memories are restored, and later clean-ups keep them apart.
    """
    if dry_run:
        with assembly.read_store(context.obj) as store, store.ledger.reading() as reader:
            undone = assembly.plan_undo(reader, _undo_target(reader, target))
            shown = upkeep.recorded_cards(reader, undone[::-1])[::-1]
        show(_decisions_view(shown))
        err().print(f"would undo {counted(len(undone), 'decision')}; nothing was changed")
        return
    with assembly.open_existing_store(context.obj) as store:
        with store.ledger.reading() as reader:
            wanted = _undo_target(reader, target)
        undone = store.undo(wanted)
        workspace = agent.build_workspace(context.obj, store.ledger)
        if problem := agent.follow_undo(store, workspace, undone):
            err().print(problem)
    for record in undone:
        show(
            f"undone {record.number}: {record.action.value} of "
            f"{counted(len(record.joined), 'memory')}, {record.reason}"
        )


def _undo_target(reader: assembly.Reader, given: str) -> int | str:
    return int(given) if given.isdecimal() else known_id(reader, given)


def runs(context: typer.Context, as_json: AsJson = False) -> None:
    """List the batches and imports, oldest first.

    `undo` takes the name of a run.
    """
    with assembly.read_store(context.obj) as store, store.ledger.reading() as reader:
        found = reader.decisions.runs()
    if as_json:
        show_json([{**asdict(run), "began_at": run.began_at.isoformat()} for run in found])
        return
    if not found:
        err().print("no runs")
    rows = []
    for run in found:
        counts = [*run.decisions.items(), ("pending", run.pending), ("undone", run.undone)]
        shown = ", ".join(f"{n:,} {name}" for name, n in counts if n)
        rows.append((run.name, f"{run.began_at:%Y-%m-%d %H:%M}", shown))
    show(grid(rows, fixed=2))


def forget(
    context: typer.Context,
    memory_id: Annotated[
        str | None, typer.Argument(help="Its id, as `recall` and `export` show it.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="Erase all about this user, and their waiting turns.")
    ] = None,
    description: Annotated[
        str | None,
        typer.Option("--matching", help="With --user: erase what this describes, such as a name."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before erasing.")] = False,
) -> None:
    """Erase a memory, or everything about a user, for good.

    If a memory was made from other memories, they are erased too.
    """
    user = clean(user) if user is not None else None
    if description is not None and user is not None and memory_id is None:
        _forget_matching(context, description, user, yes)
        return
    if (memory_id is None) == (user is None) or description is not None:
        raise WrongArgument(
            "forget", "needs a memory's id or a user", "give ID, or --user USER [--matching TEXT]"
        )
    with assembly.open_existing_store(context.obj) as store:
        erase: Callable[[], assembly.Forgotten | assembly.ForgottenUser]
        if user is not None:
            _confirm_forgetting(store, user, yes)
            erase = partial(assembly.forget_user, store.ledger, store.index, user, store.clock())
        else:
            assert memory_id is not None
            with store.ledger.reading() as reader:
                erase = partial(store.forget, known_id(reader, memory_id))
        workspace = agent.build_workspace(context.obj, store.ledger)
        gone, problem = agent.forget_everywhere(store, workspace, erase)
    if problem:
        err().print(problem)
    for one in gone.remaining if isinstance(gone, assembly.Forgotten) else ():
        err().print(f"still there, and states the same: {one.id}")
    if gone.erased:
        err().print("erased")
    elif gone.set_aside:
        err().print(
            "gone from the ledger, but damaged files may still hold it; delete them: "
            + ", ".join(gone.set_aside)
        )
    else:
        err().print(
            "index pending: gone from the ledger; the process that has the index clears the rest"
        )


def _forget_matching(context: typer.Context, description: str, user: str, yes: bool) -> None:
    """Show the memories and turns of a user that a description names, ask, and erase them."""
    found, waiting = _named(context, description, user)
    if not found and not waiting:
        with assembly.read_store(context.obj) as store, store.ledger.reading() as reader:
            hint = users_hint(store, user) or f"; `memory-dedup list --user {user}` shows all"
            err().print(f"nothing of {user} is named by {description!r}{hint}")
            _tell_of_waiting(reader, user)
    while found or waiting:
        rows = [(memory.id, Text(excerpt(memory.content))) for memory in found]
        rows += [("not extracted yet", Text(excerpt(turn.text))) for turn in waiting]
        show(grid(rows, fixed=1))
        turns = f" and {counted(len(waiting), 'waiting turn')}" if waiting else ""
        err().print(
            f"{counted(len(found), 'memory')}{turns} of {user}, with all that they were made from"
        )
        confirm(yes, "erase them for good?", "nothing was erased")
        if waiting:
            with assembly.open_existing_store(context.obj) as store:
                gone = assembly.forget_turns(store.ledger, store.index, user, description)
            err().print(f"{counted(gone, 'waiting turn')} erased")
        for memory in found:
            forget(context, memory.id)
        found, waiting = _named(context, description, user)  # a turn may be a memory by now


def _named(
    context: typer.Context, description: str, user: str
) -> tuple[list[models.Memory], list[models.Turn]]:
    with assembly.read_store(context.obj) as store, store.ledger.reading() as reader:
        return (
            assembly.described(reader, user, description),
            [one.turn for one in assembly.described_turns(reader, user, description)],
        )


def _confirm_forgetting(store: assembly.MemoryStore, user: str, yes: bool) -> None:
    with store.ledger.reading() as reader:
        memories = reader.counts().users.get(user, 0)
        turns = sum(waiting.turn.speaker == user for waiting in reader.turns.waiting())
        more = reader.memories.first_of(user, 1) or reader.episodes.owned_by(user)
    if not memories and not turns and not more:
        raise InputError(
            "forget",
            f"there is nothing about {user!r}{users_hint(store, user)}",
            "see `memory-dedup store stats`",
        )
    err().print(f"{counted(memories, 'memory')} and {counted(turns, 'waiting turn')} of {user}")
    confirm(yes, "erase them for good?", "nothing was erased")
