"""Commands that maintain a store or try a model: doctor, try-model, backup and others."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from memory import assembly, config, models, runtime, upkeep
from memory.cli.shell import (
    EXIT_PROBLEM,
    AsJson,
    cost,
    err,
    grid,
    progress,
    show,
    show_json,
    table,
)
from memory.errors import InputError
from memory.text import counted

_HEADINGS = ("cosine", "pairs", "asked", "same", "merge", "apart")


def reembed(context: typer.Context) -> None:
    """Compute all vectors with the configured embedder.

    If that fails, the old vectors stay.
    """
    with assembly.open_existing_ledger(context.obj) as ledger, progress("embedding") as tell:
        count = upkeep.reembed(ledger, assembly.build_embedder(context.obj), tell)
    err().print(f"{counted(count, 'text')} embedded again")


def try_model(context: typer.Context, as_json: AsJson = False) -> None:
    """Ask the configured model about merges, a page and turns with known answers.

    It costs four calls. No memory is sent, and nothing is stored.
    """
    found = asyncio.run(_tried(context.obj))
    money = context.obj.llm.money(found.usage)
    if as_json:
        show_json({**found.model_dump(), "money": money})
        return
    fit = {True: "good enough", False: "not good enough"}
    rows = [
        ("second readings", fit[found.reads_again]),
        (
            "",
            f"{found.accepted} of 4 wrong merges accepted, {found.refused} of 4 right ones refused",
        ),
        ("pages", fit[found.reads_pages]),
        ("", f"{found.pairs_found} of {found.pairs} pairs found, {found.pairs_wrong} wrong ones"),
        ("extraction", fit[found.extracts]),
        ("", f"{found.facts_found} of {found.facts} facts found, {found.noise} useless memories"),
        *((f"no {part}", why) for part, why in found.failures.items()),
        ("model calls", cost(found.model, found.usage, money)),
        ("time", f"{found.seconds:.1f} s"),
    ]
    show(table(rows))


async def _tried(config: config.Config) -> upkeep.ModelTrial:
    async with aclosing(assembly.build_model(config)) as model:
        return await upkeep.try_model(model)


def doctor(
    context: typer.Context,
    fix: Annotated[
        bool, typer.Option("--fix", help="Rebuild what the ledger can rebuild.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check the ledger and the index, and name remedies.

    Without --fix it only reads. It can also read an older ledger, or one that it may not write.
    """
    runtime.clear_temporary_folders()
    runtime.clear_abandoned(Path(context.obj.memory.data_dir))
    if fix:
        assembly.read_ledger(context.obj).close()  # an older ledger is for `upgrade`
    with assembly.open_to_examine(context.obj) as (store, limit):
        if limit:
            err().print(f"note: {limit}")
        found = upkeep.examine(store)
        mendable = [finding for finding in found if finding.kind == "mendable"]
        if fix and mendable:
            with progress("mending") as tell:
                upkeep.mend(store, tell)
            err().print(f"mended: {'; '.join(finding.what for finding in mendable)}")
            found = upkeep.examine(store)
        if as_json:
            show_json([asdict(finding) for finding in found])
        for finding in () if as_json else found:
            sys.stdout.write(f"{finding.what}; {finding.remedy}\n")
        if any(finding.kind != "yours" for finding in found):
            raise typer.Exit(EXIT_PROBLEM)
        counts = store.counts()
        err().print(
            f"nothing is damaged: {counted(counts.live, 'memory')} live, "
            f"{counts.retired:,} retired, searched by {store.index.name}"
        )


def backup(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(help="The new file; {date} in its name becomes today's date.")
    ],
) -> None:
    """Back up the whole ledger to one file.

    Other processes can go on working.
    """
    file = Path(str(file).replace("{date}", f"{datetime.now(UTC):%Y-%m-%d}"))
    with assembly.read_ledger(context.obj) as ledger:
        live = upkeep.back_up(ledger, file)
    err().print(f"backed up {counted(live, 'memory')} to {file}")


