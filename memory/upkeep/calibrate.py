"""Calibration: ask a model or a person how pairs of similar memories of a store relate."""

from __future__ import annotations

import asyncio
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from memory.coverage import covers, differs
from memory.errors import InputError
from memory.ledger import DecisionRecord
from memory.models import LOWER, LanguageModel, Memory, Question, Scope
from memory.runtime import Progress, read_bounded, side_by_side
from memory.search import candidate_pairs, similarity
from memory.store import MemoryStore
from memory.text import identity, text_key, text_of
from memory.upkeep.calibration import (
    EDGES,
    AlikePair,
    Answer,
    Counted,
    Suggestion,
    most_informative,
)

_SAYS = {
    "y": Answer.SAME, "yes": Answer.SAME, "m": Answer.MERGE, "merge": Answer.MERGE,
    "n": Answer.APART, "no": Answer.APART,
}  # fmt: skip
_SKIPS = frozenset({"s", "skip", ""})
_HELP = "please answer y (the same), m (worth merging), n (neither), s (skip) or q (quit)"
_ROUND = 10  # pairs to ask about before the answers are used to choose the next ones
_MOST_BYTES = 64_000_000  # the largest file of answers that is read: some 300,000 answers


# --- the answers so far ---------------------------------------------------------------------------


class CalibrationLog:
    """A file of answers about pairs of memories. Each calibration appends to it.

    `by`: a model's name, or "person". `add` writes answers under this name, and `read` returns only
    answers with this name.
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
        try:
            text = read_bounded(self._path, _MOST_BYTES).decode("utf-8", "replace")
        except OSError as exc:
            raise InputError(self._path, f"cannot be read: {exc.strerror}") from exc
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                values = json.loads(line)
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
    """
    with store.ledger.reading() as reader:
        answered = [pair for record in reader.decisions.by_person() for pair in _answered(record)]
        memories = [memory for older, newer, _ in answered for memory in (older, newer)]
        vectors = reader.vectors.of(text_key(memory.content) for memory in memories)
    pairs: dict[str, AlikePair] = {}
    answers: dict[str, Answer] = {}
    for older, newer, answer in answered:
        a, b = (vectors.get(text_key(memory.content)) for memory in (older, newer))
        if a is not None and b is not None:
            pair = AlikePair(older, newer, float(similarity(a, b)))
            pairs[pair.key] = pair
            answers[pair.key] = answer
    return list(pairs.values()), answers


def _answered(record: DecisionRecord) -> Iterator[tuple[Memory, Memory, Answer]]:
    rows: dict[str, dict[str, Any] | None] = json.loads(record.before)["rows"]
    apart = {frozenset(map(text_of, known.pair[1:])) for known in record.verdicts}
    members = [row for name in record.members if (row := rows.get(name)) is not None]
    for a, b in combinations(members, 2):
        keys = frozenset((a["text_key"], b["text_key"]))
        answer = Answer.APART if keys in apart else _joined(record, a["id"], b["id"])
        if answer is not None and len(keys) == 2:
            yield _memory(a), _memory(b), answer


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


# --- asking ---------------------------------------------------------------------------------------


def pairs_of(store: MemoryStore, nearest: int) -> tuple[list[AlikePair], int]:
    """Return pairs of similar live memories, and the number of live memories in the store.

    Each text is paired with the most similar texts of its scope: with up to `nearest` texts, each
    with a cosine of at least 0.40. If several memories of a scope have the same text, only the
    oldest is taken.
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
    return pairs, len(snapshot.rows)


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
            log.add(pair.key, _SAYS[word])


# --- what to write into config.yaml ---------------------------------------------------------------


def lines(suggestion: Suggestion, wanted: float) -> Iterator[str]:
    """Yield the suggested scale and thresholds as lines of config.yaml, with comments.

    `wanted`: the share (0 to 1) that `suggest` was called with. It is only shown in a comment.
    """
    scale, upper = suggestion.scale, suggestion.upper
    for fit in suggestion.fits:
        if fit.anchor is not None:
            yield f"# at cosine {fit.anchor:.3g}, half of the pairs are the same or worth merging:"
            yield f"# {_of(fit.near.worth, fit.near)} within 0.05 of it"
    if scale is None:
        yield "# too few or too similar answers to say at which cosine half of the pairs match"
    if upper.threshold is None:
        yield "# too few answers about replacements without a model: the upper threshold stays"
    elif upper.precision is None:
        yield f"# no threshold is known at which {wanted:.0%} of replacements are right"
    else:
        yield f"# from {upper.threshold:.3g} on, {upper.precision:.1%} of replacements are right:"
        yield f"# {_of(upper.counted.same, upper.counted)}"
    if scale is None and upper.threshold is None:
        return
    yield "memory:"
    if upper.threshold is not None:
        yield f"  dedup_upper_threshold: {upper.threshold:.3g}"
    yield f"  dedup_lower_threshold: {LOWER:.3g}"
    if scale is not None:
        yield "  embedding:"
        yield f"    scale: {{anchor: {scale.anchor:.3g}, anchor_kana_han: {scale.cjk_anchor:.3g}}}"


def _of(hits: int, counted: Counted) -> str:
    low, high = counted.interval(hits)
    return f"{hits:,} of {counted.asked:,} answers (95 %: {low:.1%} to {high:.1%})"
