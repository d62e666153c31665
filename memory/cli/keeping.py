"""Commands that maintain a store: calibrate, reembed, doctor, backup, restore, upgrade."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memory import assembly, models, runtime, upkeep
from memory.cli.shell import EXIT_PROBLEM, AsJson, err, progress, show, show_json
from memory.cli.views import grid
from memory.errors import InputError

if TYPE_CHECKING:
    from memory.config import Config
_HEADINGS = (
    "cosine", "pairs", "asked", "same", "merge", "apart", "asks", "finds",
)  # fmt: skip
_LEGEND = "asks, finds: questions for 1,000 memories, and pairs found, if all above were asked"


def reembed(context: typer.Context) -> None:
    """Compute all vectors with the configured embedder.

    If that fails, the old vectors stay.
    """
    with assembly.open_existing_ledger(context.obj) as ledger, progress("embedding") as tell:
        count = upkeep.reembed(ledger, assembly.build_embedder(context.obj), tell)
    err().print(f"{count:,} texts embedded again")


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
    file = Path(str(file).replace("{date}", f"{datetime.now(UTC):%Y-%m-%d}"))
    with assembly.read_ledger(context.obj) as ledger:
        live = upkeep.back_up(ledger, file)
    err().print(f"backed up {live:,} memories to {file}")


def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file that `backup` wrote.")],
) -> None:
    """Restore a backup.

    The ledger must be damaged or empty.
    """
    live = upkeep.restore(file, context.obj.memory.effective_ledger_url)
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
    config: Config = context.obj
    with assembly.read_store(config) as store:
        pairs, memories = upkeep.pairs_of(store, config.memory.dedup_candidates)
        known = upkeep.reviewed(store) if from_reviews else None
    if known is not None:
        reviewed_pairs, answers = known
        pairs = [*(pair for pair in pairs if pair.key not in answers), *reviewed_pairs]
    else:
        answers = _collect_answers(pairs, config, questions, person=person)
    _suggest(pairs, answers, memories, config, wanted)


def _collect_answers(
    pairs: Sequence[upkeep.AlikePair], config: Config, questions: int, *, person: bool
) -> dict[str, upkeep.Answer]:
    """Ask about pairs of memories until `questions` pairs have an answer; return all answers.

    The model is asked or, if `person` is true, the user at the terminal. The result has the answers
    by the pair's key. It includes the answers that the same model, or any person, gave in earlier
    runs. Pairs with such an answer are not asked about again.

    Raises: InputError if the only model is the offline one, which cannot answer.
    """
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
        upkeep.ask_person(
            pairs, log, questions, lambda text: err().print(text, markup=False), _read_answer
        )
    else:
        with progress("asking") as tell:
            upkeep.ask_model(pairs, model, log, questions, config.llm.concurrency, tell)
    return log.read()


def _read_answer() -> str | None:
    """Read a line from the user; return it in lower case, or None at the end of input."""
    line = sys.stdin.readline()
    return line.strip().lower() if line else None


def _suggest(
    pairs: Sequence[upkeep.AlikePair],
    answers: Mapping[str, upkeep.Answer],
    memories: int,
    config: Config,
    wanted: float,
) -> None:
    """Print the answers for each band of cosines, and settings for config.yaml that fit them.

    `answers`: the answers about `pairs`, by the pair's key. `memories`: the number of live
    memories, to calculate the questions for 1,000 memories. `wanted`: of the replacements made
    without asking a model, the share that must be right, from 0.5 to 1. Pairs with kana or Han have
    a separate table, because they have a separate threshold.
    """
    cjk = [pair for pair in pairs if pair.has_cjk]
    others = [pair for pair in pairs if not pair.has_cjk]
    if others or not cjk:
        _show_bands("other scripts" if cjk else "", others, answers, memories)
    if cjk:
        _show_bands("kana or Han in either text", cjk, answers, memories)
    show(_LEGEND)
    now = config.memory.scale_for(assembly.build_embedder(config).fingerprint)
    suggested = upkeep.suggest(pairs, answers, now, wanted, guard=config.memory.dedup_guard)
    sys.stdout.writelines(f"{line}\n" for line in upkeep.lines(suggested, wanted))


def _show_bands(
    title: str,
    pairs: Sequence[upkeep.AlikePair],
    answers: Mapping[str, upkeep.Answer],
    memories: int,
) -> None:
    """Print a table with a row for each band of cosines, the most similar band first.

    A row counts the pairs whose cosine is in the band. Bands without pairs are left out. `title`: a
    line above the table; "" means no line. `answers`: the answers about `pairs`, by the pair's key.
    `memories`: the number of live memories, to calculate the questions for 1,000 memories.
    """
    bands = upkeep.tally(pairs, answers)
    rows = []
    for band, (asks, finds) in zip(bands, upkeep.prices(bands, memories), strict=True):
        counted = band.every
        shares = (_share(counted, hits) for hits in (counted.same, counted.merge, counted.apart))
        counts = f"{band.low:.2f}-{band.high:.2f}", f"{band.pairs:,}", f"{counted.asked:,}"
        prices = f"{asks:,.0f}", "?" if finds is None else f"{finds:,.0f}"
        if band.pairs:
            rows.append((*counts, *shares, *prices))
    if title:
        show(title)
    show(grid([_HEADINGS, *reversed(rows)], fixed=7, gap=1, right=(1, 2, 6, 7)))


def _share(counted: upkeep.Counted, hits: int) -> str:
    share = counted.share(hits)
    if share is None:
        return ""
    low, high = counted.interval(hits)
    return f"{share:.0%} ({100 * low:.0f}-{high:.0%})"