def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file that `backup` wrote.")],
) -> None:
    """Restore a backup.

    The ledger must be damaged or empty.
    """
    live = upkeep.restore(file, context.obj.memory.effective_ledger_url)
    err().print(f"restored {counted(live, 'memory')} from {file}")


def upgrade(context: typer.Context) -> None:
    """Upgrade the ledger of an earlier version.

    It keeps a copy of the old ledger.
    """
    copy = assembly.upgrade_ledger(context.obj)
    if copy is None:
        err().print("the ledger is up to date already")
    else:
        err().print(f"upgraded; the old ledger is kept in {copy}")


# --- calibrate ------------------------------------------------------------------------------------


def calibrate(
    context: typer.Context,
    person: Annotated[
        bool,
        typer.Option(
            "--person", help="Ask you instead of the model: y, m, n, s (skip) or q (quit)."
        ),
    ] = False,
    questions: Annotated[
        int,
        typer.Option(min=1, max=100_000, help="The most pairs to ask about, over all days."),
    ] = 120,
    wanted: Annotated[
        float,
        typer.Option(
            min=0.5, max=1.0, help="The share of unasked replacements that must be right."
        ),
    ] = 0.99,
    from_reviews: Annotated[
        bool,
        typer.Option("--from-reviews", help="Use the answers of reviews and ask nobody."),
    ] = False,
) -> None:
    """Suggest a scale of similarity for this store.

    It asks whether pairs of memories say the same, and changes nothing.
    """
    settings: config.Config = context.obj
    with assembly.read_store(settings) as store:
        pairs = upkeep.pairs_of(store)
        of_reviews, answers = upkeep.reviewed(store) if from_reviews else ([], {})
    pairs = [*(pair for pair in pairs if pair.key not in answers), *of_reviews]
    if not from_reviews:
        answers = _collect_answers(pairs, settings, questions, person=person)
    for title, cjk in (("", False), ("kana or Han in either text", True)):
        if chosen := [pair for pair in pairs if pair.has_cjk is cjk]:
            _show_bands(title, chosen, answers)
    now = settings.memory.scale_for(assembly.build_embedder(settings).fingerprint)
    scale = upkeep.suggest_scale(pairs, answers, now)
    upper = upkeep.suggest_upper(pairs, answers, wanted, guard=settings.memory.dedup_guard)
    sys.stdout.writelines(f"{line}\n" for line in upkeep.lines(scale, upper, wanted))


def _collect_answers(
    pairs: Sequence[upkeep.AlikePair], config: config.Config, questions: int, *, person: bool
) -> dict[str, upkeep.Answer]:
    model = assembly.build_model(config)
    if model.name == models.OFFLINE and not person:
        raise InputError(
            "calibrate",
            "the offline judge only compares words, which cannot fit a threshold",
            "answer yourself with --person, use --from-reviews, or configure a model",
        )
    file = Path(config.memory.data_dir) / "calibration.jsonl"
    log = upkeep.CalibrationLog(file, "person" if person else model.name)
    if person:
        upkeep.ask_person(pairs, log, questions, err().print, sys.stdin.readline)
    else:
        with progress("asking") as tell:
            upkeep.ask_model(pairs, model, log, questions, config.llm.concurrency, tell)
    return log.read()


def _show_bands(
    title: str, pairs: Sequence[upkeep.AlikePair], answers: Mapping[str, upkeep.Answer]
) -> None:
    rows: list[Sequence[str]] = [_HEADINGS]
    for low, high, members in zip(
        upkeep.EDGES, upkeep.EDGES[1:], upkeep.by_band(pairs), strict=False
    ):
        said = upkeep.answers_about(members, answers)
        counts = (len(members), said.total(), *(said[answer] for answer in upkeep.Answer))
        if members:
            rows.insert(1, (f"{low:.2f}-{high:.2f}", *(f"{count:,}" for count in counts)))
    if title:
        show(title)
    show(grid(rows, fixed=5, gap=2, right=range(1, 5)))
