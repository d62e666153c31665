"""Calibration: ask a model or a person how pairs of similar memories of a store relate.

The answers show which similarity scale and which thresholds fit the store and its embedder. The
computations are in `calibration.py`.
"""

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
from memory.models import LOWER, Memory, Question, Scope, Verdict
from memory.protocols import LanguageModel
from memory.runtime import Progress, read_bounded, side_by_side
from memory.search import candidate_pairs, similarity
from memory.store import MemoryStore
from memory.text import identity, text_key
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
"""The words that a person may type, and the answer that each word means."""
_SKIPS = frozenset({"s", "skip", ""})
_HELP = "please answer y (the same), m (worth merging), n (neither), s (skip) or q (quit)"
_ROUND = 10  # pairs to ask about before the answers are used to choose the next ones
_MOST_BYTES = 64_000_000  # of a file of answers: some 300,000


# --- the answers so far ---------------------------------------------------------------------------


class CalibrationLog:
    """A file of answers about pairs of memories, so that the questions can continue another day.

    `by`: the name of one model or person. Only the answers of `by` are read and added; the file may
    also have answers of others. Each line is a JSON object: the pair's key, the answer, and the
    name of the model or person who gave the answer.
    """

    def __init__(self, path: Path, by: str) -> None:
        self._path = path
        self._by = by

    def read(self) -> dict[str, Answer]:
        """Return the latest answer of the model or person `by` about each pair, by the pair's key.

        The result is empty if there is no file yet.

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
                remedy = "fix or remove this line"
                raise InputError(self._path, "this line is not an answer", remedy, number) from exc
            if by == self._by:
                answers[key] = answer
        return answers

    def add(self, key: str, answer: Answer) -> None:
        """Append an answer about the pair with this key to the file; create the file if needed."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(json.dumps({"pair": key, "answer": answer, "by": self._by}) + "\n")


