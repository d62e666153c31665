"""A batch reads and plans only what has changed, and writes in few short transactions."""

from __future__ import annotations

import asyncio

import numpy as np

from memory.decide import Planner, PlanSettings
from memory.deduplicator.deduplicator import MemoryDeduplicator
from memory.errors import ModelUnavailable
from memory.models import (
    PERSON,
    Action,
    Decision,
    Memory,
    MergeGroup,
    Outcome,
    Question,
    Rules,
    Verdict,
)
from memory.providers import GuardedModel, OfflineModel
from memory.store import Conflict, MemoryStore
from tests.doubles import PlacedEmbedder, ScriptedModel, under


def revision(store: MemoryStore) -> int:
    with store.ledger.reading() as reader:
        return reader.revision()


def clumps(store: MemoryStore, embedder: PlacedEmbedder, users: int = 3) -> list[Memory]:
    """For each user three texts that are alike, one of them twice."""
    told = []
    for n in range(users):
        first = embedder.place(f"Mia{n} keeps a cat.")
        near = [embedder.place(f"Mia{n} feeds {x} cats.", 0.97, first) for x in (3, 4)]
        told += [
            store.add(store.new_memory(text, user=f"Mia{n}"))
            for text in (first, first + "!", *near)
        ]
    return told


def test_a_second_run_asks_no_model_and_writes_nothing(
    store: MemoryStore, embedder: PlacedEmbedder
) -> None:
    clumps(store, embedder)
    asyncio.run(MemoryDeduplicator(store, OfflineModel()).deduplicate_all())
    before = revision(store)
    model = ScriptedModel()
    model.name = "offline"
    report = asyncio.run(MemoryDeduplicator(store, model).deduplicate_all())
    assert (report.rounds, report.usage.calls, model.asked) == (0, 0, [])
    assert revision(store) == before


def test_many_look_alikes_take_two_rounds_without_a_model(
    store: MemoryStore, embedder: PlacedEmbedder
) -> None:
    """A question shows eight memories, so the first questions settle few of the pairs."""
    first = embedder.place("Mia rents locker 0.")
    texts = [first, *(embedder.place(f"Mia rents locker {n}.", 0.97, first) for n in range(1, 30))]
    for text in texts:
        store.add(store.new_memory(text, user="Mia"))
    before = revision(store)
    report = asyncio.run(MemoryDeduplicator(store, OfflineModel()).deduplicate_all())
    assert (report.rounds, report.retired, report.pending) == (2, 0, 0)
    assert report.found > 4 * (revision(store) - before)  # decisions share their transactions
    assert "locker" not in repr(report)
    again = asyncio.run(MemoryDeduplicator(store, OfflineModel()).deduplicate_all())
    assert again.rounds == 0


def test_what_a_person_keeps_apart_while_a_judge_is_asked_is_not_joined(
    store: MemoryStore, embedder: PlacedEmbedder
) -> None:
    first = embedder.place("Mia sails on the lake on Sundays.")
    second = embedder.place("Mia sails on the lake on Sunday mornings with Jo.", 0.93, first)
    a, b = (store.add(store.new_memory(text, user="Mia")) for text in (first, second))
    merged = "On Sunday mornings Mia sails on the lake on Sundays with Jo."

    def judge(_: Question) -> Verdict:
        pairs = ((a.id, b.id),)
        apart = Decision(Action.KEEP_BOTH, "two", (a, b), distinct=pairs, model=PERSON)
        store.apply(apart)
        return Verdict(parts=(MergeGroup(members=(0, 1), text=merged),))

    report = asyncio.run(MemoryDeduplicator(store, ScriptedModel(judge)).deduplicate_all())
    assert [one.content for one in store.memories()] == [first, second]
    assert (report.merged, report.usage.calls > 0) == (0, True)


def test_a_snapshot_that_caught_up_is_what_a_new_one_reads(
    store: MemoryStore, embedder: PlacedEmbedder
) -> None:
    told = clumps(store, embedder)
    before = store.snapshot()
    asyncio.run(MemoryDeduplicator(store, OfflineModel()).deduplicate_all())
    store.update(told[-1].id, "Mia2 feeds 4 cats and a dog.")
    store.add(store.new_memory("Something new."))
    caught_up, anew = store.snapshot(before=before), store.snapshot()
    assert caught_up.rows == anew.rows
    assert caught_up.ancestors == anew.ancestors
    for row in anew.rows:
        assert np.array_equal(caught_up.vectors[row.text_key], anew.vectors[row.text_key])


