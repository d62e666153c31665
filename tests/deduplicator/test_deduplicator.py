"""Write time and batch, on real ledgers: what lives afterwards, and that nothing is lost."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.config import MemoryConfig
from memory.coverage import compare_memories
from memory.deduplicator.deduplicator import MemoryDeduplicator
from memory.errors import LedgerError, ModelError, ModelUnavailable
from memory.ledger import Ledger
from memory.models import (
    Action,
    Decision,
    DeduplicationReport,
    Memory,
    MergeGroup,
    Outcome,
    Question,
    Snapshot,
    Survivor,
    Verdict,
    cosine_of,
)
from memory.providers import GuardedModel, OfflineModel
from memory.search import VectorsByUser
from memory.store import Asker, MemoryStore, reopen_pending
from memory.upkeep import cards_of
from tests.conftest import MakeMemory
from tests.doubles import (
    START,
    HangingModel,
    PlacedEmbedder,
    ScriptedModel,
    living_for,
    ticking,
)

CAT, BLACK, DOG = "Mia has a cat.", "Mia has a black cat.", "Mia has a dog."
MERGED = Verdict(parts=(MergeGroup(members=(0, 1), text=BLACK),))
APART = Verdict()


@pytest.fixture(autouse=True)
def debug_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="memory")


def write(deduplicator: MemoryDeduplicator, memory: Memory) -> Memory:
    return asyncio.run(deduplicator.check_and_merge(memory))


def batch(deduplicator: MemoryDeduplicator, dry_run: bool = False) -> DeduplicationReport:
    return asyncio.run(deduplicator.deduplicate_all(dry_run))


def live(store: MemoryStore) -> set[str]:
    return {memory.content for memory in store.memories()}


def every_text(store: MemoryStore) -> set[str]:
    with store.ledger.reading() as reader:
        return {row.memory.content for row in reader.memories.all()}


def test_a_plan_of_few_groups_counts_all_and_shows_the_least_certain(
    store: MemoryStore, embedder: PlacedEmbedder
) -> None:
    texts = [embedder.place("a"), embedder.place("b"), embedder.place("c", 0.93, "b")]
    for text in (*texts, "A."):
        store.add(store.new_memory(text))
    deduplicator = MemoryDeduplicator(store, ScriptedModel())
    report = asyncio.run(deduplicator.deduplicate_all(dry_run=True, groups=1))
    assert [member.content for member in report.groups[0].members] == ["b", "c"]
    assert (report.found, report.retired, report.estimated_model_calls) == (2, 1, 1)


# --- write time ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("similarity", "asked", "left"),
    [(0.95, 0, {BLACK}), (0.949, 1, {BLACK}), (0.90, 1, {BLACK}), (0.899, 0, {CAT, BLACK})],
)
def test_thresholds_include_their_own_value(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory,
    similarity: float, asked: int, left: set[str],
) -> None:  # fmt: skip
    model = ScriptedModel(MERGED)
    deduplicator = MemoryDeduplicator(store, model)
    embedder.place(CAT)
    embedder.place(BLACK, similarity, CAT)
    write(deduplicator, make_memory(CAT))
    write(deduplicator, make_memory(BLACK))
    assert (len(model.asked), live(store)) == (asked, left)
    assert every_text(store) == {CAT, BLACK}


def test_a_text_told_again_retires_no_copy_that_an_undo_kept_apart(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    deduplicator = MemoryDeduplicator(store, ScriptedModel())
    first, second = (write(deduplicator, make_memory(text)) for text in (CAT, f"{CAT[:-1]}!"))
    store.undo(store.history()[-1].number)
    again = make_memory(CAT)
    assert write(deduplicator, again) == second.model_copy(update={"timestamp": again.timestamp})
    batch(deduplicator)
    assert {memory.id for memory in store.memories()} == {first.id, second.id}


def test_long_texts_are_not_compared_on_the_loop(
    store: MemoryStore,
    embedder: PlacedEmbedder,
    make_memory: MakeMemory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_the_loop = []

    def watched(a: Memory, b: Memory) -> object:
        on_the_loop.append(threading.current_thread() is threading.main_thread())
        return compare_memories(a, b)

    monkeypatch.setattr("memory.decide.policy.compare_memories", watched)
    cat, dog = (f"{'Mia rows on the lake, and she sings. ' * 60}{text}" for text in (CAT, DOG))
    embedder.place(cat)
    embedder.place(dog, 0.97, cat)
    deduplicator = MemoryDeduplicator(store, OfflineModel())
    write(deduplicator, make_memory(cat))
    write(deduplicator, make_memory(dog))
    assert on_the_loop
    assert not any(on_the_loop)


def minutes_pass(store: MemoryStore, minutes: int) -> None:
    """The store's clock moves on by a minute each time it is read."""
    for _ in range(minutes):
        store.clock()