def reviewed(store: MemoryStore) -> tuple[list[AlikePair], dict[str, Answer]]:
    """Return the pairs of memories that people decided on in reviews, and an answer for each pair.

    The second value maps a pair's key to the latest answer about the pair. The answer is SAME if
    one text replaced the other, MERGE if a new text replaced both, and APART if the person called
    the two distinct. Undone decisions, forgotten texts and pairs of equal texts are left out.
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
    """Yield the pairs of members that a recorded decision merged or called distinct.

    Each item has the two memories of a pair, and the answer about them that the decision implies.
    Pairs of equal texts are left out.
    """
    rows: dict[str, dict[str, Any] | None] = json.loads(record.before)["rows"]
    apart = {frozenset(known.pair[1:]) for known in record.verdicts}
    members = [row for name in record.members if (row := rows.get(name)) is not None]
    for a, b in combinations(members, 2):
        keys = frozenset((a["text_key"], b["text_key"]))
        answer = Answer.APART if keys in apart else _joined(record, a["id"], b["id"])
        if answer is not None and len(keys) == 2:
            yield _memory(a), _memory(b), answer


def _joined(record: DecisionRecord, a: str, b: str) -> Answer | None:
    """Return the answer that a decision implies about the memories with the ids `a` and `b`.

    SAME: the decision merged them into a memory that existed before. MERGE: it replaced both by a
    new memory. None: it did not merge the two.
    """
    for survivor, retired in record.survivors:
        if {a, b} <= {survivor, *retired}:
            return Answer.SAME if survivor in record.members else Answer.MERGE
    return None


def _memory(row: Mapping[str, Any]) -> Memory:
    """Return a memory as it was before a decision, with only the fields that calibration needs.

    `row`: all fields of the memory, as the record of the decision has them.
    """
    fields = {name: row[name] for name in ("id", "content", "user", "timestamp")}
    return Memory.model_validate_json(json.dumps(fields))


# --- asking ---------------------------------------------------------------------------------------


def pairs_of(store: MemoryStore, nearest: int) -> tuple[list[AlikePair], int]:
    """Return pairs of similar live memories, and the number of live memories in the store.

    Each text is paired with its `nearest` nearest texts of the same scope, but not with texts below
    the cosine 0.40. If several memories have the same text, the oldest of them is taken.
    """
    snapshot = store.snapshot()
    scopes: dict[Scope, dict[str, Memory]] = {}
    for row in snapshot.rows:
        if row.text_key in snapshot.vectors:
            texts = scopes.setdefault(store.scope_of(row.memory), {})
            texts.setdefault(row.text_key, row.memory)
    pairs: list[AlikePair] = []
    for texts in scopes.values():
        matrix = snapshot.vectors.of(list(texts))
        memories = list(texts.values())  # oldest first, so that i is the older
        near = candidate_pairs(matrix, math.inf, nearest, EDGES[0]).nearest
        for i, j, cosine in zip(near.i, near.j, near.similarity, strict=True):
            pairs.append(AlikePair(memories[i], memories[j], float(cosine)))
    return pairs, len(snapshot.rows)


def _in_rounds(
    pairs: Sequence[AlikePair], log: CalibrationLog, questions: int
) -> Iterator[list[AlikePair]]:
    """Yield batches of pairs to ask about, the most informative pairs in the first batch.

    The batches end when `questions` pairs have been asked about; pairs that had an answer in the
    log at the beginning count too. A batch is chosen only when the caller asks for it, so that the
    answers to earlier batches are known. No pair is yielded twice, even if it gets no answer.
    """
    offered: set[str] = set()
    left = still_open(pairs, log, questions)
    while left > 0:
        batch = most_informative(pairs, log.read(), min(_ROUND, left), offered)
        if not batch:
            return
        offered |= {pair.key for pair in batch}
        left -= len(batch)
        yield batch


def still_open(pairs: Sequence[AlikePair], log: CalibrationLog, questions: int) -> int:
    """Return how many more of `pairs` to ask about, so that `questions` of them have an answer.

    Answers that are in the log count. If there are fewer than `questions` pairs, the result is the
    number of pairs without an answer.
    """
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
    """Ask a model about the most informative pairs, and log each answer as it arrives.

    `questions`: stop when the log has answers about this number of `pairs`, counting the answers
    that it has already. `at_once`: the number of calls that run concurrently. `tell`: called with
    the number of pairs asked about in this call so far, and the number to ask about in this call.

    The model is closed at the end. This function starts an event loop, so it must not be called
    within a running one.

    Raises: ModelError; answers that arrived before the error stay in the log.
    """

    async def ask(pair: AlikePair) -> None:
        question = Question((pair.older, pair.newer), "calibration", pair.cosine)
        log.add(pair.key, _answer(pair, await model.judge(question)))

    async def ask_all() -> None:
        done, total = 0, still_open(pairs, log, questions)
        async with aclosing(model):
            for batch in _in_rounds(pairs, log, questions):
                await side_by_side(ask, batch, at_once)
                done += len(batch)
                tell(done, total)

    asyncio.run(ask_all())


def _answer(pair: AlikePair, verdict: Verdict) -> Answer:
    """Return the answer about a pair that a model's verdict implies.

    The answer is APART if the verdict merges nothing. It is SAME if one of the two memories states
    everything in the merged text, and MERGE otherwise.
    """
    if not verdict.parts:
        return Answer.APART
    merged = verdict.parts[0].text
    for text in (pair.older.content, pair.newer.content):
        if identity(text) == identity(merged) or covers(text, merged):
            return Answer.SAME
    return Answer.MERGE


def ask_person(
    pairs: Sequence[AlikePair],
    log: CalibrationLog,
    questions: int,
    say: Callable[[str], None],
    hear: Callable[[], str | None],
) -> int:
    """Show pairs to a person and log the answers; return the number of answers given in this call.

    The most informative pairs come first. `questions`: stop when this number of `pairs` has been
    shown or has an answer in the log. The person may skip a pair, or stop earlier. `say`: called
    with each text to show. `hear`: called to get the person's next line of input, in lower case; it
    returns None at the end of the input.
    """
    given, total = 0, still_open(pairs, log, questions)
    offered = chain.from_iterable(_in_rounds(pairs, log, questions))
    for number, pair in enumerate(offered, start=1):
        texts = [
            f"  {memory.timestamp:%Y-%m-%d}  {memory.content}"
            for memory in (pair.older, pair.newer)
        ]
        difference = differs(pair.older.content, pair.newer.content)
        shown = f"  differs  {difference}" if difference else "  differs in wording alone"
        say("\n".join([f"\n{number}/{total}  {pair.cosine:.3f}", *texts, shown]))
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


# --- what to write into config.yaml ---------------------------------------------------------------


def lines(suggestion: Suggestion, wanted: float) -> Iterator[str]:
    """Yield the suggested scale and thresholds as lines of config.yaml, with comments.

    The comments state the evidence. From the upper threshold on, a memory replaces another memory
    without a question to a model. `wanted` is the share of such replacements, from 0 to 1, that
    should be right.
    """
    scale, upper = suggestion.scale, suggestion.upper
    for fit in suggestion.fits:
        if fit.anchor is not None:
            yield f"# from cosine {fit.anchor:.3g} on every second pair is worth asking about:"
            yield f"# {_of(fit.near.worth, fit.near)} within 0.05 of it"
    if scale is None:
        yield "# too few answers, or too much the same, to say from where on pairs are worth asking"
    if upper.threshold is None:
        yield "# too few answers about what is replaced unasked: the upper threshold stays"
    elif upper.precision is None:
        yield f"# what is replaced unasked is nowhere known to be the same {wanted:.0%} of the time"
    else:
        yield f"# replaced unasked from {upper.threshold:.3g} on, {upper.precision:.1%} the same:"
        yield f"# {_of(upper.counted.same, upper.counted)}"
    if scale is None and upper.threshold is None:
        return
    yield "memory:"
    if upper.threshold is not None:
        yield f"  dedup_upper_threshold: {upper.threshold:.3g}"
    yield f"  dedup_lower_threshold: {LOWER:.3g}"
    if scale is not None:
        yield "  embedding:"
        kana_han = f", anchor_kana_han: {scale.cjk_anchor:.3g}"
        yield f"    scale: {{anchor: {scale.anchor:.3g}{kana_han}}}"


def _of(hits: int, counted: Counted) -> str:
    """Return a phrase such as "9 of 12 answers (95 %: 46.8% to 91.1%)".

    9 is `hits`, and 12 is the number of all answers in `counted`. The percentages are the 95 %
    confidence interval of 9 / 12.
    """
    low, high = counted.interval(hits)
    return f"{hits:,} of {counted.asked:,} answers (95 %: {low:.1%} to {high:.1%})"
