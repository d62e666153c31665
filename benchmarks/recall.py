"""Compare recall by words and vectors together with recall by the cosine alone: finds and time.

    python -m benchmarks.recall --memories locomo_memories.jsonl --questions locomo_qa.jsonl
    python -m benchmarks.recall --japanese benchmarks/japanese.jsonl
    python -m benchmarks.recall --first-person benchmarks/first_person.jsonl [--half kept]
    python -m benchmarks.recall --latency 50000 [--users 1000]

All files are JSON Lines. `--memories` has `conversation`, `content`, `evidence`; `--questions` has
`conversation`, `question`, `evidence`. Each conversation is one user. recall@k is the share of a
question's evidence that is found in the first k memories; evidence that no memory holds does not
count. `--japanese` has `user`, `content`, and for some rows a `question` that the content answers.
`--first-person` has `fact`, `question` and `half`; the facts of a half belong to one user, who asks
the questions.

`--latency` times recall of made-up memories in two stores, asked in turn. Each is asked one
question before, which loads its vectors. The clock covers embedding and search. MiniLM is left out
if the package of `benchmarks/minilm.py` is not installed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks import made_up
from benchmarks.minilm import embedders
from benchmarks.rows import Row, print_table, read_rows
from memory.ledger import Ledger
from memory.models import Embedder, Memory
from memory.providers import WordLlamaEmbedder
from memory.store import MemoryStore

ASKED = 200
Ask = Callable[[str, str, int], list[Memory]]
"""Takes a user, a question and k; returns the k best memories."""


@dataclass(frozen=True)
class Found:
    """What recall finds: shares of the questions, or of their evidence, in the first k memories."""

    embedder: str
    by: str
    questions: int
    first: float
    at_3: float
    at_5: float
    at_10: float


@dataclass(frozen=True)
class Took:
    """The time of one recall in milliseconds: median and 95th percentile."""

    by: str
    memories: int
    users: int
    p50_ms: float
    p95_ms: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--memories", type=Path)
    parser.add_argument("--questions", type=Path)
    parser.add_argument("--japanese", type=Path)
    parser.add_argument("--first-person", type=Path)
    parser.add_argument("--half", default="seen")
    parser.add_argument("--latency", type=int)
    parser.add_argument("--users", type=int, default=1)
    args = parser.parse_args()
    if args.memories and args.questions:
        print_table([asdict(one) for one in evidence(args.memories, args.questions)])
    if args.japanese:
        print_table([asdict(one) for one in japanese(read_rows(args.japanese))])
    if args.first_person:
        rows = [row for row in read_rows(args.first_person) if row["half"] == args.half]
        print_table([asdict(one) for one in first_person(rows)])
    if args.latency:
        print_table([asdict(one) for one in latency(args.latency, args.users)])


# --- what is found --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A user's question, and its answers.

    A memory that holds one of `answers` answers a part of the question.
    """

    user: str
    question: str
    answers: frozenset[str]


def evidence(memories: Path, questions: Path) -> Iterator[Found]:
    """Yield, for each way of recall, the share of the questions' evidence that it finds."""
    told = read_rows(memories)
    held: dict[str, set[str]] = defaultdict(set)
    for row in told:
        held[row["conversation"]] |= set(row["evidence"])
    asked = [
        Asked(row["conversation"], row["question"], frozenset(row["evidence"]) & held[who])
        for row in read_rows(questions)
        if held[who := row["conversation"]] & set(row["evidence"])
    ]
    yield from found((row["conversation"], row["content"], row["evidence"]) for row in told)(asked)


def japanese(rows: Sequence[Row]) -> Iterator[Found]:
    asked = [
        Asked(row["user"], row["question"], frozenset([row["content"]]))
        for row in rows
        if "question" in row
    ]
    everyone = "everyone"  # the names tell whose they are
    asked = [Asked(everyone, one.question, one.answers) for one in asked]
    yield from found((everyone, row["content"], [row["content"]]) for row in rows)(asked)


def first_person(rows: Sequence[Row]) -> Iterator[Found]:
    """Yield how often recall finds the fact that answers a question.

    All facts belong to one user, who asks the questions.
    """
    user = {"seen": "Mia", "kept": "Tom"}[rows[0]["half"]]
    asked = [Asked(user, row["question"], frozenset([row["fact"]])) for row in rows]
    yield from found((user, row["fact"], [row["fact"]]) for row in rows)(asked)


def found(told: Iterable[tuple[str, str, Sequence[str]]]) -> Callable[..., Iterator[Found]]:
    """Return a function that asks questions, with each embedder, by the cosine and by both ways.

    `told` has the memories: user, text, and what the memory holds.
    """
    memories = list(told)

    def ask(asked: Sequence[Asked]) -> Iterator[Found]:
        for name, embedder in embedders().items():
            for hybrid in (False, True):
                with opened(embedder, hybrid=hybrid) as store:
                    holds = stored(store, memories)
                    shares = [shares_of(store, holds, one) for one in asked]
                mean = [round(float(share), 3) for share in np.mean(shares, axis=0)]
                yield Found(name, "both" if hybrid else "cosine", len(asked), *mean)

    return ask


@contextmanager
def opened(embedder: Embedder, *, hybrid: bool) -> Iterator[MemoryStore]:
    with tempfile.TemporaryDirectory(prefix="recall-") as folder:
        ledger = Ledger.create(f"sqlite:///{folder}/ledger.db")
        with MemoryStore(ledger, embedder, hybrid=hybrid) as store:
            yield store


def stored(
    store: MemoryStore, memories: Sequence[tuple[str, str, Sequence[str]]]
) -> dict[str, frozenset[str]]:
    """Store the memories, and return what each of them holds, by its id."""
    new = [store.new_memory(content, user=user) for user, content, _ in memories]
    store.add_batch(new)
    return {one.id: frozenset(holds) for one, (_, _, holds) in zip(new, memories, strict=True)}


def shares_of(store: MemoryStore, holds: dict[str, frozenset[str]], one: Asked) -> list[float]:
    hits = store.search(one.question, 10, user=one.user)
    got = [holds[hit.memory.id] & one.answers for hit in hits]
    return [len(frozenset().union(*got[:k])) / len(one.answers) for k in (1, 3, 5, 10)]


# --- how long it takes ----------------------------------------------------------------------------


def latency(count: int, users: int) -> list[Took]:
    """Measure recall in stores of `count` memories, with texts of other memories as questions."""
    told = list(made_up.memories(count + ASKED, users, seed=5))
    with tempfile.TemporaryDirectory(prefix="recall-") as folder:
        url = f"sqlite:///{folder}/ledger.db"
        embedder = WordLlamaEmbedder()
        with MemoryStore(Ledger.create(url), embedder) as store:
            for start in range(0, count, 1_000):
                store.add_batch(told[start : min(start + 1_000, count)])
        both = {
            "cosine": MemoryStore(Ledger.create(url), embedder, hybrid=False),
            "both": MemoryStore(Ledger.create(url), embedder),
        }
        took: dict[str, list[float]] = {name: [] for name in both}
        for n, one in enumerate(told[count:]):
            for name, store in both.items():
                start_s = time.perf_counter()
                store.search(one.content, 5, user=one.user)
                if n:
                    took[name].append(time.perf_counter() - start_s)
        for store in both.values():
            store.close()
    return [
        Took(name, count, users, *np.round(np.percentile(some, [50, 95]) * 1_000, 2).tolist())
        for name, some in took.items()
    ]


if __name__ == "__main__":
    main()
