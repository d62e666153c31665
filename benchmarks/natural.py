"""Run the whole pipeline over memories that a language model extracted: questions, finds, losses.

    python -m benchmarks.natural --natural FILE --memories FILE
        [--groups FILE [--reader a|b] [--one-scope]] [--json]
    python -m benchmarks.natural --sentences FILE [--language ja] [--json]

`--memories`: JSON Lines in time order with `id`, `user`, `content`, `timestamp`. `--natural`: some
pairs of memories of one user, `a` and `b`, with a `label`: same, merge, apart. `--groups`: which
memories (`id`) each of two human readers put into one group, page by page.

The model is scripted. It joins what the chosen reader joined (without `--groups`, the pairs
labelled same or merge), and no other pairs. Nine in ten of its merged texts state all their
members; the second reading finds the others. The memories are written one by one in time order, and
then in another store as a batch, which is run twice. `found` is the share of pairs that are one
memory in the end. A fact is lost if no live memory states it. Tokens are estimated as characters
divided by 4, of what a server would be sent and would answer.

`--one-scope`: put all memories into one scope. Reported are the share of the pairs joined by both
readers that appear on the same page, and the number of pages per memory, for one pass and for a
thorough one.

`--sentences`: JSON Lines with `a`, `b`, `lang`, `label`: 3,000 sentences of one language in one
store, with the offline judge. Sentences that pairs labelled `duplicate` connect are one fact.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

from benchmarks.retrieval import drawn_sentences
from benchmarks.rows import Row, read_rows
from memory.assembly import build_deduplicator, open_store
from memory.config import Config, MemoryConfig
from memory.decide import RoundPlan, connected
from memory.deduplicator import FAITHFUL, TRIAL
from memory.extractor import ChatMemory, MemoryExtractor
from memory.interchange import to_memory
from memory.models import (
    Action,
    DeduplicationReport,
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
from memory.providers import JUDGE, PAGE, REREAD, OfflineModel, judge_question, rereading_question
from memory.store import Asker, MemoryStore
from memory.text import normalise

WAYS = ("one by one", "with pages", "batch")
ENOUGH = 1_000_000
"""A number of model calls that is never reached, so that one run asks everything."""
Pair = tuple[str, str, str]
"""The user, and two normalised texts in alphabetical order."""


@dataclass(frozen=True)
class Found:
    """The figures of a filled store: what was asked, and what became of the labelled pairs."""

    memories: int
    same_found: float
    """The share of the pairs labelled same that are one memory in the end."""
    merge_found: float
    grouped_found: float
    """That share of the pairs which the model joins whenever it sees them."""
    calls_each: float
    tokens_each: float
    apart_joined: int
    facts_lost: int
    corrupted_applied: int
    """The number of live memories whose merged text leaves a member out."""
    questions: int
    pages: int
    second_readings_per_100_merges: float
    calls_of_a_second_batch: int
    live: int
    seconds: float


@dataclass(frozen=True)
class OnPages:
    """The figures of the pages that one scope with all memories would have.

    `shared` is the share of the pairs joined by both readers that are on the same page.
    `pages_each` and `shown_each` are pages, and memories shown, per memory.
    """

    shared: float
    pairs: int
    pages_each: float
    shown_each: float


@dataclass(frozen=True)
class Crowd:
    """The questions about one language's sentences, and the wrong merges of the offline judge."""

    how: str
    sentences: int
    facts: int
    live: int
    questions: int
    questions_each: float
    apart_joined: int
    longest: int
    """The number of characters of the longest memory."""
    questions_of_a_second_batch: int
    seconds: float


