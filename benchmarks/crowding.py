"""What deduplication is for, end to end through the real store: facts kept, copies left, recall.

    python benchmarks/crowding.py --memories FILE --qa FILE [--json]

`--memories`: JSON Lines in time order with `user`, `content`, `timestamp`, `conversation`,
`evidence` (turn ids), and for judging only `fact` and `variant` (original, reworded, changed).
`--qa`: `conversation`, `question`, `evidence`. The stores: the originals alone, all rows as
they are, and all rows through the deduplicator one by one and as a batch, with the guard and with
plain thresholds; the model is the offline one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memory.assembly import build_deduplicator, open_store
from memory.config import Config, MemoryConfig
from memory.jsonl import to_memory
from memory.language import OfflineModel
from memory.models import Memory, Scope, normalise
from memory.store import MemoryStore

TOP = 10
Row = dict[str, Any]


@dataclass(frozen=True)
class Result:
    """One store's figures; recall is the share of a question's evidence among the top 10."""

    store: str
    live: int
    facts_lost: int
    copies_left: int
    automatic: int
    judged: int
    recall_at_10: float
    distinct_facts_at_10: float
    characters_at_10: float
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--memories", type=Path, required=True)
    parser.add_argument("--qa", type=Path, required=True)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows, questions = _read(args.memories), _read(args.qa)
    results = [
        measure(name, subset, rows, questions, guard=guard, how=how)
        for name, subset, guard, how in [
            ("originals alone", [r for r in rows if r["variant"] == "original"], True, "raw"),
            ("all as they are", rows, True, "raw"),
            ("one by one, guard", rows, True, "write"),
            ("one by one, plain", rows, False, "write"),
            ("batch, guard", rows, True, "batch"),
            ("batch, plain", rows, False, "batch"),
        ]
    ]
    if args.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        _print(results)


def measure(
    name: str, rows: Sequence[Row], every: Sequence[Row], qa: Sequence[Row], *, guard: bool,
    how: str,
) -> Result:  # fmt: skip
    """Fill a store and ask it everything; the clock covers the filling only."""
    with tempfile.TemporaryDirectory() as folder:
        config = Config(memory=MemoryConfig(data_dir=folder, dedup_guard=guard))
        with open_store(config) as store:
            memories = [to_memory(row, keep_id=False, assume_utc=False) for row in rows]
            started = time.perf_counter()
            fill(store, config, memories, how)
            seconds = time.perf_counter() - started
            return judge(name, store, every, qa, seconds)


def fill(store: MemoryStore, config: Config, memories: list[Memory], how: str) -> None:
    deduplicator = build_deduplicator(store, config, OfflineModel())
    if how == "write":
        asyncio.run(deduplicator.check_and_merge_all(memories))
        return
    store.add_batch(memories)
    if how == "batch":
        asyncio.run(deduplicator.deduplicate_all())


def judge(
    name: str, store: MemoryStore, rows: Sequence[Row], qa: Sequence[Row], seconds: float
) -> Result:
    told = _facts(rows)
    live = list(store.memories())
    stated = {memory.id: _stated(memory, told) for memory in live}
    count = Counter(fact for facts in stated.values() for fact in facts)
    everything = {(row["user"], row["fact"]) for row in rows if row["variant"] == "original"}
    if name != "originals alone":
        everything = {(row["user"], row["fact"]) for row in rows}
    with store.ledger.reading() as reader:
        automatic, judged = reader.replaced_and_judged()
    recall, distinct, characters = ask(store, rows, qa, stated)
    return Result(
        store=name,
        live=len(live),
        facts_lost=len(everything - set(count)),
        copies_left=sum(count.values()) - len(count),
        automatic=automatic,
        judged=judged,
        recall_at_10=round(recall, 4),
        distinct_facts_at_10=round(distinct, 2),
        characters_at_10=round(characters),
        seconds=round(seconds, 1),
    )


Fact = tuple[str, str]


def _facts(rows: Iterable[Row]) -> dict[str, dict[str, Fact]]:
    """By user, the fact that each normalised text states."""
    told: dict[str, dict[str, Fact]] = defaultdict(dict)
    for row in rows:
        told[row["user"]][normalise(row["content"])] = (row["user"], row["fact"])
    return told


def _stated(memory: Memory, told: dict[str, dict[str, Fact]]) -> set[Fact]:
    """The facts a live memory states: by its text, or, where it was synthesised, by its parts."""
    mine, text = told[memory.user or ""], normalise(memory.content)
    if text in mine:
        return {mine[text]}
    return {fact for wording, fact in mine.items() if wording in text}


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


def _read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _print(results: Sequence[Result]) -> None:
    names = list(asdict(results[0]))
    cells = [[str(value) for value in asdict(result).values()] for result in results]
    print("| " + " | ".join(name.replace("_", " ") for name in names) + " |")
    print("|---" * len(names) + "|")
    for row in cells:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