def test_the_same_text_needs_no_model_and_the_newer_stays(
    store: MemoryStore, deduplicator: MemoryDeduplicator, make_memory: MakeMemory
) -> None:
    write(deduplicator, make_memory(CAT))
    second = make_memory(CAT.upper())
    assert write(deduplicator, second) == second.model_copy(update={"content": CAT})
    assert live(store) == {CAT}


def test_an_older_memory_that_says_more_absorbs_the_newer(
    store: MemoryStore,
    embedder: PlacedEmbedder,
    deduplicator: MemoryDeduplicator,
    make_memory: MakeMemory,
) -> None:
    embedder.place(BLACK)
    embedder.place(CAT, 0.96, BLACK)
    old = write(deduplicator, make_memory(BLACK))
    new = make_memory(CAT, metadata={"seen": 2})
    result = write(deduplicator, new)
    assert (result.id, result.content) == (old.id, BLACK)
    assert (result.timestamp, result.metadata) == (new.timestamp, {"seen": 2})
    assert living_for(store, new) == store.get(old.id)


def test_memories_that_differ_in_a_value_are_judged_and_both_stay(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    model = ScriptedModel(APART)
    deduplicator = MemoryDeduplicator(store, model)
    embedder.place(CAT)
    embedder.place(DOG, 0.98, CAT)
    write(deduplicator, make_memory(CAT))
    write(deduplicator, make_memory(DOG))
    assert live(store) == {CAT, DOG}
    write(deduplicator, make_memory(DOG + "!"))
    assert len(model.asked) == 1, "what was told apart is never asked again"
    assert batch(deduplicator).decisions == {}


def test_without_the_guard_the_newer_replaces_as_the_seed_says(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory, model: ScriptedModel
) -> None:
    deduplicator = MemoryDeduplicator(store, model, config=MemoryConfig(dedup_guard=False))
    embedder.place(CAT)
    embedder.place(DOG, 0.95, CAT)
    write(deduplicator, make_memory(CAT))
    write(deduplicator, make_memory(DOG))
    assert (live(store), every_text(store)) == ({DOG}, {CAT, DOG})


CHAIN = ["Mia walks.", "Mia walks a lot.", "Mia runs a lot."]


@pytest.fixture(params=[(0, 15, 30), (0, 14, 29), (0, 15, 29)])
def chain(request: pytest.FixtureRequest, embedder: PlacedEmbedder) -> list[str]:
    """At these angles: neighbours at some 0.97, the ends at some 0.87."""
    for text, degrees in zip(CHAIN, request.param, strict=True):
        angle = math.radians(degrees)
        embedder.place_at(text, [math.cos(angle), math.sin(angle)])
    return CHAIN


def test_without_the_guard_a_chain_whose_ends_are_unlike_does_not_collapse_one_by_one(
    store: MemoryStore, model: ScriptedModel, make_memory: MakeMemory, chain: list[str]
) -> None:
    deduplicator = MemoryDeduplicator(store, model, config=MemoryConfig(dedup_guard=False))
    for text in chain:
        write(deduplicator, make_memory(text))
    assert live(store) == {chain[1], chain[2]}
    batch(deduplicator)
    assert live(store) == {chain[1], chain[2]}, "nor in a batch later"


def test_without_the_guard_a_chain_whose_ends_are_unlike_does_not_collapse_in_a_batch(
    store: MemoryStore, model: ScriptedModel, make_memory: MakeMemory, chain: list[str]
) -> None:
    """Nor does what replaced an end answer for it in the next round."""
    store.add_batch([make_memory(text) for text in chain])
    batch(MemoryDeduplicator(store, model, config=MemoryConfig(dedup_guard=False)))
    assert len(live(store)) == 2
    assert chain[2] in live(store)


def test_switched_off_it_stores_everything(
    store: MemoryStore, make_memory: MakeMemory, model: ScriptedModel
) -> None:
    deduplicator = MemoryDeduplicator(store, model, config=MemoryConfig(dedup_enabled=False))
    write(deduplicator, make_memory(CAT))
    write(deduplicator, make_memory(CAT))
    assert len(list(store.memories())) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"user": "Mia"}, {"user": "Jonas"}),
        ({"user": "Mia"}, {"user": None}),
        ({"is_private": True}, {"is_private": False}),
    ],
)
def test_a_memory_outside_the_scope_is_not_replaced(
    store: MemoryStore, deduplicator: MemoryDeduplicator, make_memory: MakeMemory,
    first: dict[str, object], second: dict[str, object],
) -> None:  # fmt: skip
    write(deduplicator, make_memory(CAT, **first))
    write(deduplicator, make_memory(CAT, **second))
    batch(deduplicator)
    assert len(list(store.memories())) == 2


