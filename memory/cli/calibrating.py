"""Fitting the similarity scale to one store, from answers about pairs of memories."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memory import assembly
from memory.cli.shell import err, progress, show
from memory.errors import InputError

if TYPE_CHECKING:
    from memory.config import Config
    from memory.protocols import LanguageModel
    from memory.upkeep import AlikePair, Answer, Band, CalibrationLog, Counted

_HEADINGS = (
    "cosine", "pairs", "asked", "same", "merge", "apart", "asks", "finds",
)  # fmt: skip
_LEGEND = "asks, finds: questions for 1,000 memories, and pairs found, if all above were asked"
_NUMBERS = (1, 2, 6, 7)
"""The columns that hold plain numbers."""


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
    from memory.models import OFFLINE
    from memory.upkeep import CalibrationLog, pairs_of, reviewed

    config: Config = context.obj
    with assembly.read_store(config) as store:
        pairs, memories = pairs_of(store, config.memory.dedup_candidates)
        known = reviewed(store) if from_reviews else None
    if known is not None:
        reviewed_pairs, answers = known
        pairs = [pair for pair in pairs if pair.key not in answers]
        _suggest([*pairs, *reviewed_pairs], answers, memories, config, wanted)
        return
    model = assembly.build_model(config)
    if model.name == OFFLINE and not person:
        raise InputError(
            "calibrate",
            "the offline judge only compares words, which cannot fit a threshold",
            "answer yourself with --person, use --from-reviews, or configure a model",
        )
    log = CalibrationLog(
        Path(config.memory.data_dir) / "calibration.jsonl", "person" if person else model.name
    )
    _ask(pairs, log, questions, config, None if person else model)
    _suggest(pairs, log.read(), memories, config, wanted)


def _suggest(
    pairs: Sequence[AlikePair],
    answers: Mapping[str, Answer],
    memories: int,
    config: Config,
    wanted: float,
) -> None:
    """Show the answers for each band, and the lines of config.yaml that follow from them."""
    from memory.upkeep import lines, suggest

    for title, members in _by_script(pairs):
        _show_bands(title, members, answers, memories)
    show(_LEGEND)
    now = config.memory.scale_for(assembly.build_embedder(config).fingerprint)
    suggested = suggest(pairs, answers, now, wanted, guard=config.memory.dedup_guard)
    for line in lines(suggested, wanted):
        sys.stdout.write(f"{line}\n")


def _by_script(pairs: Sequence[AlikePair]) -> list[tuple[str, list[AlikePair]]]:
    """Split off pairs with kana or Han, which have an anchor of their own."""
    strict = [pair for pair in pairs if pair.strict]
    others = [pair for pair in pairs if not pair.strict]
    if not strict:
        return [("", others)]
    found = [("other scripts", others)] if others else []
    return [*found, ("kana or Han in either text", strict)]


def _ask(
    pairs: Sequence[AlikePair],
    log: CalibrationLog,
    questions: int,
    config: Config,
    model: LanguageModel | None,
) -> None:
    """Ask the model, or without one the person, who is shown each pair on stderr."""
    from memory.upkeep import ask_model, ask_person

    if model is None:
        ask_person(pairs, log, questions, lambda text: err().print(text, markup=False), _heard)
        return
    with progress("asking") as tell:
        ask_model(pairs, model, log, questions, config.llm.concurrency, tell)


def _heard() -> str | None:
    """Return one line that the person typed, in lower case; None at the end of input."""
    line = sys.stdin.readline()
    return line.strip().lower() if line else None


def _show_bands(
    title: str, pairs: Sequence[AlikePair], answers: Mapping[str, Answer], memories: int
) -> None:
    """Show the bands that have pairs, the most similar first."""
    from memory.cli.views import grid
    from memory.upkeep import prices, tally

    bands = tally(pairs, answers)
    priced = zip(bands, prices(bands, memories), strict=True)
    rows = [_cells(band, *price) for band, price in priced if band.pairs]
    if title:
        show(title)
    show(grid([_HEADINGS, *reversed(rows)], fixed=7, gap=1, right=_NUMBERS))


def _cells(band: Band, asks: float, found: float | None) -> tuple[str, ...]:
    said = band.every
    shares = (_share(said, hits) for hits in (said.same, said.merge, said.apart))
    finds = "?" if found is None else f"{found:,.0f}"
    edges = f"{band.low:.2f}-{band.high:.2f}"
    return edges, f"{band.pairs:,}", f"{said.asked:,}", *shares, f"{asks:,.0f}", finds


def _share(counted: Counted, hits: int) -> str:
    share = counted.share(hits)
    if share is None:
        return ""
    low, high = counted.interval(hits)
    return f"{share:.0%} ({100 * low:.0f}-{high:.0%})"
