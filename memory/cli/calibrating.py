"""Finding thresholds for one store: a model or a person says which pairs are duplicates."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memory import assembly
from memory.cli.shell import err, progress, show
from memory.config import Config

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memory.protocols import LanguageModel
    from memory.upkeep import AlikePair, Band, CalibrationLog, Counted

_HEADINGS = ("similarity", "pairs", "asked", "duplicates", "covered", "asked", "duplicates")
_NUMBERS = (1, 2, 4, 5)
"""The columns that hold plain numbers."""


def calibrate(
    context: typer.Context,
    person: Annotated[
        bool, typer.Option("--person", help="Ask you, not the model: y, n, s (skip) or q (quit).")
    ] = False,
    per_band: Annotated[
        int,
        typer.Option(
            min=1, max=10_000, help="How many pairs to ask about in each band of similarity."
        ),
    ] = 30,
    wanted: Annotated[
        float,
        typer.Option(
            min=0.5, max=1.0, help="How often a replacement made without asking must be right."
        ),
    ] = 0.99,
) -> None:
    """Suggest thresholds for this store by asking which pairs are duplicates; changes nothing."""
    from memory.upkeep import CalibrationLog, lines, pairs_of, sample, suggest, tally

    config: Config = context.obj
    model = assembly.build_model(config)
    answers = CalibrationLog(
        Path(config.memory.data_dir) / "calibration.jsonl", "person" if person else model.name
    )
    with assembly.read_store(config) as store:
        pairs = pairs_of(store)
    known = answers.read()
    drawn = [pair for pair in sample(pairs, per_band) if pair.key not in known]
    _ask(drawn, answers, config, None if person else model)
    bands = tally(pairs, answers.read())
    show(_view(bands))
    guard = config.memory.dedup_guard
    for line in lines(suggest(bands, wanted, guard=guard), wanted, guard=guard):
        sys.stdout.write(f"{line}\n")


def _ask(
    pairs: list[AlikePair], answers: CalibrationLog, config: Config, model: LanguageModel | None
) -> None:
    """Ask the model, or where there is none the person, who is shown each pair on stderr."""
    from memory.upkeep import ask_model, ask_person

    if model is None:
        ask_person(pairs, answers, lambda text: err().print(text, markup=False), _heard)
        return
    if model.name == "offline":
        err().print(
            "the offline judge only compares words; for better answers, use --person or set a key"
        )
    with progress("asking") as tell:
        ask_model(pairs, model, answers, config.llm.concurrency, tell)


def _heard() -> str | None:
    """One line of the person's, in small letters; None at the end of input."""
    line = sys.stdin.readline()
    return line.strip().lower() if line else None


def _view(bands: Sequence[Band]) -> RenderableType:
    """The bands, the most similar first."""
    from memory.cli.tables import grid

    return grid([_HEADINGS, *map(_cells, reversed(bands))], fixed=6, gap=2, right=_NUMBERS)


def _cells(band: Band) -> tuple[str, ...]:
    every, covered = _counted(band.every), _counted(band.covered)
    covered_pairs = f"{band.covered_pairs:,}"
    return f"{band.low:.3g} to {band.high:.3g}", f"{band.pairs:,}", *every, covered_pairs, *covered


def _counted(counted: Counted) -> tuple[str, str]:
    if counted.precision is None:
        return "0", ""
    low, high = counted.interval
    return f"{counted.asked:,}", f"{counted.precision:.0%} ({low:.0%}-{high:.0%})"