def test_the_same_memory_again_is_not_stored_again(
    store: MemoryStore, deduplicator: MemoryDeduplicator, make_memory: MakeMemory
) -> None:
    memory = make_memory(CAT)
    assert write(deduplicator, memory) == write(deduplicator, memory) == memory
    assert len(every_text(store)) == len(list(store.memories())) == 1


def test_an_id_that_is_taken_by_another_content_loses_nothing(
    store: MemoryStore, deduplicator: MemoryDeduplicator, make_memory: MakeMemory
) -> None:
    first = write(deduplicator, make_memory(CAT))
    other = write(deduplicator, make_memory(DOG).model_copy(update={"id": first.id}))
    assert live(store) == {CAT, DOG}
    assert (other.id != first.id, other.external_id) == (True, first.id)
    assert store.add_batch([make_memory("Mia sails.").model_copy(update={"id": first.id})]) == 1
    assert live(store) == {CAT, DOG, "Mia sails."}


def test_a_private_memory_does_not_answer_for_a_public_one(
    store: MemoryStore, deduplicator: MemoryDeduplicator, make_memory: MakeMemory
) -> None:
    private = write(deduplicator, make_memory(CAT, external_id="7", is_private=True))
    public = write(deduplicator, make_memory(CAT, external_id="7", timestamp=private.timestamp))
    assert (public.is_private, len(list(store.memories()))) == (False, 2)


