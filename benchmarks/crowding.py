"""Measure what deduplication achieves, through the real store: facts kept, copies left, recall.

    python benchmarks/crowding.py --memories FILE --qa FILE [--json]

`--memories`: JSON Lines in time order with `user`, `content`, `timestamp`, `conversation`,
`evidence` (turn ids). For scoring only, they also have `fact` and `variant` (original, reworded,
changed). `--qa`: JSON Lines with `conversation`, `question`, `evidence`.

These stores are compared: the originals alone; every fact once, in its first and in its last
wording (what a perfect deduplicator could reach); all rows as they are; and all rows through the
deduplicator, one by one in time order and as a batch, with the guard and with plain thresholds. The
judge is the offline model, or a scripted one that calls all texts different. With the latter, only
decisions that need no judge change the store.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from benchmarks.rows import Row, print_table, read_rows
from memory.assembly import build_deduplicator, open_store
from memory.config import Config, MemoryConfig
from memory.interchange import to_memory
from memory.models import PERSON, Action, LanguageModel, Memory, Question, Scope, Usage, Verdict
from memory.providers import OfflineModel
from memory.store import MemoryStore
from memory.text import normalise

TOP = 10
Fact = tuple[str, str]
"""The user that a fact is about, and the fact's name."""


@dataclass(frozen=True)
class Result:
    """The figures of one store.

    `recall_at_10` is the share of a question's evidence that the 10 best memories hold, on average.
    """

    store: str
    live: int
    facts_lost: int
    copies_left: int
    automatic: int
    """The number of replacements that were made without a judge."""
    asked: int
    """The number of decisions that the judge made, offline or scripted."""
    model_calls: int
    recall_at_10: float
    distinct_facts_at_10: float
    characters_at_10: float
    seconds: float


@dataclass(frozen=True)
class Filling:
    """One way to fill a store: which rows, as they are or deduplicated, and with which judge."""

    name: str
    rows: Sequence[Row]
    how: Literal["raw", "write", "batch"] = "raw"
    guard: bool = True
    model: LanguageModel = field(default_factory=OfflineModel)


