"""What people said in reviews, as answers about pairs: what they joined, what they kept apart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from memory.ledger import DecisionRecord
from memory.models import Memory
from memory.search import similarity
from memory.store import MemoryStore
from memory.upkeep.calibration import AlikePair, Answer


@dataclass(frozen=True)
class Reviewed:
    """Pairs that a person has said something about, and what."""

    pairs: tuple[AlikePair, ...]
    answers: Mapping[str, Answer]
    """By the pairs' keys; the last answer counts."""


def reviewed(store: MemoryStore) -> Reviewed:
    """Every two texts of a group that a person answered and has not taken back.

    The same where one of the texts stands for the other, worth merging where a text was written for
    both. Texts that were forgotten since, or are the same, say nothing.
    """
    with store.ledger.reading() as reader:
        said = [one for record in reader.decisions.by_person() for one in _said(record)]
        keys = {key for one in said for key in (one.low, one.high)}
        vectors = reader.vectors.of(sorted(keys))
    pairs: dict[str, AlikePair] = {}
    answers: dict[str, Answer] = {}
    for one in said:
        if one.low in vectors and one.high in vectors:
            cosine = float(similarity(vectors[one.low], vectors[one.high]))
            pair = AlikePair(one.older, one.newer, cosine)
            pairs[pair.key] = pair
            answers[pair.key] = one.answer
    return Reviewed(tuple(pairs.values()), answers)


@dataclass(frozen=True)
class _Said:
    older: Memory
    newer: Memory
    low: str
    high: str
    answer: Answer


def _said(record: DecisionRecord) -> Iterator[_Said]:
    """Of each two members with different texts, what the decision says of them."""
    rows: dict[str, dict[str, Any] | None] = json.loads(record.before)["rows"]
    apart = {frozenset(known.pair[1:]) for known in record.verdicts}
    known = [row for name in record.members if (row := rows.get(name)) is not None]
    for a, b in combinations(known, 2):
        keys = frozenset((a["text_key"], b["text_key"]))
        answer = Answer.APART if keys in apart else _joined(record, a["id"], b["id"])
        if answer is not None and len(keys) == 2:
            low, high = sorted(keys)
            yield _Said(_memory(a), _memory(b), low, high, answer)


def _joined(record: DecisionRecord, one: str, other: str) -> Answer | None:
    for survivor, retired in record.survivors:
        if {one, other} <= {survivor, *retired}:
            return Answer.SAME if survivor in record.members else Answer.MERGE
    return None


def _memory(row: Mapping[str, Any]) -> Memory:
    fields = {name: row[name] for name in ("id", "content", "user", "timestamp")}
    return Memory.model_validate_json(json.dumps(fields))
