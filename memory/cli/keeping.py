"""Keeping a store: undo, forget, reembed, doctor, backup, restore, upgrade."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memory import assembly
from memory.cli.looking import known_id, who_exists
from memory.cli.shell import EXIT_PROBLEM, AsJson, confirm, err, progress, show, show_json
from memory.errors import InputError, WrongArgument

if TYPE_CHECKING:
    from memory.ledger import Reader, Run
    from memory.store import Forgotten, ForgottenUser, MemoryStore


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

    Its memories are restored, and are kept apart from then on.
    """
    from memory.agent import follow_undo
    from memory.cli.views import decisions_view
    from memory.review import recorded_cards
    from memory.store import plan_undo

    if dry_run:
        with assembly.read_store(context.obj) as store, store.ledger.reading() as reader:
            undone = plan_undo(reader, _undo_target(reader, target))
            shown = recorded_cards(reader, undone[::-1])[::-1]
        show(decisions_view(shown))
        err().print(f"would undo {len(undone):,} decisions; nothing was changed")
        return
    with assembly.open_existing_store(context.obj) as store:
        with store.ledger.reading() as reader:
            wanted = _undo_target(reader, target)
        undone = store.undo(wanted)
        workspace = assembly.build_workspace(context.obj, store.ledger)
        if problem := follow_undo(store, workspace, undone):
            err().print(problem)
    for one in undone:
        what = f"undone {one.number}: {one.action.value} of {len(one.joined)} memories"
        show(f"{what}, {one.reason}")


def _undo_target(reader: Reader, given: str) -> int | str:
    """Return a decision's number or a run's name; for a memory, its last standing decision."""
    if given.isdecimal():
        return int(given)
    about = reader.decisions.about(known_id(reader, given))
    standing = [one.number for one in about if one.reversible and not one.undone]
    return max(standing, default=given)


def runs(context: typer.Context, as_json: AsJson = False) -> None:
    """List the batches and imports, oldest first.

    `undo` takes the name of a run.
    """
    from memory.cli.views import grid

    with assembly.read_store(context.obj) as store, store.ledger.reading() as reader:
        found = reader.decisions.runs()
    if as_json:
        show_json([{**asdict(run), "began_at": run.began_at.isoformat()} for run in found])
    else:
        show(grid(map(_run_row, found), fixed=2))


def _run_row(run: Run) -> tuple[str, str, str]:
    counts = [*run.decisions.items(), ("pending", run.pending), ("undone", run.undone)]
    shown = ", ".join(f"{n:,} {name}" for name, n in counts if n)
    return run.name, f"{run.began_at:%Y-%m-%d %H:%M}", shown