class ByReading(OfflineModel):
    """A scripted model that joins the pairs that a human reader joined, and no others.

    A merged text is that of the newest member with a word added; `stated_by` tells which texts it
    states. One in ten leaves a member out at first. The second reading finds all of these.
    """

    name = "by a reading"
    page_size = 48

    def __init__(self, joined: Set[Pair]) -> None:
        self._joined = joined
        self._states: dict[str, frozenset[str]] = {}
        """The texts that each merged text states."""
        self._written = 0
        self.corrupted: set[str] = set()
        self.pages = 0
        self.readings = 0
        self.merges_read = 0
        self.shown: list[tuple[str, tuple[tuple[str, ...], ...]]] = []
        """For each question, its user, and the texts from which each of its members was made."""

    async def judge(self, question: Question) -> Verdict:
        members, user = question.members, question.members[0].user or ""
        sources = tuple(tuple(sorted(self.stated_by(member.content))) for member in members)
        self.shown.append((user, sources))
        self.pages += question.is_page
        alike = [
            (i, j)
            for i, j in combinations(range(len(members)), 2)
            if any((user, *_ordered(a, b)) in self._joined for a in sources[i] for b in sources[j])
        ]
        groups = [some for some in connected(len(members), alike) if len(some) > 1]
        parts = tuple(
            MergeGroup(members=tuple(some), text=self._text([members[n] for n in some], question))
            for some in groups
        )
        return Verdict(parts=parts, usage=self._usage(question, parts))

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        """Read merges a second time, and list the members whose texts are left out.

        It also passes the test that a model has to pass before its readings count.
        """
        if tuple(merges) == TRIAL:
            found = [MergeReading(lost=() if faithful else ("it",)) for faithful in FAITHFUL]
            return Rereading(readings=tuple(found), usage=Usage(calls=1))
        self.readings += 1
        self.merges_read += len(merges)
        shown = rereading_question(merges)
        usage = _tokens(len(REREAD) + len(shown), 60 * len(merges))
        return Rereading(readings=tuple(map(self._read, merges)), usage=usage)

    def stated_by(self, content: str) -> frozenset[str]:
        """Return the texts that `content` states: itself, or those from which it was merged."""
        text = normalise(content)
        return self._states.get(text, frozenset([text]))

    def _read(self, merge: ProposedMerge) -> MergeReading:
        stated = self.stated_by(merge.text)
        sources = {source for member in merge.members for source in self.stated_by(member.content)}
        return MergeReading(lost=tuple(sorted(sources - stated)))

    def _text(self, members: Sequence[Memory], question: Question) -> str:
        """Return the text into which the members are merged."""
        self._written += 1
        *older, newest = (self.stated_by(member.content) for member in members)
        left_out = older[:1] if self._written % 10 == 0 and not question.objection else []
        states = newest.union(*older) - frozenset().union(*left_out)
        word = "".join(chr(ord("a") + int(digit)) for digit in str(self._written))
        text = f"{members[-1].content.strip()} also told as {word}"
        self._states[normalise(text)] = states
        if left_out:
            self.corrupted.add(normalise(text))
        return text

    def _usage(self, question: Question, parts: Sequence[MergeGroup]) -> Usage:
        """Return the usage of an answer, with one token for four characters."""
        told = PAGE if question.is_page else JUDGE
        members = [question.members[n] for part in parts for n in part.members]
        said = 40 * (1 + len(parts)) + int(0.7 * sum(len(one.content) for one in members))
        return _tokens(len(told) + len(judge_question(question)), said)