class KeepsApart(OfflineModel):
    """A judge that calls all texts different; each question counts as one call of a model."""

    name = "keeps apart"

    async def judge(self, question: Question) -> Verdict:  # noqa: ARG002 - whatever is asked
        return Verdict(reason="kept apart", usage=Usage(calls=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--memories", type=Path, required=True)
    parser.add_argument("--qa", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows, questions = read_rows(args.memories), read_rows(args.qa)
    results = [measure(filling, rows, questions) for filling in fillings(rows)]
    if args.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        print_table([asdict(result) for result in results])


def fillings(rows: Sequence[Row]) -> list[Filling]:
    first, last = {_fact(row): row for row in reversed(rows)}, {_fact(row): row for row in rows}
    return [
        Filling("originals alone", [row for row in rows if row["variant"] == "original"]),
        Filling("each fact once, first wording", list(first.values())),
        Filling("each fact once, last wording", list(last.values())),
        Filling("all as they are", rows),
        Filling("one by one, guard", rows, "write"),
        Filling("one by one, plain", rows, "write", guard=False),
        Filling("one by one, guard, judge keeps apart", rows, "write", model=KeepsApart()),
        Filling("one by one, plain, judge keeps apart", rows, "write", False, KeepsApart()),
        Filling("batch, guard", rows, "batch"),
        Filling("batch, plain", rows, "batch", guard=False),
    ]


def measure(filling: Filling, every: Sequence[Row], qa: Sequence[Row]) -> Result:
    """Fill a store, ask it all questions of `qa`, and return its figures.

    `every` are the rows from which facts are known. `seconds` covers the filling only.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = Config(memory=MemoryConfig(data_dir=folder, dedup_guard=filling.guard))
        with open_store(config) as store:
            memories = [to_memory(row, keep_id=False, assume_utc=False) for row in filling.rows]
            started = time.perf_counter()
            calls = asyncio.run(fill(store, config, memories, filling))
            seconds = time.perf_counter() - started
            return judge(filling, store, every, qa, calls, seconds)


async def fill(store: MemoryStore, config: Config, memories: list[Memory], filling: Filling) -> int:
    """Put the memories into the store, as `filling` says; return the number of model calls."""
    deduplicator = build_deduplicator(store, config, filling.model)
    if filling.how == "write":
        outcomes = await deduplicator.check_and_merge_all(memories)
        return sum(outcome.usage.calls for outcome in outcomes)
    store.add_batch(memories)
    if filling.how == "raw":
        return 0
    return (await deduplicator.deduplicate_all()).usage.calls


def judge(
    filling: Filling,
    store: MemoryStore,
    rows: Sequence[Row],
    qa: Sequence[Row],
    calls: int,
    seconds: float,
) -> Result:
    stated = what_is_stated(store, rows)
    count = Counter(fact for facts in stated.values() for fact in facts)
    with store.ledger.reading() as reader:
        decided = reader.decisions.all_but_additions()
    automatic = sum(one.action is Action.REPLACE and one.model is None for one in decided)
    asked = sum(one.model not in (None, PERSON) for one in decided)
    recall, distinct, characters = ask(store, rows, qa, stated)
    return Result(
        store=filling.name,
        live=len(stated),
        facts_lost=len({_fact(row) for row in filling.rows} - set(count)),
        copies_left=sum(count.values()) - len(count),
        automatic=automatic,
        asked=asked,
        model_calls=calls,
        recall_at_10=round(recall, 4),
        distinct_facts_at_10=round(distinct, 2),
        characters_at_10=round(characters),
        seconds=round(seconds, 1),
    )


def _fact(row: Row) -> Fact:
    return row["user"], row["fact"]


def what_is_stated(store: MemoryStore, rows: Sequence[Row]) -> dict[str, set[Fact]]:
    """Return the facts that each live memory states, by the memory's id.

    A memory states a fact if its text is that of the fact's row. If it replaced other memories, it
    also states the facts of those whose text is a part of its own.
    """
    told = {(row["user"], normalise(row["content"])): _fact(row) for row in rows}
    stated: dict[str, set[Fact]] = {}
    for memory in store.memories():
        text, user = normalise(memory.content), memory.user or ""
        with store.ledger.reading() as reader:
            kin = reader.memories.rows(reader.memories.ancestors(memory.id)).values()
        wordings = (normalise(row.memory.content) for row in kin)
        known = {text, *(wording for wording in wordings if wording in text)}
        stated[memory.id] = {told[user, wording] for wording in known if (user, wording) in told}
    return stated


def ask(
    store: MemoryStore, rows: Sequence[Row], qa: Sequence[Row], stated: dict[str, set[Fact]]
) -> tuple[float, float, float]:
    users: dict[str, set[str]] = defaultdict(set)
    known: dict[str, set[str]] = defaultdict(set)
    evidence: dict[Fact, set[str]] = defaultdict(set)
    for row in rows:
        users[row["conversation"]].add(row["user"])
        if row["variant"] == "original":
            known[row["conversation"]] |= set(row["evidence"])
            evidence[row["user"], row["fact"]] |= set(row["evidence"])
    recalls, distincts, lengths = [], [], []
    for question in qa:
        wanted = set(question["evidence"]) & known[question["conversation"]]
        if not wanted:
            continue
        top = _top(store, str(question["question"]), users[question["conversation"]])
        facts = [fact for memory in top for fact in stated[memory.id]]
        found = {turn for fact in facts for turn in evidence[fact]}
        recalls.append(len(wanted & found) / len(wanted))
        distincts.append(len(set(facts)))
        lengths.append(sum(len(memory.content) for memory in top))
    asked = max(1, len(recalls))
    return sum(recalls) / asked, sum(distincts) / asked, sum(lengths) / asked


def _top(store: MemoryStore, question: str, users: Iterable[str]) -> list[Memory]:
    hits = [
        hit for user in users for hit in store.search(question, TOP, scope=Scope((("user", user),)))
    ]
    return [hit.memory for hit in sorted(hits, key=lambda hit: -hit.similarity)[:TOP]]


if __name__ == "__main__":
    main()
