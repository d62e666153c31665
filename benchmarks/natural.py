"""The whole pipeline over memories that a language model extracted: what is asked, found, lost.

    python -m benchmarks.natural --natural FILE --memories FILE [--json]
    python -m benchmarks.natural --sentences FILE [--language ja] [--json]

`--memories`: JSON Lines in time order with `user`, `content`, `timestamp`. `--natural`: some of the
pairs of one user, `a` and `b`, with a `label`: same, merge, apart. The judge is scripted and
answers by the labels: members that are the same or worth merging become one text out of both,
everything else stays apart. One by one in time order, and as a batch, which is run once more. A
pair has reached the judge when one question showed both, in their own words or as part of a merged
text. A memory is lost where no live one has its words, or those of one labelled the same.

`--sentences`: JSON Lines with `a`, `b`, `lang`, `label`: 3,000 sentences of one language in one
store, with the offline judge; a fact is what pairs labelled `duplicate` tie together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

from benchmarks.retrieval import drawn_sentences, in_second_half
from benchmarks.rows import Row, read_rows
from memory.assembly import build_deduplicator, open_store
from memory.config import Config, MemoryConfig
from memory.decide import connected
from memory.interchange import to_memory
from memory.models import (
    Memory,
    MergeGroup,
    MergeReading,
    ProposedMerge,
    Question,
    Rereading,
    Usage,
    Verdict,
    new_memory_id,
)
from memory.providers import OfflineModel
from memory.store import MemoryStore
from memory.text import normalise

WAYS = ("one by one", "batch")
ENOUGH = 1_000_000
"""Calls: here nothing is left for the next run."""
Pair = tuple[str, str, str]
"""Whose, and two normalised texts."""


@dataclass(frozen=True)
class Found:
    """What the judge was shown of the labelled pairs, and what became of them."""

    how: str
    memories: int
    questions: int
    questions_each: float
    same_reached: float
    same_or_merge_reached: float
    same_reached_by_half: tuple[float, float]
    same_or_merge_reached_by_half: tuple[float, float]
    same_found: int
    """Pairs that are one memory in the end."""
    merge_found: int
    apart_joined: int
    facts_lost: int
    calls: int
    refused: int
    """Merges that were not believed."""
    calls_of_a_second_batch: int
    live: int
    seconds: float


@dataclass(frozen=True)
class Crowd:
    """What one language's sentences cost, and whether the offline judge glued any."""

    how: str
    sentences: int
    facts: int
    live: int
    questions: int
    questions_each: float
    apart_joined: int
    longest: int
    """Characters of the longest memory."""
    questions_of_a_second_batch: int
    seconds: float


class ByLabels(OfflineModel):
    """Says what a reader said of each pair; of what nobody read, that it is apart."""

    name = "by the labels"
    page_size = 8

    def __init__(self, labels: Mapping[Pair, str]) -> None:
        self._labels = labels
        self._sources: dict[str, tuple[str, ...]] = {}
        self.shown: list[tuple[str, tuple[tuple[str, ...], ...]]] = []
        """Of each question whose memories, and of each member the texts it was made from."""

    async def judge(self, question: Question) -> Verdict:
        members, user = question.members, question.members[0].user or ""
        sources = tuple(self._sources_of(member.content) for member in members)
        self.shown.append((user, sources))
        alike = [
            (i, j)
            for i, j in combinations(range(len(members)), 2)
            if self._is_one(user, sources[i], sources[j])
        ]
        parts = [self._part(members, some) for some in connected(len(members), alike)]
        return Verdict(parts=tuple(filter(None, parts)), usage=Usage(calls=1))

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        """The texts were only put side by side: nothing is lost, and nothing is new."""
        return Rereading(readings=(MergeReading(),) * len(merges), usage=Usage(calls=1))

    def _sources_of(self, content: str) -> tuple[str, ...]:
        return self._sources.get(normalise(content), (normalise(content),))

    def _is_one(self, user: str, left: Sequence[str], right: Sequence[str]) -> bool:
        labels = {self._labels.get((user, *_ordered(a, b))) for a in left for b in right}
        return bool(labels & {"same", "merge"})

    def _part(self, members: Sequence[Memory], some: Sequence[int]) -> MergeGroup | None:
        if len(some) < 2:
            return None
        told = [members[n].content.strip() for n in some]
        text = " ".join(one if one.endswith((".", "!", "?")) else f"{one}." for one in told)
        sources = (source for one in told for source in self._sources_of(one))
        self._sources[normalise(text)] = tuple(dict.fromkeys(sources))
        return MergeGroup(members=tuple(some), text=text)