def test_only_a_scope_that_has_changed_is_planned_again(
    store: MemoryStore, embedder: PlacedEmbedder
) -> None:
    told = clumps(store, embedder)
    planner = Planner(store.scope_of, PlanSettings(Rules()))
    first = planner.plan(store.snapshot())
    store.update(told[0].id, "Mia0 keeps a dog.")
    second = planner.plan(store.snapshot())
    kept = [group for group in second.groups if any(group is one for one in first.groups)]
    assert {member.user for group in kept for member in group.members} == {"Mia1", "Mia2"}
    anew = Planner(store.scope_of, PlanSettings(Rules())).plan(store.snapshot())
    assert (second.groups, second.pairs) == (anew.groups, anew.pairs)


def test_many_decisions_share_a_transaction_and_each_stands_by_itself(store: MemoryStore) -> None:
    stored = [store.add(store.new_memory(f"text {n}")) for n in range(9)]
    before = revision(store)
    store.update(stored[4].id, "another text")
    decided = [under(Decision(Action.KEEP_BOTH, "different", (one,)), before) for one in stored]
    done = store.apply_all(decided, run="run")
    assert [isinstance(one, Outcome) for one in done] == [n != 4 for n in range(9)]
    assert done[4] == Conflict(f"{stored[4].id} changed")
    assert revision(store) == before + 2


def test_questions_that_wait_for_a_transaction_share_the_next(
    store: MemoryStore, embedder: PlacedEmbedder
) -> None:
    covering_pairs(store, embedder, 9)
    before, model = revision(store), ScriptedModel(*(Verdict() for _ in range(9)))
    asyncio.run(MemoryDeduplicator(store, model, concurrency=9).deduplicate_all())
    assert store.counts().decisions["keep_both"] == 9
    assert revision(store) - before <= 4


def covering_pairs(store: MemoryStore, embedder: PlacedEmbedder, pairs: int) -> None:
    """Pairs in the band of the judge, of which the longer text covers the other."""
    for n in range(pairs):
        short = embedder.place(f"Mia{n} keeps a cat.")
        long = embedder.place(f"Mia{n} keeps a black cat.", 0.92, short)
        for text in (short, long):
            store.add(store.new_memory(text, user=f"Mia{n}"))


def unavailable() -> ModelUnavailable:
    problem = ModelUnavailable("503 overloaded")
    problem.calls = 1
    return problem


def test_a_run_whose_calls_all_fail_replaces_nothing_and_says_why(
    store: MemoryStore, embedder: PlacedEmbedder
) -> None:
    covering_pairs(store, embedder, 3)
    before = {memory.content for memory in store.memories()}
    model = ScriptedModel(*(unavailable() for _ in range(3)))
    report = asyncio.run(MemoryDeduplicator(store, model).deduplicate_all())
    assert {memory.content for memory in store.memories()} == before
    assert "503 overloaded" in report.failure
    assert (report.retired, report.pending, store.counts().pending) == (0, 3, 3)


def test_fallbacks_wait_for_the_first_answer_and_are_applied_then(
    store: MemoryStore, embedder: PlacedEmbedder
) -> None:
    covering_pairs(store, embedder, 3)
    model = ScriptedModel(unavailable(), Verdict(reason="different"), unavailable())
    deduplicator = MemoryDeduplicator(store, model, concurrency=1)
    report = asyncio.run(deduplicator.deduplicate_all())
    assert report.failure == ""
    assert (report.retired, report.pending) == (2, 2)


def test_a_model_that_is_left_alone_has_answered_nothing(
    store: MemoryStore, embedder: PlacedEmbedder
) -> None:
    covering_pairs(store, embedder, 6)
    model = GuardedModel(ScriptedModel(*(unavailable() for _ in range(6))), failures=2)
    report = asyncio.run(MemoryDeduplicator(store, model, concurrency=1).deduplicate_all())
    assert (report.retired, len(list(store.memories()))) == (0, 12)
    assert "503 overloaded" in report.failure


def test_an_import_replaces_nothing_before_a_call_has_succeeded(
    store: MemoryStore, embedder: PlacedEmbedder
) -> None:
    embedder.place("Mia keeps a cat.")
    embedder.place("Mia keeps a black cat.", 0.92, "Mia keeps a cat.")
    told = [store.new_memory(text) for text in ("Mia keeps a cat.", "Mia keeps a black cat.")]
    deduplicator = MemoryDeduplicator(store, ScriptedModel(unavailable()))
    asyncio.run(deduplicator.check_and_merge_all(told, run="run_import"))
    assert len(list(store.memories())) == 2
    assert store.counts().pending == 1
