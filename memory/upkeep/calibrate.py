"""Calibration, driven: a judge or a person says what the pairs of a store are to each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import chain

from memory.coverage import covers, differs
from memory.models import LOWER, Memory, Question, Scope, Verdict
from memory.protocols import LanguageModel
from memory.runtime import Progress, side_by_side
from memory.search import nearest_pairs
from memory.store import MemoryStore
from memory.text import identity
from memory.upkeep.calibration import (
    EDGES,
    AlikePair,
    Answer,
    Counted,
    Suggestion,
    Upper,
    most_informative,
)
from memory.upkeep.calibration_log import CalibrationLog

_SAYS = {
    "y": Answer.SAME, "yes": Answer.SAME, "m": Answer.MERGE, "merge": Answer.MERGE,
    "n": Answer.APART, "no": Answer.APART,
}  # fmt: skip
_SKIPS = frozenset({"s", "skip", ""})
_HELP = "please answer y (the same), m (worth merging), n (neither), s (skip) or q (quit)"
_ROUND = 10
"""Pairs asked about before the most informative ones are chosen anew."""


@dataclass(frozen=True)
class StorePairs:
    """The pairs of a store that could be asked about, and how many memories it holds."""

    pairs: tuple[AlikePair, ...]
    memories: int


def pairs_of(store: MemoryStore, nearest: int) -> StorePairs:
    """Each live text with its nearest few of its scope, by cosine, from the lowest band on.

    Of rows with the same text, the oldest stands for all.
    """
    snapshot = store.snapshot()
    scopes: dict[Scope, dict[str, Memory]] = {}
    for row in snapshot.rows:
        if row.text_key in snapshot.vectors:
            texts = scopes.setdefault(store.scope_of(row.memory), {})
            texts.setdefault(row.text_key, row.memory)
    found: list[AlikePair] = []
    for texts in scopes.values():
        matrix = snapshot.vectors.of(list(texts))
        memories = list(texts.values())  # oldest first, so that i is the older
        near = nearest_pairs(matrix, nearest, EDGES[0])
        for i, j, cosine in zip(near.i, near.j, near.similarity, strict=True):
            found.append(AlikePair(memories[i], memories[j], float(cosine)))
    return StorePairs(tuple(found), len(snapshot.rows))


def _in_rounds(
    pairs: Sequence[AlikePair], log: CalibrationLog, questions: int
) -> Iterator[list[AlikePair]]:
    """The most informative pairs, some at a time, each time by the answers until then.

    What was passed over is not offered again.
    """
    offered: set[str] = set()
    left = still_open(pairs, log, questions)
    while left > 0:
        some = most_informative(pairs, log.read(), min(_ROUND, left), offered)
        if not some:
            return
        offered |= {pair.key for pair in some}
        left -= len(some)
        yield some


def still_open(pairs: Sequence[AlikePair], log: CalibrationLog, questions: int) -> int:
    """How many of so many questions are left to ask; the answers of other days count."""
    keys = {pair.key for pair in pairs}
    answered = len(keys & set(log.read()))
    return max(0, min(questions, len(keys)) - answered)


def ask_model(
    pairs: Sequence[AlikePair],
    model: LanguageModel,
    log: CalibrationLog,
    questions: int,
    at_once: int,
    tell: Progress,
) -> None:
    """Ask about the most informative pairs and keep each answer as it comes.

    Raises: ModelError; what was answered before is kept.
    """

    async def one(pair: AlikePair) -> None:
        question = Question((pair.older, pair.newer), "calibration", pair.cosine)
        log.add(pair.key, _answer(pair, await model.judge(question)))

    async def every() -> None:
        done, total = 0, still_open(pairs, log, questions)
        async with aclosing(model):
            for some in _in_rounds(pairs, log, questions):
                await side_by_side(one, some, at_once)
                done += len(some)
                tell(done, total)

    asyncio.run(every())


def _answer(pair: AlikePair, verdict: Verdict) -> Answer:
    """The same where one of the two says all that the judge made of both."""
    if not verdict.parts:
        return Answer.APART
    made = verdict.parts[0].text
    for text in (pair.older.content, pair.newer.content):
        if identity(text) == identity(made) or covers(text, made):
            return Answer.SAME
    return Answer.MERGE


def ask_person(
    pairs: Sequence[AlikePair],
    log: CalibrationLog,
    questions: int,
    say: Callable[[str], None],
    hear: Callable[[], str | None],
) -> int:
    """Show the most informative pairs and keep each answer; gives how many.

    `hear` gives None at the end.
    """
    given, total = 0, still_open(pairs, log, questions)
    offered = chain.from_iterable(_in_rounds(pairs, log, questions))
    for number, pair in enumerate(offered, start=1):
        say("\n".join(_shown(pair, f"{number}/{total}")))
        heard = hear()
        while heard is not None and heard not in {*_SAYS, *_SKIPS, "q"}:
            say(_HELP)
            heard = hear()
        if heard is None or heard == "q":
            break
        if heard in _SAYS:
            log.add(pair.key, _SAYS[heard])
            given += 1
    return given


def _shown(pair: AlikePair, place: str) -> Iterator[str]:
    yield f"\n{place}  {pair.cosine:.3f}"
    for memory in (pair.older, pair.newer):
        yield f"  {memory.timestamp:%Y-%m-%d}  {memory.content}"
    difference = differs(pair.older.content, pair.newer.content)
    yield f"  differs  {difference}" if difference else "  differs in wording alone"


# --- what came of it ------------------------------------------------------------------------------


def lines(suggestion: Suggestion, wanted: float) -> Iterator[str]:
    """The scale and the thresholds as lines of config.yaml, with what they rest on."""
    scale, upper = suggestion.scale, suggestion.upper
    for fit in suggestion.fits:
        if fit.anchor is not None:
            yield f"# from cosine {fit.anchor:.3g} on every second pair is worth asking about:"
            yield f"# {_of(fit.near.worth, fit.near)} within 0.05 of it"
    if scale is None:
        yield "# too few answers, or too much the same, to say from where on pairs are worth asking"
    yield from _expected(upper, wanted)
    if scale is None and upper.threshold is None:
        return
    yield "memory:"
    if upper.threshold is not None:
        yield f"  dedup_upper_threshold: {upper.threshold:.3g}"
    yield f"  dedup_lower_threshold: {LOWER:.3g}"
    if scale is not None:
        yield "  embedding:"
        kana_han = f", anchor_kana_han: {scale.strict_anchor:.3g}"
        yield f"    scale: {{anchor: {scale.anchor:.3g}{kana_han}}}"


def _expected(upper: Upper, wanted: float) -> Iterator[str]:
    if upper.threshold is None:
        yield "# too few answers about what is replaced unasked: the upper threshold stays"
    elif upper.precision is None:
        yield f"# what is replaced unasked is nowhere known to be the same {wanted:.0%} of the time"
    else:
        same = upper.counted.same
        yield f"# replaced unasked from {upper.threshold:.3g} on, {upper.precision:.1%} the same:"
        yield f"# {_of(same, upper.counted)}"


def _of(hits: int, counted: Counted) -> str:
    low, high = counted.interval(hits)
    return f"{hits:,} of {counted.asked:,} answers (95 %: {low:.1%} to {high:.1%})"