class Counting(OfflineModel):
    """The offline judge, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def judge(self, question: Question) -> Verdict:
        self.asked += 1
        return await super().judge(question)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--natural", type=Path)
    parser.add_argument("--memories", type=Path)
    parser.add_argument("--sentences", type=Path)
    parser.add_argument("--language", default="ja")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results: list[Found | Crowd] = []
    if args.natural and args.memories:
        memories, pairs = read_rows(args.memories), read_rows(args.natural)
        results += [natural(memories, pairs, how) for how in WAYS]
    if args.sentences:
        rows = read_rows(args.sentences)
        results += [crowd(rows, args.language, how) for how in WAYS]
    if args.json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    else:
        _print(results)


async def _fill(
    store: MemoryStore, config: Config, model: OfflineModel, told: list[Memory], how: str
) -> Usage:
    deduplicator = build_deduplicator(store, config, model)
    if how == "one by one":
        outcomes = await deduplicator.check_and_merge_all(told)
        return sum((outcome.usage for outcome in outcomes), Usage())
    store.add_batch(told)
    return (await deduplicator.deduplicate_all()).usage


def _config(folder: str) -> Config:
    memory = MemoryConfig(data_dir=folder, dedup_calls_per_run=ENOUGH, dedup_calls_per_hour=ENOUGH)
    return Config(memory=memory)


def _refused(store: MemoryStore) -> int:
    """Questions to which no answer was believed."""
    return sum(one.model is not None and one.pending for one in store.history())


# --- natural pairs --------------------------------------------------------------------------------


def natural(memories: Sequence[Row], pairs: Sequence[Row], how: str) -> Found:
    """Fill a store one by one or as a batch; the clock covers the filling only."""
    labels = {
        (row["user"], *_ordered(normalise(row["a"]), normalise(row["b"]))): str(row["label"])
        for row in pairs
    }
    judge = ByLabels(labels)
    with tempfile.TemporaryDirectory() as folder, open_store(_config(folder)) as store:
        told = [to_memory(row, keep_id=False, assume_utc=False) for row in memories]
        started = time.perf_counter()
        usage = asyncio.run(_fill(store, _config(folder), judge, told, how))
        seconds = time.perf_counter() - started
        questions, refused, shown = len(judge.shown), _refused(store), list(judge.shown)
        if how != "batch":  # what was left open at write time is asked now, once
            asyncio.run(build_deduplicator(store, _config(folder), judge).deduplicate_all())
        again = asyncio.run(build_deduplicator(store, _config(folder), judge).deduplicate_all())
        ends = _ends(store, told)
        joined = {pair for pair in labels if _is_joined(ends, pair)}
        reached = _shown_together(shown)
        return Found(
            how=how,
            memories=len(told),
            questions=questions,
            questions_each=round(questions / len(told), 3),
            same_reached=_share(labels, reached, {"same"}),
            same_or_merge_reached=_share(labels, reached, {"same", "merge"}),
            same_reached_by_half=_halves(labels, reached, {"same"}),
            same_or_merge_reached_by_half=_halves(labels, reached, {"same", "merge"}),
            same_found=_count(labels, joined, "same"),
            merge_found=_count(labels, joined, "merge"),
            apart_joined=_count(labels, joined, "apart"),
            facts_lost=_lost(store, told, labels),
            calls=usage.calls,
            refused=refused,
            calls_of_a_second_batch=again.usage.calls,
            live=store.counts().live,
            seconds=round(seconds, 1),
        )


def _ordered(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a <= b else (b, a)


def _shown_together(
    shown: Iterable[tuple[str, tuple[tuple[str, ...], ...]]],
) -> set[Pair]:
    return {
        (user, *_ordered(a, b))
        for user, sources in shown
        for left, right in combinations(sources, 2)
        for a in left
        for b in right
    }


def _ends(store: MemoryStore, told: Sequence[Memory]) -> dict[tuple[str, str], set[str]]:
    """Who lives for each text of a user today."""
    with store.ledger.reading() as reader:
        alive = reader.memories.living_ids(memory.id for memory in told)
    ends: dict[tuple[str, str], set[str]] = {}
    for memory in told:
        if memory.id in alive:
            place = (memory.user or "", normalise(memory.content))
            ends.setdefault(place, set()).add(alive[memory.id])
    return ends


def _is_joined(ends: Mapping[tuple[str, str], set[str]], pair: Pair) -> bool:
    user, a, b = pair
    return bool(ends.get((user, a), set()) & ends.get((user, b), set()))


def _share(
    labels: Mapping[Pair, str], reached: set[Pair], wanted: set[str], half: bool | None = None
) -> float:
    some = [
        pair
        for pair, label in labels.items()
        if label in wanted and half in (None, in_second_half(pair[1], pair[2]))
    ]
    return round(sum(pair in reached for pair in some) / max(1, len(some)), 3)


def _halves(
    labels: Mapping[Pair, str], reached: set[Pair], wanted: set[str]
) -> tuple[float, float]:
    first, second = (_share(labels, reached, wanted, half) for half in (False, True))
    return first, second


def _count(labels: Mapping[Pair, str], some: set[Pair], wanted: str) -> int:
    return sum(labels[pair] == wanted for pair in some)


def _lost(store: MemoryStore, told: Sequence[Memory], labels: Mapping[Pair, str]) -> int:
    """Memories whose words no live one has, nor those of one that a reader called the same."""
    live: dict[str, list[str]] = {}
    for memory in store.memories():
        live.setdefault(memory.user or "", []).append(normalise(memory.content))
    same: dict[tuple[str, str], set[str]] = {}
    for (user, a, b), label in labels.items():
        if label == "same":
            same.setdefault((user, a), set()).add(b)
            same.setdefault((user, b), set()).add(a)
    lost = 0
    for memory in told:
        user, text = memory.user or "", normalise(memory.content)
        wordings = {text} | same.get((user, text), set())
        lost += not any(one in other for one in wordings for other in live.get(user, ()))
    return lost


# --- one language in one store --------------------------------------------------------------------


def crowd(rows: Sequence[Row], language: str, how: str) -> Crowd:
    texts = drawn_sentences(rows, language)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    told = [
        Memory(id=new_memory_id(), content=text, timestamp=start + timedelta(minutes=n))
        for n, text in enumerate(texts)
    ]
    judge = Counting()
    with tempfile.TemporaryDirectory() as folder, open_store(_config(folder)) as store:
        started = time.perf_counter()
        asyncio.run(_fill(store, _config(folder), judge, told, how))
        seconds = time.perf_counter() - started
        questions = judge.asked
        for _ in WAYS:
            before = judge.asked
            asyncio.run(build_deduplicator(store, _config(folder), judge).deduplicate_all())
        live = [memory.content for memory in store.memories()]
        return Crowd(
            how=how,
            sentences=len(told),
            facts=_facts(rows, texts),
            live=len(live),
            questions=questions,
            questions_each=round(questions / len(told), 3),
            apart_joined=_apart_joined(rows, _ends(store, told)),
            longest=max(map(len, live)),
            questions_of_a_second_batch=judge.asked - before,
            seconds=round(seconds, 1),
        )


def _facts(rows: Iterable[Row], texts: Sequence[str]) -> int:
    place = {text: n for n, text in enumerate(texts)}
    ties = [
        (place[a], place[b]) for a, b in _labelled(rows, {"duplicate"}) if a in place and b in place
    ]
    return len(connected(len(texts), ties))


def _apart_joined(rows: Iterable[Row], ends: Mapping[tuple[str, str], set[str]]) -> int:
    apart = _labelled(rows, {"changed", "contradiction", "distinct"})
    return sum(_is_joined(ends, ("", a, b)) for a, b in apart)


def _labelled(rows: Iterable[Row], labels: set[str]) -> set[tuple[str, str]]:
    pairs = ((normalise(r["a"]), normalise(r["b"])) for r in rows if r["label"] in labels)
    return {_ordered(a, b) for a, b in pairs if a != b}


# --- files and tables -----------------------------------------------------------------------------


def _print(results: Sequence[Found | Crowd]) -> None:
    for result in results:
        print(f"\n{result.how}")
        for name, value in asdict(result).items():
            if name != "how":
                print(f"  {name.replace('_', ' '):32} {value}")


if __name__ == "__main__":
    main()