def _tokens(sent: int, said: int) -> Usage:
    return Usage(calls=1, input_tokens=sent // 4, output_tokens=said // 4)


class Counting(OfflineModel):
    """The offline judge, which counts its questions."""

    def __init__(self) -> None:
        self.asked = 0

    async def judge(self, question: Question) -> Verdict:
        self.asked += 1
        return await super().judge(question)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--natural", type=Path)
    parser.add_argument("--memories", type=Path)
    parser.add_argument("--groups", type=Path)
    parser.add_argument("--reader", choices=["a", "b"], default="a")
    parser.add_argument("--one-scope", action="store_true")
    parser.add_argument("--sentences", type=Path)
    parser.add_argument("--language", default="ja")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results: dict[str, Found | OnPages | Crowd] = {}
    if args.natural and args.memories:
        memories, pairs = read_rows(args.memories), read_rows(args.natural)
        groups = read_rows(args.groups) if args.groups else []
        if args.one_scope:
            results |= one_scope(memories, groups)
        else:
            joined = joined_by(memories, groups, args.reader) if groups else None
            results |= {
                how.replace(" ", "_"): natural(memories, pairs, how, joined) for how in WAYS
            }
    if args.sentences:
        rows = read_rows(args.sentences)
        results |= {
            f"sentences, {how}": crowd(rows, args.language, how) for how in ("one by one", "batch")
        }
    if args.json:
        print(json.dumps({name: asdict(one) for name, one in results.items()}, indent=1))
    else:
        _print(results)


async def _fill(
    store: MemoryStore, config: Config, model: OfflineModel, told: list[Memory], how: str
) -> Usage:
    deduplicator = build_deduplicator(store, config, model)
    if how == "one by one":
        outcomes = await deduplicator.check_and_merge_all(told)
        return sum((outcome.usage for outcome in outcomes), Usage())
    if how == "with pages":
        return await _with_pages(store, config, model, told)
    store.add_batch(told)
    return (await deduplicator.deduplicate_all()).usage


async def _with_pages(
    store: MemoryStore, config: Config, model: OfflineModel, told: list[Memory]
) -> Usage:
    """Write memories one by one, as a chat does in a slower time; wait for each page that is due.

    Return the usage of all calls of the model: for writes, pages, second readings and repairs.
    """
    deduplicator = build_deduplicator(store, config, model)
    reports: list[DeduplicationReport] = []
    usage = Usage()
    async with ChatMemory(
        store,
        MemoryExtractor(store, deduplicator, model),
        deduplicator,
        on_pages=reports.append,
    ) as memory:
        for n, one in enumerate(told):
            outcome = await memory.remember(one.content, user=one.user, at=one.timestamp)
            told[n] = one.model_copy(update={"id": outcome.memory.id})  # where it went
            usage += outcome.usage
            while await memory.reads_pages():
                await asyncio.sleep(0.001)
        await memory.settle()
    return sum((report.usage for report in reports), usage)


def _config(folder: str) -> Config:
    memory = MemoryConfig(data_dir=folder, dedup_calls_per_run=ENOUGH, dedup_calls_per_hour=ENOUGH)
    return Config(memory=memory)


# --- natural pairs --------------------------------------------------------------------------------


def natural(
    memories: Sequence[Row], pairs: Sequence[Row], how: str, joined: Set[Pair] | None = None
) -> Found:
    """Fill a store as `how` says, one by one or as a batch, and return its figures.

    `joined` are the pairs that the model joins; None means those labelled same or merge. `seconds`
    covers the filling only.
    """
    labels = {
        (row["user"], *_ordered(normalise(row["a"]), normalise(row["b"]))): str(row["label"])
        for row in pairs
    }
    if joined is None:
        joined = {pair for pair, label in labels.items() if label != "apart"}
    model = ByReading(joined)
    with tempfile.TemporaryDirectory() as folder, open_store(_config(folder)) as store:
        told = [to_memory(row, keep_id=False, assume_utc=False) for row in memories]
        started = time.perf_counter()
        usage = asyncio.run(_fill(store, _config(folder), model, told, how))
        seconds = time.perf_counter() - started
        questions, pages, live = len(model.shown), model.pages, store.counts().live
        readings, merges = model.readings, model.merges_read
        ends = _ends(store, told)
        if how != "batch":  # what was left open at write time is asked now, once
            asyncio.run(build_deduplicator(store, _config(folder), model).deduplicate_all())
        again = asyncio.run(build_deduplicator(store, _config(folder), model).deduplicate_all())
        found = {pair for pair in labels.keys() | joined if _is_joined(ends, pair)}
        texts = [normalise(memory.content) for memory in store.memories()]
        return Found(
            memories=len(told),
            same_found=_share(labels, found, "same"),
            merge_found=_share(labels, found, "merge"),
            grouped_found=round(len(joined & found) / max(1, len(joined)), 3),
            calls_each=round(usage.calls / len(told), 4),
            tokens_each=round((usage.input_tokens + usage.output_tokens) / len(told), 1),
            apart_joined=sum(labels.get(pair) == "apart" for pair in found),
            facts_lost=_lost(store, told, model),
            corrupted_applied=sum(text in model.corrupted for text in texts),
            questions=questions,
            pages=pages,
            second_readings_per_100_merges=round(100 * readings / max(1, merges), 1),
            calls_of_a_second_batch=again.usage.calls,
            live=live,
            seconds=round(seconds, 1),
        )


def joined_by(memories: Sequence[Row], groups: Sequence[Row], reader: str) -> set[Pair]:
    """Return the pairs of memories that a reader put into one group."""
    told = {row["id"]: row for row in memories}
    return {
        (told[a]["user"], *_ordered(normalise(told[a]["content"]), normalise(told[b]["content"])))
        for page in groups
        if page["reader"] == reader
        for group in page["groups"]
        for a, b in combinations(group["members"], 2)
    }


def one_scope(memories: Sequence[Row], groups: Sequence[Row]) -> dict[str, OnPages]:
    """Return the figures of one pass and of a thorough one, with all memories given to one user."""
    both = joined_by(memories, groups, "a") & joined_by(memories, groups, "b")
    pairs = {pair[1:] for pair in both}
    with tempfile.TemporaryDirectory() as folder, open_store(_config(folder)) as store:
        rows = [{**row, "user": "everybody"} for row in memories]
        store.add_batch([to_memory(row, keep_id=False, assume_utc=False) for row in rows])
        model = ByReading(set())
        deduplicator = build_deduplicator(store, _config(folder), model)
        return {
            name: _on_pages(asyncio.run(deduplicator.audit(asker=asker)).plan, pairs, len(memories))
            for name, asker in {
                "one_pass": Asker(model.name),
                "thorough": Asker(model.name, thorough=True),
            }.items()
        }


def _on_pages(plan: RoundPlan, pairs: Set[tuple[str, str]], memories: int) -> OnPages:
    shown = [[normalise(member.content) for member in page.members] for page in plan.pages]
    together = {_ordered(a, b) for page in shown for a, b in combinations(page, 2)}
    return OnPages(
        shared=round(len(pairs & together) / len(pairs), 3),
        pairs=len(pairs),
        pages_each=round(len(shown) / memories, 4),
        shown_each=round(sum(map(len, shown)) / memories, 2),
    )


def _ordered(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a <= b else (b, a)


def _ends(store: MemoryStore, told: Sequence[Memory]) -> dict[tuple[str, str], set[str]]:
    """Return the ids of the live memories that stand for each text, by user and normalised text."""
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


def _share(labels: Mapping[Pair, str], found: Set[Pair], wanted: str) -> float:
    some = [pair for pair, label in labels.items() if label == wanted]
    return round(sum(pair in found for pair in some) / max(1, len(some)), 3)


def _lost(store: MemoryStore, told: Sequence[Memory], model: ByReading) -> int:
    """Return how many memories no live memory of their user states.

    A memory that was retired without a model counts as stated by the one that replaced it.
    """
    stated: dict[str, set[str]] = {}
    for memory in store.memories():
        stated.setdefault(memory.user or "", set()).update(model.stated_by(memory.content))
    covered = _covered(store)
    lost = 0
    for memory in told:
        text, known = normalise(memory.content), stated.get(memory.user or "", set())
        while text not in known and text in covered:
            text = covered[text]
        lost += text not in known
    return lost


def _covered(store: MemoryStore) -> dict[str, str]:
    """Return, for each text that was retired without a model, the text that replaced it."""
    found: dict[str, str] = {}
    with store.ledger.reading() as reader:
        for record in store.history():
            if record.model is None and record.action is Action.REPLACE:
                rows = reader.memories.rows(
                    [*record.members, *(name for name, _ in record.survivors)]
                )
                for name, ids in record.survivors:
                    for other in ids:
                        old, new = rows[other].memory.content, rows[name].memory.content
                        if normalise(old) != normalise(new):
                            found[normalise(old)] = normalise(new)
    return found


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
        for _ in range(2):
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


def _print(results: Mapping[str, Found | OnPages | Crowd]) -> None:
    for title, result in results.items():
        print(f"\n{title}")
        for name, value in asdict(result).items():
            if name != "how":
                print(f"  {name.replace('_', ' '):32} {value}")


if __name__ == "__main__":
    main()