def test_a_memory_that_arrives_again_is_not_decided_again(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    embedder.place(CAT)
    embedder.place(BLACK, 0.92, CAT)
    model = ScriptedModel(MERGED)
    deduplicator = MemoryDeduplicator(store, model)
    told = [make_memory(CAT, external_id="1"), make_memory(BLACK, external_id="2")]
    asyncio.run(deduplicator.check_and_merge_all(told))
    again = asyncio.run(deduplicator.check_and_merge_all(told))
    assert [outcome.action for outcome in again] == ["already there", "already there"]
    assert [outcome.memory.content for outcome in again] == [BLACK, BLACK]
    assert len(model.asked) == 1


def test_many_copies_of_a_text_told_apart_do_not_hide_a_match(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    embedder.place(DOG)
    embedder.place(CAT, 0.98, DOG)
    embedder.place(BLACK, 0.96, CAT)
    store.add_batch([make_memory(DOG) for _ in range(9)])
    deduplicator = MemoryDeduplicator(store, ScriptedModel(APART))
    write(deduplicator, make_memory(CAT))
    write(deduplicator, make_memory(BLACK))
    assert CAT not in live(store)


def test_each_candidate_sees_the_ones_accepted_before_it(
    store: MemoryStore, deduplicator: MemoryDeduplicator, make_memory: MakeMemory
) -> None:
    outcomes = asyncio.run(
        deduplicator.check_and_merge_all([make_memory(CAT), make_memory(CAT), make_memory(DOG)])
    )
    assert [outcome.action for outcome in outcomes] == ["add", "replace", "add"]
    assert live(store) == {CAT, DOG}


def test_a_late_arrival_of_an_older_memory_does_not_become_the_newest(
    store: MemoryStore, deduplicator: MemoryDeduplicator, make_memory: MakeMemory
) -> None:
    newest = write(deduplicator, make_memory(CAT))
    result = write(deduplicator, make_memory(CAT, timestamp=START - timedelta(days=9)))
    assert (result.id, result.timestamp) == (newest.id, newest.timestamp)


# --- failures ---------------------------------------------------------------------------------


@pytest.fixture
def close_pair(embedder: PlacedEmbedder) -> None:
    embedder.place(CAT)
    embedder.place(BLACK, 0.92, CAT)
    embedder.place(DOG, 0.92, CAT)


@pytest.mark.usefixtures("close_pair")
def test_a_failing_model_falls_back_to_replace_where_one_covers_the_other(
    store: MemoryStore, make_memory: MakeMemory, caplog: pytest.LogCaptureFixture
) -> None:
    deduplicator = MemoryDeduplicator(store, ScriptedModel(ModelError("503")))
    write(deduplicator, make_memory(CAT))
    write(deduplicator, make_memory(BLACK))
    assert (live(store), every_text(store)) == ({BLACK}, {CAT, BLACK})
    assert "DEDUP_FAIL: LLM merge failed, falling back to replace (503" in caplog.text
    assert store.counts().pending == 1


@pytest.mark.usefixtures("close_pair")
def test_a_failing_model_keeps_both_where_neither_covers_and_a_later_run_settles_it(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    model = ScriptedModel(ModelError("503"), ModelError("still 503"), APART)
    deduplicator = MemoryDeduplicator(store, model)
    write(deduplicator, make_memory(CAT))
    write(deduplicator, make_memory(DOG))
    assert (live(store), store.counts().pending) == ({CAT, DOG}, 1)
    assert batch(deduplicator).pending == 1
    assert batch(deduplicator).undecided == 1, "it is not asked again at once"
    minutes_pass(store, 60)
    assert batch(deduplicator).decisions == {"keep_both": 1}
    assert store.counts().pending == 0
    assert batch(deduplicator).decisions == {}


@pytest.mark.usefixtures("close_pair")
def test_a_question_that_nobody_was_let_ask_counts_as_no_attempt(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    now_s = [0.0]
    model = ScriptedModel(ModelUnavailable("503"), APART)
    breaker = GuardedModel(model, failures=1, clock=lambda: now_s[0])
    deduplicator = MemoryDeduplicator(store, breaker)
    write(deduplicator, make_memory(CAT))
    write(deduplicator, make_memory(DOG))
    minutes_pass(store, 60)
    decisions = len(store.history())
    for _ in range(6):
        report = batch(deduplicator)
        assert (report.pending, report.left, report.usage.calls) == (0, 1, 0)
    assert (len(model.asked), len(store.history())) == (1, decisions)
    now_s[0] = 3_600.0
    assert batch(deduplicator).decisions == {"keep_both": 1}


@pytest.mark.usefixtures("close_pair")
def test_a_replacement_without_the_model_is_asked_about_again_and_loses_nothing(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    """Without the guard the fallback retires another fact; the next batch brings it back.

    A batch in which nothing is answered retires nothing.
    """
    model = ScriptedModel(ModelError("503"), ModelError("503"), APART)
    deduplicator = MemoryDeduplicator(store, model, config=MemoryConfig(dedup_guard=False))
    write(deduplicator, make_memory(CAT))
    write(deduplicator, make_memory(DOG))
    assert (live(store), store.counts().pending) == ({DOG}, 1)
    batch(deduplicator)
    assert (live(store), store.counts().pending) == ({CAT, DOG}, 1)
    minutes_pass(store, 60)
    batch(deduplicator)
    assert (live(store), store.counts().pending) == ({CAT, DOG}, 0)
    assert batch(deduplicator).decisions == {}


@pytest.mark.usefixtures("close_pair")
def test_retry_asks_what_is_pending_and_leaves_other_copies_alone(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    model = ScriptedModel(ModelError("503"), APART)
    deduplicator = MemoryDeduplicator(store, model)
    copies = [store.add(make_memory(text)) for text in ("Mia sails.", "MIA SAILS")]
    write(deduplicator, make_memory(CAT))
    write(deduplicator, make_memory(DOG))
    assert store.counts().pending == 1
    report = asyncio.run(deduplicator.retry_pending())
    assert (report.decisions, store.counts().pending) == ({"keep_both": 1}, 0)
    assert {memory.content for memory in copies} <= live(store)
    assert len(model.asked) == 2
    assert asyncio.run(deduplicator.retry_pending()).decisions == {}


@pytest.mark.usefixtures("close_pair")
def test_a_question_asked_again_is_answered_once(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    """What the model told apart is asked again on request, and then not a second time."""
    model = ScriptedModel(APART, APART)
    deduplicator = MemoryDeduplicator(store, model)
    write(deduplicator, make_memory(CAT))
    write(deduplicator, make_memory(DOG))
    report = asyncio.run(deduplicator.retry_pending(again=True))
    assert (report.decisions, len(model.asked)) == ({"keep_both": 1}, 2)


@pytest.mark.usefixtures("close_pair")
def test_a_retry_that_dies_before_it_asked_leaves_the_question_open(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    model = ScriptedModel(ModelError("503"), APART)
    deduplicator = MemoryDeduplicator(store, model, config=MemoryConfig(dedup_guard=False))
    write(deduplicator, make_memory(CAT))
    write(deduplicator, make_memory(DOG))
    reopen_pending(store.ledger, lambda _reader: set(), store.scope_of, 10)
    assert (live(store), store.counts().pending) == ({CAT, DOG}, 1)
    asyncio.run(deduplicator.retry_pending())
    assert (live(store), store.counts().pending) == ({CAT, DOG}, 0)


def test_a_question_about_what_was_forgotten_in_part_is_asked_as_things_are(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    first, second, third = (
        store.add(make_memory(text))
        for text in ("Mia sails.", "Mia sails a boat.", "Mia sails a red boat.")
    )
    for older, newer in ((first, second), (second, third)):
        kept = Survivor(newer, (older.id,))
        pending = Decision(
            Action.REPLACE, "no model", (older, newer), (kept,), model="any", pending=True
        )
        assert isinstance(store.apply(pending), Outcome)
        if older is first:
            reopen_pending(store.ledger, lambda _reader: set(), store.scope_of, 10)
    store.forget(first.id)
    [question] = reopen_pending(store.ledger, lambda _reader: set(), store.scope_of, 10)
    assert (question.members, question.scrubbed) == ((second.id, third.id), True)
    assert live(store) == {third.content}


def test_more_copies_than_candidates_do_not_keep_a_new_one_waiting(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    store.add_batch([make_memory(CAT) for _ in range(9)])
    deduplicator = MemoryDeduplicator(store, ScriptedModel())
    write(deduplicator, make_memory(CAT.upper()))
    assert store.counts().live == 9


def test_a_text_that_a_person_keeps_twice_still_takes_a_new_copy_in(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    deduplicator = MemoryDeduplicator(store, ScriptedModel())
    store.add_batch([make_memory(CAT), make_memory(CAT.upper())])
    batch(deduplicator)
    store.undo(store.history()[-1].number)
    write(deduplicator, make_memory(CAT + "!"))
    assert store.counts().live == 2


@pytest.mark.usefixtures("close_pair")
def test_an_answer_that_cannot_be_believed_is_sent_back_once_with_the_reason(
    store: MemoryStore, make_memory: MakeMemory, caplog: pytest.LogCaptureFixture
) -> None:
    invented = Verdict(parts=(MergeGroup(members=(0, 1), text="Mia has a black cat called Pip."),))
    model = ScriptedModel(invented, MERGED)
    store.add_batch([make_memory(CAT), make_memory(BLACK)])
    batch(MemoryDeduplicator(store, model))
    assert "Pip" in model.asked[1].objection
    assert live(store) == {BLACK}
    assert "discarded" in caplog.text
    assert store.counts().pending == 0


@pytest.mark.usefixtures("close_pair")
def test_an_empty_merge_is_a_failure(store: MemoryStore, make_memory: MakeMemory) -> None:
    empty = Verdict(parts=(MergeGroup(members=(0, 1), text=""),))
    deduplicator = MemoryDeduplicator(store, ScriptedModel(empty))
    write(deduplicator, make_memory(CAT))
    write(deduplicator, make_memory(BLACK))
    assert (live(store), store.counts().pending) == ({BLACK}, 1)


@pytest.mark.usefixtures("close_pair")
def test_a_model_that_hangs_costs_a_write_its_budget_and_then_has_failed(
    store: MemoryStore, make_memory: MakeMemory, caplog: pytest.LogCaptureFixture
) -> None:
    deduplicator = MemoryDeduplicator(store, HangingModel(), budget_s=0.2)
    write(deduplicator, make_memory(CAT))
    started = time.monotonic()
    write(deduplicator, make_memory(BLACK))
    assert time.monotonic() - started >= 0.2
    assert (live(store), every_text(store)) == ({BLACK}, {CAT, BLACK})
    told = "DEDUP_FAIL: LLM merge failed, falling back to replace (no answer within 0.2 s"
    assert told in caplog.text
    [decision] = store.history()
    assert (decision.pending, decision.reason.startswith("no answer within 0.2 s")) == (True, True)


@pytest.mark.usefixtures("close_pair")
def test_a_second_try_waits_for_what_the_first_has_left(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    def empty_and_then_hanging(_question: Question) -> Verdict:
        model.hangs = True
        return Verdict(parts=(MergeGroup(members=(0, 1), text=""),))

    class TimedModel(HangingModel):
        async def judge(self, question: Question) -> Verdict:
            started = time.monotonic()
            try:
                return await super().judge(question)
            finally:
                waited_s.append(time.monotonic() - started)

    waited_s: list[float] = []
    model = TimedModel(empty_and_then_hanging)
    deduplicator = MemoryDeduplicator(store, model, budget_s=1.0)
    store.add_batch([make_memory(CAT), make_memory(DOG)])

    async def slow() -> None:
        running = asyncio.create_task(deduplicator.deduplicate_all())
        await model.reached()
        await asyncio.sleep(0.6)  # a part of the budget
        model.hangs = False
        await running

    asyncio.run(slow())
    assert waited_s[1] < 0.9, "0.4 s are left; with a budget of its own it would be 1 s"
    assert (model.waiting, live(store)) == (2, {CAT, DOG})
    [decision] = store.history()
    assert decision.pending, "a later batch asks again"
    assert decision.reason.startswith("the merged text is empty")


@pytest.mark.usefixtures("close_pair")
def test_each_group_of_a_batch_has_a_budget_of_its_own(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    store.add_batch(
        [
            make_memory(CAT),
            make_memory(BLACK),
            make_memory(CAT, user="Mia"),
            make_memory(DOG, user="Mia"),
        ]
    )
    report = batch(MemoryDeduplicator(store, HangingModel(), budget_s=0.2, concurrency=1))
    assert (report.pending, live(store)) == (2, {CAT, BLACK, DOG})
    assert all(one.reason.startswith("no answer within 0.2 s") for one in report.groups)


def test_when_no_query_answers_the_memory_is_stored_anyway(
    ledger: Ledger, embedder: PlacedEmbedder, make_memory: MakeMemory, model: ScriptedModel,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    def fail(*_: object) -> None:
        raise LedgerError("the vectors cannot be read")

    monkeypatch.setattr(VectorsByUser, "current", fail)
    with MemoryStore(ledger, embedder) as store:
        store.add(make_memory(DOG))
        write(MemoryDeduplicator(store, model), make_memory(CAT))
        assert live(store) == {CAT, DOG}
    assert caplog.text.count("similarity query failed, storing the memory anyway") == 1


def test_a_memory_that_came_meanwhile_is_decided_again(
    store: MemoryStore,
    embedder: PlacedEmbedder,
    make_memory: MakeMemory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    embedder.place(CAT)
    embedder.place(BLACK, 0.92, CAT)

    def rival_comes(_question: Question) -> Verdict:
        store.add(make_memory(BLACK))
        return MERGED

    deduplicator = MemoryDeduplicator(store, ScriptedModel(rival_comes))
    store.add(make_memory(CAT))
    write(deduplicator, make_memory(BLACK))
    assert [memory.content for memory in store.memories()] == [CAT, BLACK]
    assert "decided again" in caplog.text


@pytest.mark.parametrize(("name", "pending"), [("offline", False), ("scripted", True)])
def test_a_free_question_is_asked_until_no_other_write_comes_first(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory, name: str, pending: bool
) -> None:
    """Two imports side by side left questions that waited for a model, though there was none."""
    embedder.place(CAT)
    rivals = [embedder.place(f"Mia has {n} black cats.", 0.92, CAT) for n in range(2, 6)]

    def rival_comes(_question: Question) -> Verdict:
        if rivals:
            store.add(make_memory(rivals.pop()))
        return Verdict(reason="different")

    model = ScriptedModel(*[rival_comes] * 5)
    model.name = name
    store.add(make_memory(embedder.place(BLACK, 0.92, CAT)))
    write(MemoryDeduplicator(store, model), make_memory(CAT))
    assert store.counts().pending == pending


# --- log lines --------------------------------------------------------------------------------


def test_the_log_lines_are_the_seeds(
    store: MemoryStore,
    embedder: PlacedEmbedder,
    make_memory: MakeMemory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    embedder.place(CAT)
    embedder.place(BLACK, 0.93, CAT)
    deduplicator = MemoryDeduplicator(store, ScriptedModel(MERGED))
    write(deduplicator, make_memory(CAT))
    write(deduplicator, make_memory(BLACK))
    write(deduplicator, make_memory(BLACK))
    lines = [(r.levelname, r.getMessage()) for r in caplog.records if "DEDUP" in r.message]
    assert lines == [
        ("DEBUG", 'DEDUP_CHECK: "Mia has a cat." no match -> add as new (nothing similar)'),
        ("DEBUG", 'DEDUP_CHECK: "Mia has a black cat." closest match sim=0.93 -> LLM merge '
                  "(similarity between 0.90 and 0.95)"),
        ("INFO", 'DEDUP_MERGE: 2 memories -> "Mia has a black cat."'),
        ("DEBUG", 'DEDUP_CHECK: "Mia has a black cat." closest match sim=1.00 -> replace '
                  "(same text)"),
    ]  # fmt: skip


# --- batch ------------------------------------------------------------------------------------


def test_a_batch_cleans_up_and_a_second_one_changes_nothing(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    embedder.place(CAT)
    embedder.place(BLACK, 0.96, CAT)
    embedder.place(DOG, 0.96, CAT)
    store.add_batch(
        [
            make_memory(CAT),
            make_memory(CAT),
            make_memory(BLACK),
            make_memory(DOG),
            make_memory("Jonas sails."),
        ]
    )
    model = ScriptedModel(APART, APART)
    deduplicator = MemoryDeduplicator(store, model)
    report = batch(deduplicator)
    assert live(store) == {BLACK, DOG, "Jonas sails."}
    assert (report.memories, report.memories_after, report.retired) == (5, 3, 2)
    assert report.usage.calls == len(model.asked)
    with store.ledger.reading() as reader:
        before = reader.revision()
    again = batch(deduplicator)
    assert (again.decisions, again.usage.calls, again.rounds) == ({}, 0, 0)
    with store.ledger.reading() as reader:
        assert reader.revision() == before


def test_an_audit_gives_the_plan_and_as_many_of_its_groups_as_were_asked_for(
    deduplicator: MemoryDeduplicator, store: MemoryStore, make_memory: MakeMemory
) -> None:
    store.add_batch([make_memory(CAT), make_memory(CAT), make_memory(DOG), make_memory(DOG)])
    found = asyncio.run(deduplicator.audit(1))
    shown = [[one.content for one in card.members] for card in cards_of(found.plan)]
    assert shown == [[CAT] * 2, [DOG] * 2]
    assert (found.report.found, len(found.report.groups)) == (2, 1)


def test_a_dry_run_says_what_would_be_and_changes_no_byte(
    ledger: Ledger,
    store: MemoryStore,
    embedder: PlacedEmbedder,
    make_memory: MakeMemory,
    model: ScriptedModel,
) -> None:
    embedder.place(CAT)
    embedder.place(BLACK, 0.96, CAT)
    embedder.place(DOG, 0.92, CAT)
    store.add_batch([make_memory(CAT), make_memory(BLACK), make_memory(DOG)])
    store.close()
    before = Path(ledger.name).read_bytes()
    with MemoryStore(Ledger.open(f"sqlite:///{ledger.name}"), embedder) as readable:
        report = batch(MemoryDeduplicator(readable, model), dry_run=True)
    assert Path(ledger.name).read_bytes() == before
    assert model.asked == []
    [first] = [group for group in report.groups if len(group.members) == 2]
    assert (first.action, [m.fate for m in first.members]) == ("replace", ["retire", "keep"])
    assert report.pairs == {"0.98": 0, "0.95": 1, "0.90": 2}


def test_a_chain_whose_ends_are_unlike_is_not_merged_on_hearsay(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    """a~b~c, a and c unlike: a and b merge, and c is not merged with what came of them."""
    a, b, c = "Mia has a cat.", "Mia has a cat, Pip.", "Mia has a pet, Pip."
    embedder.place_at(a, [1.0, 0.0])
    embedder.place_at(b, [0.92, 0.39])
    embedder.place_at(c, [0.69, 0.72])
    embedder.place_at("Mia has a cat named Pip.", [0.80, 0.60])
    store.add_batch([make_memory(a), make_memory(b), make_memory(c)])

    def merge(question: Question) -> Verdict:
        assert {member.content for member in question.members} == {a, b}
        return Verdict(parts=(MergeGroup(members=(0, 1), text=b),))

    model = ScriptedModel(merge, APART)
    report = batch(MemoryDeduplicator(store, model))
    assert a not in live(store)
    assert c in live(store)
    assert report.pairs["0.90"] == 2


def test_a_synthesised_memory_is_measured_by_what_it_was_made_from(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    a, b, joined, c = "Pip is a cat.", "Pip is a black.", "Pip is a black cat.", "Pip is a pet cat."
    embedder.place_at(a, [1.0, 0.0])
    embedder.place_at(b, [0.92, 0.39])
    embedder.place_at(joined, [0.80, 0.60])
    embedder.place_at(c, [0.69, 0.72])
    store.add_batch([make_memory(a), make_memory(b)])
    verdict = Verdict(parts=(MergeGroup(members=(0, 1), text=joined),))
    deduplicator = MemoryDeduplicator(store, ScriptedModel(verdict))
    batch(deduplicator)
    assert live(store) == {joined}
    store.add(make_memory(c))
    near = store.embeddings.embed([make_memory(joined), make_memory(c)])
    assert cosine_of(*(one.vector for one in near)) >= 0.9  # type: ignore[arg-type]
    assert batch(deduplicator).decisions == {}, "close to the merge, far from its first source"


def test_an_interrupted_batch_keeps_what_was_decided(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    embedder.place(CAT)
    embedder.place(BLACK, 0.92, CAT)
    store.add_batch(
        [
            make_memory("Jonas sails."),
            make_memory("Jonas sails!"),
            make_memory(CAT),
            make_memory(BLACK),
        ]
    )

    def ctrl_c(_question: Question) -> Verdict:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batch(MemoryDeduplicator(store, ScriptedModel(ctrl_c), concurrency=1))
    assert live(store) == {"Jonas sails!", CAT, BLACK}


# --- any order, any store -----------------------------------------------------------------------

VALUES = st.sampled_from(["3", "4", "5"])
FRAMES = st.sampled_from(["{u} has {v} cats.", "{u} has {v} cats", "{u} owns {v} cats."])
TOLD = st.lists(
    st.tuples(st.sampled_from(["Mia", "Jonas"]), VALUES, FRAMES), min_size=1, max_size=12
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def cleaned(folder: Path, told: list[tuple[str, str, str]], at_once: bool) -> set[tuple[str, str]]:
    """What (user, value) the live memories state, each told value checked to be among them."""
    (folder / "l.db").unlink(missing_ok=True)
    embedder = PlacedEmbedder()
    for n, value in enumerate("345"):
        for m, frame in enumerate(["has", "owns"]):
            for user in ("Mia", "Jonas"):
                text = f"{user} {frame} {value} cats."
                embedder.place_at(text, [1.0, 0.1 * n, 0.2 * m])
    memories = [
        Memory(content=frame.format(u=user, v=value), user=user, timestamp=START + timedelta(n))
        for n, (user, value, frame) in enumerate(told)
    ]
    ledger = Ledger.create(f"sqlite:///{folder / 'l.db'}")
    with MemoryStore(ledger, embedder, clock=ticking()) as store:
        deduplicator = MemoryDeduplicator(store, OfflineModel())
        if at_once:
            store.add_batch(memories)
            batch(deduplicator)
        else:
            asyncio.run(deduplicator.check_and_merge_all(memories))
        return {(m.user or "", m.content.split()[2]) for m in store.memories()}


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(told=TOLD, at_once=st.booleans())
def test_no_value_is_ever_lost(
    folder: Path, told: list[tuple[str, str, str]], at_once: bool
) -> None:
    expected = {(user, value) for user, value, _ in told}
    assert cleaned(folder, told, at_once) == expected


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_time_of_a_run_begins_before_its_first_plan(
    deduplicator: MemoryDeduplicator,
    store: MemoryStore,
    monkeypatch: pytest.MonkeyPatch,
    dry_run: bool,
) -> None:
    now = 0.0
    take = store.snapshot

    def slow(asker: Asker, before: Snapshot | None, **how: Any) -> Snapshot:
        nonlocal now
        now += 0.0 if before else 9.0
        return take(asker, before, **how)

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(store, "snapshot", slow)
    assert asyncio.run(deduplicator.deduplicate_all(dry_run=dry_run)).seconds == 9.0


@pytest.mark.usefixtures("close_pair")
def test_a_model_may_join_what_only_the_offline_judge_kept_apart(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    """Its word stands below the model's: the merge is applied, and paid for once."""
    cat, black = store.add(make_memory(CAT)), store.add(make_memory(BLACK))
    with store.ledger.writing() as writer:
        writer.distinct.mark(store.scope_of(cat), cat.dated_key, black.dated_key, "test", "offline")
    model = ScriptedModel(MERGED)
    report = batch(MemoryDeduplicator(store, model))
    assert (report.decisions, len(model.asked), report.left) == ({"merge": 1}, 1, 0)


def test_calls_that_fail_are_spent_too(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    for n in range(4):
        embedder.place(f"Mia keeps cat {n}.")
        embedder.place(f"Mia feeds cat {n}.", 0.92, f"Mia keeps cat {n}.")
        store.add_batch([make_memory(f"Mia keeps cat {n}."), make_memory(f"Mia feeds cat {n}.")])
    model = ScriptedModel(*[ModelError("503")] * 4)
    deduplicator = MemoryDeduplicator(store, model, concurrency=1)
    report = asyncio.run(deduplicator.deduplicate_all(max_calls=2))
    assert (len(model.asked), report.pending, report.left) == (2, 2, 2)