def forget(
    context: typer.Context,
    memory_id: Annotated[
        str | None, typer.Argument(help="Its id, as `search` and `export` show it.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="Erase all about this user, and their waiting turns.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before erasing a user.")] = False,
) -> None:
    """Erase a memory, or all about a user, for good.

    The memories that it was made from are erased too.
    """
    from memory.agent import forget_everywhere, forget_user_everywhere
    from memory.text import clean

    user = clean(user) if user is not None else None
    if (memory_id is None) == (user is None):
        raise WrongArgument("forget", "needs a memory's id or a user", "give ID, or --user USER")
    with assembly.open_existing_store(context.obj) as store:
        workspace = assembly.build_workspace(context.obj, store.ledger)
        if user is not None:
            _confirm(store, user, yes)
            gone: Forgotten | ForgottenUser
            gone, problem = forget_user_everywhere(store, workspace, user)
        else:
            assert memory_id is not None
            with store.ledger.reading() as reader:
                known = known_id(reader, memory_id)
            gone, problem = forget_everywhere(store, workspace, known)
    if problem:
        err().print(problem)
    _say_what_is_left(gone)


def _confirm(store: MemoryStore, user: str, yes: bool) -> None:
    """Say how much is about a user; end unless the person confirms."""
    with store.ledger.reading() as reader:
        memories = reader.counts().users.get(user, 0)
        turns = reader.turns.count_waiting_of(user)
        more = reader.memories.first_of(user, 1) or reader.episodes.owned_by(user)
    if not memories and not turns and not more:
        others = who_exists(store, user)
        problem = f"there is nothing about {user!r}{others}"
        raise InputError("forget", problem, "see `memory-dedup stats`")
    err().print(f"{memories:,} memories and {turns:,} waiting turns of {user}")
    confirm(yes, "erase them for good?", "nothing was erased")


def _say_what_is_left(gone: Forgotten | ForgottenUser) -> None:
    if gone.erased:
        err().print("erased")
    elif gone.set_aside:
        names = ", ".join(gone.set_aside)
        err().print(
            f"gone from the ledger, but damaged files may still hold it; delete them: {names}"
        )
    else:
        err().print(
            "index pending: gone from the ledger; the process that has the index clears the rest"
        )


def reembed(context: typer.Context) -> None:
    """Compute every vector again, all or none."""
    from memory.upkeep import reembed as make_again

    with assembly.open_existing_ledger(context.obj) as ledger, progress("embedding") as tell:
        count = make_again(ledger, assembly.build_embedder(context.obj), tell)
    err().print(f"{count:,} texts embedded again")


def doctor(
    context: typer.Context,
    fix: Annotated[
        bool, typer.Option("--fix", help="Rebuild what the ledger can rebuild.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check the ledger and the index, and name remedies.

    Without --fix it only reads, also an older ledger or one that it may not write.
    """
    from memory.runtime import clear_abandoned, clear_temporary_folders
    from memory.upkeep import examine, mend

    clear_temporary_folders()
    clear_abandoned(Path(context.obj.memory.data_dir))
    if fix:
        assembly.read_ledger(context.obj).close()  # an older ledger is for `upgrade`
    with assembly.open_to_examine(context.obj) as (store, limit):
        if limit:
            err().print(f"note: {limit}")
        found = examine(store)
        mendable = [finding for finding in found if finding.kind == "mendable"]
        if fix and mendable:
            with progress("mending") as tell:
                mend(store, tell)
            err().print(f"mended: {'; '.join(finding.what for finding in mendable)}")
            found = examine(store)
        if as_json:
            show_json([asdict(finding) for finding in found])
        for finding in () if as_json else found:
            sys.stdout.write(f"{finding.what}; {finding.remedy}\n")
        if any(finding.kind != "yours" for finding in found):
            raise typer.Exit(EXIT_PROBLEM)
        counts = store.counts()
        held = f"{counts.live:,} memories live, {counts.retired:,} retired"
        err().print(f"nothing is damaged: {held}, searched by {store.index.name}")


def backup(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(help="The new file; {date} in its name becomes today's date.")
    ],
) -> None:
    """Back up the whole ledger to one file.

    Other processes can go on working.
    """
    from memory.store import utc_now
    from memory.upkeep import back_up

    file = Path(str(file).replace("{date}", f"{utc_now():%Y-%m-%d}"))
    with assembly.read_ledger(context.obj) as ledger:
        live = back_up(ledger, file)
    err().print(f"backed up {live:,} memories to {file}")


def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file that `backup` wrote.")],
) -> None:
    """Restore a backup.

    The ledger must be damaged or empty.
    """
    from memory.upkeep import restore as bring_back

    live = bring_back(file, context.obj.memory.effective_ledger_url)
    err().print(f"restored {live:,} memories from {file}")


def upgrade(context: typer.Context) -> None:
    """Upgrade the ledger of an earlier version.

    It keeps a copy of the old ledger.
    """
    copy = assembly.upgrade_ledger(context.obj)
    if copy is None:
        err().print("the ledger is up to date already")
    else:
        err().print(f"upgraded; the old ledger is kept in {copy}")
