"""Calibration, driven: pairs of a store, a judge or a person who says which are duplicates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing

from memory.decide import alike_pairs
from memory.models import Question
from memory.protocols import LanguageModel
from memory.store import MemoryStore
from memory.text import compare
from memory.threads import Progress, side_by_side
from memory.upkeep.calibration import EDGES, AlikePair, Suggestion
from memory.upkeep.calibration_log import CalibrationLog

_SAYS = {"y": True, "yes": True, "n": False, "no": False}
_SKIPS = frozenset({"s", "skip", ""})


def pairs_of(store: MemoryStore) -> list[AlikePair]:
    """Every pair of live memories of one scope, similar enough for the lowest band."""
    found = alike_pairs(store.snapshot(), store.scope_of, EDGES[0])
    return [AlikePair(older.memory, newer.memory, score) for older, newer, score in found]


def ask_model(
    pairs: Sequence[AlikePair],
    model: LanguageModel,
    log: CalibrationLog,
    at_once: int,
    tell: Progress,
) -> None:
    """Ask about each pair and keep each answer as it comes.

    Raises: ModelError; what was answered before is kept.
    """

    async def one(pair: AlikePair) -> None:
        question = Question((pair.older, pair.newer), "calibration", pair.similarity)
        verdict = await model.judge(question)
        log.add(pair.key, bool(verdict.parts))

    async def every() -> None:
        async with aclosing(model):
            await side_by_side(one, pairs, at_once, tell)

    asyncio.run(every())


def ask_person(
    pairs: Sequence[AlikePair],
    log: CalibrationLog,
    say: Callable[[str], None],
    hear: Callable[[], str | None],
) -> int:
    """Show each pair and keep each answer; gives how many. `hear` gives None at the end."""
    given = 0
    for number, pair in enumerate(pairs, start=1):
        say("\n".join(_shown(pair, f"{number}/{len(pairs)}")))
        heard = hear()
        while heard is not None and heard not in {*_SAYS, *_SKIPS, "q"}:
            say("please answer y, n, s (skip) or q (quit)")
            heard = hear()
        if heard is None or heard == "q":
            break
        if heard in _SAYS:
            log.add(pair.key, _SAYS[heard])
            given += 1
    return given


def _shown(pair: AlikePair, place: str) -> Iterator[str]:
    yield f"\n{place}  {pair.similarity:.3f}"
    for memory in (pair.older, pair.newer):
        yield f"  {memory.timestamp:%Y-%m-%d}  {memory.content}"
    difference = compare(pair.older.content, pair.newer.content).summary
    yield f"  differs  {difference}" if difference else "  differs in wording alone"


# --- what came of it ------------------------------------------------------------------------------


def lines(suggestion: Suggestion, wanted: float, *, guard: bool) -> Iterator[str]:
    """The thresholds as lines of config.yaml, with what is to be expected of them."""
    what = "covered pairs" if guard else "pairs"
    if suggestion.precision is None:
        yield f"# no band of {what} is known to be duplicates {wanted:.0%} of the time"
    else:
        low, high = suggestion.counted.interval
        yield f"# {what} from {suggestion.upper:.3g} on: {suggestion.precision:.1%} duplicates"
        yield f"# by {suggestion.counted.asked:,} answers, 95 %: {low:.1%} to {high:.1%}"
    yield "memory:"
    yield f"  dedup_upper_threshold: {suggestion.upper:.3g}"
    yield f"  dedup_lower_threshold: {suggestion.lower:.3g}"
