"""Calibration: ask a model or a person how pairs of similar memories of a store relate.

The pairs are sorted into bands, which are ranges of cosine. The answers suggest a scale of
similarity, and an upper threshold.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain, combinations, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memory.coverage import compare_memories, covers, differs
from memory.decide import candidate_pairs
from memory.errors import InputError
from memory.ledger import DecisionRecord
from memory.models import (
    COMPARED,
    LOWER,
    NEAR_COPY,
    LanguageModel,
    Memory,
    Progress,
    Question,
    Scale,
    Scope,
    cosine_of,
)
from memory.runtime import read_objects, side_by_side
from memory.store import MemoryStore
from memory.text import has_cjk, identity, text_key, text_of

EDGES = (
    0.40, 0.50, 0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 0.97, 0.98, 0.99, 1.0,
)  # fmt: skip
"""The bounds of the bands. A band includes its lower bound; the highest also includes 1.0."""
_FEW = 12  # the fewest answers from which an anchor or a threshold is computed
_FIRST = 3  # pairs of each band that are asked about before any others
_SAYS = {
    "y": "same", "yes": "same", "m": "merge", "merge": "merge", "n": "apart", "no": "apart",
}  # fmt: skip
_SKIPS = frozenset({"s", "skip", ""})
_HELP = "please answer y (the same), m (worth merging), n (neither), s (skip) or q (quit)"
_ROUND = 10  # pairs to ask about before the answers are used to choose the next ones


class Answer(StrEnum):
    """The relation of two memories.

    SAME: one can replace the other. MERGE: they overlap and are worth merging into one text. APART:
    they state different things, and both must stay.

    >>> pair = AlikePair(store.new_memory("Mia has a cat."), store.new_memory("Mia has cats."), 0.9)
    >>> answers_about([pair], {pair.key: Answer.APART})[Answer.APART]
    1
    """

    SAME = "same"
    MERGE = "merge"
    APART = "apart"


@dataclass(frozen=True)
class AlikePair:
    """Two similar memories of one scope with different texts, and the cosine of their vectors.

    `key` identifies the two texts, in either order.

    >>> cat, cats = store.new_memory("Mia has a cat."), store.new_memory("Mia has cats.")
    >>> AlikePair(cat, cats, cosine=0.9).key == AlikePair(cats, cat, cosine=0.9).key
    True
    """

    older: Memory
    newer: Memory
    cosine: float

    @cached_property
    def key(self) -> str:
        return " ".join(sorted((text_key(self.older.content), text_key(self.newer.content))))

    @cached_property
    def covered(self) -> bool:
        """Whether one of the two texts states everything that the other text states."""
        coverage = compare_memories(self.older, self.newer)
        return coverage.a_covers_b or coverage.b_covers_a

    @cached_property
    def has_cjk(self) -> bool:
        return has_cjk(self.older.content) or has_cjk(self.newer.content)


# --- the answers so far ---------------------------------------------------------------------------


class CalibrationLog:
    """A file of answers about pairs of memories. Each calibration appends to it.

    `by`: a model's name, or "person". `add` writes answers under this name, and `read` returns only
    answers with this name.

    >>> log = CalibrationLog(Path("answers.jsonl"), by="person")
    >>> log.add("pair-1", Answer.SAME)
    >>> log.add("pair-1", Answer.APART)  # the later answer counts
    >>> log.read(), CalibrationLog(Path("answers.jsonl"), by="gemini").read()
    ({'pair-1': <Answer.APART: 'apart'>}, {})
    """

    def __init__(self, path: Path, by: str) -> None:
        self._path = path
        self._by = by

    def read(self) -> dict[str, Answer]:
        """Return a dict from `AlikePair.key` to the latest answer; {} if there is no file.

        Raises: InputError if the file cannot be read, or a line of it is not an answer.
        """
        if not self._path.exists():
            return {}
        answers: dict[str, Answer] = {}
        for number, values in read_objects(self._path):
            try:
                if isinstance(values, ValueError):
                    raise values
                by, key, answer = values["by"], values["pair"], Answer(values["answer"])
            except (ValueError, TypeError, KeyError) as exc:
                raise InputError(
                    self._path, "this line is not an answer", "fix or remove this line", number
                ) from exc
            if by == self._by:
                answers[key] = answer
        return answers

    def add(self, key: str, answer: Answer) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(json.dumps({"pair": key, "answer": answer, "by": self._by}) + "\n")


def reviewed(store: MemoryStore) -> tuple[list[AlikePair], dict[str, Answer]]:
    """Return the pairs that people decided on in reviews, and the latest answer about each pair.

    The answers are a dict from `AlikePair.key` to the answer. The answer is SAME if one memory of
    the pair, or a third existing memory, was kept for both. It is MERGE if a new memory replaced
    both, and APART if the person called the two distinct. Undone decisions, forgotten texts and
    pairs of equal texts are left out.

    >>> pairs, answers = reviewed(store)  # nobody has reviewed this store yet
    >>> len(pairs), answers
    (0, {})
    """
    with store.ledger.reading() as reader:
        records = reader.decisions.by_person()
        rows = reader.memories.rows([name for record in records for name in record.members])
        now = {name: row.memory for name, row in rows.items() if not row.forgotten}
        answered = [pair for record in records for pair in _answered(record, now)]
        memories = [memory for older, newer, _ in answered for memory in (older, newer)]
        vectors = reader.vectors.of(text_key(memory.content) for memory in memories)
    pairs: dict[str, AlikePair] = {}
    answers: dict[str, Answer] = {}
    for older, newer, answer in answered:
        a, b = (vectors.get(text_key(memory.content)) for memory in (older, newer))
        if a is not None and b is not None:
            pair = AlikePair(older, newer, float(cosine_of(a, b)))
            pairs[pair.key] = pair
            answers[pair.key] = answer
    return list(pairs.values()), answers


def _answered(
    record: DecisionRecord, now: Mapping[str, Memory]
) -> Iterator[tuple[Memory, Memory, Answer]]:
    rows: dict[str, dict[str, Any] | None] = json.loads(record.before)["rows"]
    before = {name: row and _memory(row) for name, row in rows.items()}
    apart = {frozenset(map(text_of, known.pair[1:])) for known in record.verdicts}
    found = (before.get(name, now.get(name)) for name in record.members)
    for a, b in combinations([member for member in found if member], 2):
        keys = frozenset((text_key(a.content), text_key(b.content)))
        answer = Answer.APART if keys in apart else _joined(record, a.id, b.id)
        if answer is not None and len(keys) == 2:
            yield a, b, answer


def _joined(record: DecisionRecord, a: str, b: str) -> Answer | None:
    """Return how a decision joined the memories with the ids `a` and `b`.

    SAME: one of the two, or a third existing memory, was kept for both. MERGE: a new memory
    replaced both. None: the decision did not join the two.
    """
    joined = (
        Answer.SAME if survivor in record.members else Answer.MERGE
        for survivor, retired in record.survivors
        if {a, b} <= {survivor, *retired}
    )
    return next(joined, None)


def _memory(row: Mapping[str, Any]) -> Memory:
    return Memory.model_validate_json(
        json.dumps({name: row[name] for name in ("id", "content", "user", "timestamp")})
    )


# --- which pairs to ask about ---------------------------------------------------------------------


def most_informative(
    pairs: Sequence[AlikePair],
    answers: Mapping[str, Answer],
    most: int,
    passed_over: Collection[str] = frozenset(),
) -> list[AlikePair]:
    """Choose up to `most` pairs to ask about next; return them, the most similar first.

    `answers`: the answers so far, by `AlikePair.key`. Pairs with an answer and pairs whose keys are
    in `passed_over` are not chosen.

    A few pairs of every band are chosen first. Then come the pairs with cosines nearest to the
    anchor from `fit_anchor`, where APART is about as likely as SAME or MERGE. Pairs without and
    with kana or Han are chosen alternately. The same arguments always give the same result.
    """
    ranked = [
        _ranked([pair for pair in pairs if pair.has_cjk is cjk], answers, passed_over)
        for cjk in (False, True)
    ]
    taken = [pair for both in zip_longest(*ranked) for pair in both if pair is not None]
    return sorted(taken[:most], key=lambda pair: (-pair.cosine, pair.key))


def _ranked(
    pairs: Sequence[AlikePair], answers: Mapping[str, Answer], passed_over: Collection[str]
) -> list[AlikePair]:
    asked = [pair for pair in pairs if pair.key in answers]
    left = [pair for pair in pairs if pair.key not in answers and pair.key not in passed_over]
    left.sort(key=lambda pair: hashlib.sha256(pair.key.encode()).digest())  # any fixed order
    first: list[AlikePair] = []
    for band, answered in zip(by_band(left), by_band(asked), strict=True):
        band.sort(key=lambda pair: pair.cosine >= NEAR_COPY and not pair.covered)
        first += band[: max(0, _FIRST - len(answered))]
    anchor = fit_anchor(asked, answers) or LOWER
    drawn = {pair.key for pair in first}
    rest = [pair for pair in left if pair.key not in drawn]
    return first + sorted(rest, key=lambda pair: abs(pair.cosine - anchor))


def by_band(pairs: Iterable[AlikePair]) -> list[list[AlikePair]]:
    """Return the pairs of each band, the lowest band first, without pairs below that band.

    >>> pair = AlikePair(store.new_memory("Mia has a cat."), store.new_memory("Mia has cats."), 0.9)
    >>> bands = by_band([pair])
    >>> len(bands), sum(map(len, bands))
    (14, 1)
    """
    bands: list[list[AlikePair]] = [[] for _ in EDGES[1:]]
    for pair in pairs:
        if pair.cosine >= EDGES[0]:
            bands[min(bisect_right(EDGES, pair.cosine), len(bands)) - 1].append(pair)
    return bands


def answers_about(pairs: Iterable[AlikePair], answers: Mapping[str, Answer]) -> Counter[Answer]:
    """Return how often each answer was given about these pairs.

    >>> pair = AlikePair(store.new_memory("Mia has a cat."), store.new_memory("Mia has cats."), 0.9)
    >>> answers_about([pair], {pair.key: Answer.MERGE}), answers_about([pair], {})
    (Counter({<Answer.MERGE: 'merge'>: 1}), Counter())
    """
    return Counter(answers[pair.key] for pair in pairs if pair.key in answers)


# --- asking ---------------------------------------------------------------------------------------


def pairs_of(store: MemoryStore, nearest: int = COMPARED) -> list[AlikePair]:
    """Return pairs of similar live memories.

    Each text is paired with the most similar texts of its scope: with up to `nearest` texts, each
    with a cosine of at least 0.40. If several memories of a scope have the same text, only the
    oldest is taken.

    >>> outcomes = [memories.remember(f"Mia has {n} cats.", user="Mia") for n in (2, 3)]
    >>> [pair] = pairs_of(store)
    >>> pair.older.content, pair.newer.content, pair.cosine > 0.4
    ('Mia has 2 cats.', 'Mia has 3 cats.', True)
    """
    snapshot = store.snapshot()
    scopes: dict[Scope, dict[str, Memory]] = {}
    for row in snapshot.rows:
        if row.text_key in snapshot.vectors:
            texts = scopes.setdefault(store.scope_of(row.memory), {})
            texts.setdefault(row.text_key, row.memory)
    pairs: list[AlikePair] = []
    for texts in scopes.values():
        memories = list(texts.values())  # oldest first, so that i is the older
        matrix = snapshot.vectors.of(list(texts))
        near = candidate_pairs(matrix, math.inf, nearest, EDGES[0]).nearest
        pairs += [
            AlikePair(memories[i], memories[j], float(cosine))
            for i, j, cosine in zip(near.i, near.j, near.similarity, strict=True)
        ]
    return pairs


def _in_rounds(
    pairs: Sequence[AlikePair], log: CalibrationLog, left: int
) -> Iterator[list[AlikePair]]:
    """Yield batches of pairs that have no answer, at most `left` pairs in all.

    Log the answers to a batch before you take the next batch: all answers so far decide which pairs
    are in the next batch.
    """
    offered: set[str] = set()
    while batch := most_informative(pairs, log.read(), min(_ROUND, left), offered):
        offered |= {pair.key for pair in batch}
        left -= len(batch)
        yield batch


def still_open(pairs: Sequence[AlikePair], log: CalibrationLog, questions: int) -> int:
    """Return how many more answers are needed until `questions` of the pairs have an answer.

    If there are fewer than `questions` pairs, return the number of pairs without an answer.
    """
    keys = {pair.key for pair in pairs}
    return max(0, min(questions, len(keys)) - len(keys & log.read().keys()))


def ask_model(
    pairs: Sequence[AlikePair],
    model: LanguageModel,
    log: CalibrationLog,
    questions: int,
    at_once: int,
    tell: Progress,
) -> None:
    """Ask a model about the most informative pairs, log each answer, and close the model.

    `questions`: stop when the log has answers about this number of `pairs`. `at_once`: at most this
    many questions are asked at the same time. `tell` is called with the number of questions asked
    and the number of all questions to ask. Do not call this function in an event loop.

    Raises: ModelError; answers that arrived before the error stay in the log.
    """

    async def ask(pair: AlikePair) -> None:
        question = Question((pair.older, pair.newer), "calibration", pair.cosine)
        merged = [part.text for part in (await model.judge(question)).parts[:1]]
        log.add(pair.key, _answer(pair, merged[0]) if merged else Answer.APART)

    async def ask_all() -> None:
        done, total = 0, still_open(pairs, log, questions)
        async with aclosing(model):
            for batch in _in_rounds(pairs, log, total):
                await side_by_side(ask, batch, at_once)
                done += len(batch)
                tell(done, total)

    asyncio.run(ask_all())


def _answer(pair: AlikePair, merged: str) -> Answer:
    texts = (pair.older.content, pair.newer.content)
    same = any(identity(text) == identity(merged) or covers(text, merged) for text in texts)
    return Answer.SAME if same else Answer.MERGE


def ask_person(
    pairs: Sequence[AlikePair],
    log: CalibrationLog,
    questions: int,
    say: Callable[[str], None],
    hear: Callable[[], str],
) -> None:
    """Show the most informative pairs to a person, and log the answers.

    `questions`: stop after this many pairs. Pairs with an answer in the log count too, but are not
    shown. `say` shows a text. `hear` returns the person's next line, or "" at the end of the
    input.
    """
    total = still_open(pairs, log, questions)
    offered = chain.from_iterable(_in_rounds(pairs, log, total))
    for number, pair in enumerate(offered, start=1):
        texts = [
            f"  {memory.timestamp:%Y-%m-%d}  {memory.content}"
            for memory in (pair.older, pair.newer)
        ]
        difference = differs(pair.older.content, pair.newer.content)
        shown = f"  differs  {difference}" if difference else "  differs in wording alone"
        say("\n".join([f"\n{number}/{total}  {pair.cosine:.3f}", *texts, shown]))
        while (line := hear()) and (word := line.strip().lower()) not in {*_SAYS, *_SKIPS, "q"}:
            say(_HELP)
        if not line or word == "q":
            return
        if word in _SAYS:
            log.add(pair.key, Answer(_SAYS[word]))


# --- suggestions ----------------------------------------------------------------------------------


class Upper(NamedTuple):
    """A suggested upper threshold.

    `threshold` is the lowest similarity at which a memory may replace another without asking a
    model. It is 1 if no threshold was found at which enough replacements are right. `precision` is
    the estimated share of right replacements; None if `threshold` is 1.
    """

    threshold: float
    precision: float | None


def fit_anchor(pairs: Sequence[AlikePair], answers: Mapping[str, Answer]) -> float | None:
    """Fit the cosine (the anchor) at which half of the answers are SAME or MERGE.

    `answers`: the answers by `AlikePair.key`. The anchor lies within the cosines of the pairs that
    have an answer, and below 0.95. It is None if there are fewer than 12 answers, if none or all of
    them are APART, or if the share of SAME and MERGE does not rise with the cosine.
    """
    asked = [pair for pair in pairs if pair.key in answers]
    cosines = np.array([pair.cosine for pair in asked])
    worth = np.array([answers[pair.key] is not Answer.APART for pair in asked], dtype=np.float64)
    if len(asked) < _FEW or worth.min() == worth.max():
        return None
    crossing = _logistic_half(cosines, worth)
    if crossing is None:
        return None
    bounds = (float(cosines.min()), min(float(cosines.max()), NEAR_COPY - 0.01))
    return round(float(np.clip(crossing, *bounds)), 3)


def _logistic_half(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float | None:
    """Return the x at which a fitted logistic curve is 0.5; None if the curve does not rise.

    `x` and `y` have shape (n,), and each y is 0 or 1. The curve is fitted by Newton's method. A
    small penalty keeps the slope finite if some x separates all zeros from all ones.
    """
    middle, spread = float(x.mean()), float(x.std()) or 1.0
    design = np.stack([np.ones_like(x), (x - middle) / spread], axis=1)
    penalty = np.diag([0.0, 0.05])
    weights = np.zeros(2)
    for _ in range(50):
        expected = 1.0 / (1.0 + np.exp(-np.clip(design @ weights, -30.0, 30.0)))
        gradient = design.T @ (y - expected) - penalty @ weights
        curvature = (design.T * (expected * (1.0 - expected))) @ design + penalty
        step = np.linalg.solve(curvature + 1e-9 * np.eye(2), gradient)
        weights = weights + np.clip(step, -2.0, 2.0)
    return None if weights[1] <= 0.0 else float(middle - spread * weights[0] / weights[1])


def suggest_scale(
    pairs: Sequence[AlikePair], answers: Mapping[str, Answer], now: Scale
) -> Scale | None:
    """Return a copy of the scale `now` with fitted anchors; None if no anchor can be fitted.

    `answers`: the answers by `AlikePair.key`. An anchor that cannot be fitted keeps its value in
    `now`. The anchor for kana and Han is at least as high as the other anchor.

    >>> print(suggest_scale([], {}, store.scale))  # too few answers
    None
    """
    others, cjk = (
        fit_anchor([pair for pair in pairs if pair.has_cjk is wanted], answers)
        for wanted in (False, True)
    )
    if others is None and cjk is None:
        return None
    anchor = others or now.anchor
    return Scale(anchor=anchor, anchor_kana_han=max(anchor, cjk or now.cjk_anchor))


def suggest_upper(
    pairs: Sequence[AlikePair], answers: Mapping[str, Answer], wanted: float, *, guard: bool
) -> Upper | None:
    """Return the lowest upper threshold (0.95 or higher) at which enough replacements are right.

    If a pair of memories reaches the threshold, one memory replaces the other. If `guard` is true,
    this is done only in covered pairs, so that other pairs do not count. A replacement is right if
    the answer about the pair is SAME. At least the share `wanted` (0 to 1) of the replacements must
    be right. The share is estimated from the answers in each band, weighted by the band's number of
    pairs. The search goes from the highest band down. It ends where the share is too small, or
    where a band has pairs but no answers. None: there are too few answers.

    >>> print(suggest_upper([], {}, 0.95, guard=True))  # too few answers
    None
    """
    best = Upper(1.0, None)
    count, right, asked = 0, 0.0, 0
    for low, band in reversed(list(zip(EDGES, by_band(pairs), strict=False))):
        members = [pair for pair in band if pair.covered] if guard and low >= NEAR_COPY else band
        if low < NEAR_COPY or not members:
            continue
        said = answers_about(members, answers)
        if not said:
            break
        count, asked = count + len(members), asked + said.total()
        right += len(members) * said[Answer.SAME] / said.total()
        if right / count < wanted:
            break
        best = Upper(low, right / count)
    return best if asked >= _FEW else None


def lines(scale: Scale | None, upper: Upper | None, wanted: float) -> Iterator[str]:
    """Yield the suggested scale and thresholds as lines of config.yaml, with comments.

    `wanted`: the share (0 to 1) that `suggest_upper` was called with.

    >>> for line in lines(None, None, wanted=0.95):
    ...     print(line[:50])
    # too few or too similar answers to say at which c
    # too few answers about replacements without a mod
    """
    if scale is None:
        yield "# too few or too similar answers to say at which cosine half of the pairs match"
    else:
        yield "# at these cosines, half of the pairs are the same or worth merging:"
    if upper is None:
        yield "# too few answers about replacements without a model: the upper threshold stays"
    elif upper.precision is None:
        yield f"# no threshold is known at which {wanted:.0%} of replacements are right"
    else:
        yield f"# from {upper.threshold:.3g} on, {upper.precision:.1%} of replacements are right:"
    if scale is None and upper is None:
        return
    yield "memory:"
    if upper is not None:
        yield f"  dedup_upper_threshold: {upper.threshold:.3g}"
    yield f"  dedup_lower_threshold: {LOWER:.3g}"
    if scale is not None:
        yield "  embedding:"
        yield f"    scale: {{anchor: {scale.anchor:.3g}, anchor_kana_han: {scale.cjk_anchor:.3g}}}"
