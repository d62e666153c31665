"""Turns become memories once, whatever fails or dies in between, and nothing is said twice."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from memory.deduplicator import MemoryDeduplicator
from memory.errors import ModelUnavailable
from memory.extractor.extractor import MemoryExtractor
from memory.ledger import Ledger
from memory.models import Candidate, Turn
from memory.providers import OfflineModel
from memory.store import MemoryStore
from tests.conftest import MakeMemory
from tests.doubles import START, PlacedEmbedder, ScriptedModel
from tests.turns import CAT, SAILS, hook, live, turn


def test_the_same_turns_again_add_nothing_and_ask_nothing(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [[Candidate(content=CAT, turns=(0,))]]
    turns = [turn("I adopted a cat!", 0), turn("Nice weather.", 1)]
    hook(extractor, *turns)
    result = hook(extractor, *turns)
    assert (result.known, result.extracted, len(model.shown)) == (2, 0, 1)
    assert live(store) == [("Mia", CAT)]


def test_a_turn_without_an_id_is_known_by_its_position_and_text(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [[], []]
    hook(extractor, turn("hello there", id=None))
    assert hook(extractor, turn("hello there", id=None)).known == 1
    assert hook(extractor, turn("another text", id=None)).known == 0


def test_texts_of_extracted_turns_are_erased(
    ledger: Ledger, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [[]]
    hook(extractor, turn("my secret word is xyzzy"))
    with ledger.reading() as reader:
        assert reader.turns.waiting() == []
        assert reader.counts().turns == 0


def test_conversations_are_shown_apart_and_a_few_turns_at_a_time(
    store: MemoryStore, model: ScriptedModel
) -> None:
    extractor = MemoryExtractor(store, MemoryDeduplicator(store, model), model, turns_at_once=2)
    model.extractions = [[], [], []]
    turns = [turn("one", 0), turn("two", 1), turn("three", 2), turn("four", 3, conversation="d")]
    hook(extractor, *turns)
    assert [[one.text for one in shown] for shown in model.shown] == [
        ["one", "two"], ["three"], ["four"],
    ]  # fmt: skip


# --- failures -----------------------------------------------------------------------------------


def test_turns_wait_for_a_model_that_is_down(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [ModelUnavailable("503"), [Candidate(content=CAT, turns=(0,))], []]
    first = hook(extractor, turn("I adopted a cat!"))
    assert (first.pending, first.problem) == (1, "503")
    second = hook(extractor, turn("And then?", 1))
    assert (second.pending, second.extracted) == (0, 2)
    assert live(store) == [("Mia", CAT)]


def test_open_questions_are_pending_as_stats_counts_them(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    """The merge that it names cannot be read: the memory is stored, its question waits."""
    model = ScriptedModel()
    older = embedder.place("Mia has a cat.")
    embedder.place(CAT, 0.93, older)
    store.add(make_memory(older, user="Mia"))
    merge = "Mia has adopted a cat."
    model.extractions = [[Candidate(content=CAT, turns=(0,), replaces=(0,), merged=merge)]]
    model.readings = [ModelUnavailable("503")]
    extractor = MemoryExtractor(store, MemoryDeduplicator(store, model), model)
    result = hook(extractor, turn("I adopted a cat!"))
    assert (result.extracted, result.pending, store.counts().pending) == (1, 1, 1)


def crash_before_the_turn_is_finished(model: ScriptedModel, extractor: MemoryExtractor) -> None:
    """Store the memory of a turn, then fail."""
    model.extractions = [[Candidate(content=CAT, turns=(0,))]]
    with pytest.MonkeyPatch.context() as crashing:
        crashing.setattr("memory.ledger.attachments.Turns.finish", lambda _writer, _seq: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            hook(extractor, turn("I adopted a cat!"))


def test_a_memory_forgotten_before_its_turn_was_finished_does_not_come_back(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    crash_before_the_turn_is_finished(model, extractor)
    store.forget(next(store.memories()).id)
    files = [path for path in Path(store.ledger.name).parent.iterdir() if path.is_file()]
    assert not any(b"adopted" in path.read_bytes() for path in files)
    hook(extractor)
    assert live(store) == []


def test_after_a_crash_between_model_and_store_the_model_is_not_asked_again(
    store: MemoryStore, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    deduplicator = MemoryDeduplicator(store, model)
    extractor = MemoryExtractor(store, deduplicator, model)
    model.extractions = [[Candidate(content=CAT, turns=(0,)), Candidate(content=SAILS, turns=(0,))]]
    with monkeypatch.context() as crashing:
        crashing.setattr(deduplicator, "check_and_merge_all", _crash)
        with pytest.raises(SystemExit):
            hook(extractor, turn("I adopted a cat, and Jonas sails."))
    assert live(store) == []
    result = hook(extractor)
    assert (result.extracted, len(model.shown)) == (1, 1)
    assert live(store) == [("Mia", CAT), ("Mia", SAILS)]


async def _crash(_memories: object, **_: object) -> None:
    raise SystemExit


def test_after_a_crash_before_the_end_nothing_is_stored_twice(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    crash_before_the_turn_is_finished(model, extractor)
    before = list(store.memories())
    hook(extractor)
    assert list(store.memories()) == before
    with store.ledger.reading() as reader:
        assert len(list(reader.memories.all())) == 1


def test_the_offline_model_reads_a_conversation_whole(store: MemoryStore) -> None:
    model = OfflineModel()
    extractor = MemoryExtractor(store, MemoryDeduplicator(store, model), model)
    hook(
        extractor,
        turn("Hi Jonas! I moved to Porto in 2021.", 0),
        turn("Nice! I bake bread every Friday.", 1, "Jonas"),
        turn("I moved to Porto in 2021!", 2),
    )
    assert live(store) == [
        ("Jonas", "Jonas bakes bread every Friday."),
        ("Mia", "Mia moved to Porto in 2021."),
    ]


# --- what a model is shown ------------------------------------------------------------------------


def test_interleaved_conversations_are_read_by_conversation(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [[], []]
    turns = [turn(f"turn {n}", n, conversation="cd"[n % 2]) for n in range(6)]
    hook(extractor, *turns)
    shown = [[one.id for one in turns] for turns in model.shown]
    assert shown == [["0", "2", "4"], ["1", "3", "5"]]


def test_no_call_spans_a_long_silence_and_context_does_not_either(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [[], [], []]
    later = START + timedelta(hours=7)
    hook(extractor, turn("one", 0), turn("two", 1), turn("three", 2, at=later))
    hook(extractor, turn("four", 3, at=later + timedelta(minutes=1)))
    assert [[one.text for one in shown] for shown in model.shown] == [
        ["one", "two"], ["three"], ["four"],
    ]  # fmt: skip
    assert model.context == [(), (), ("three",)]


def unnamed(text: str, speaker: str, **fields: object) -> Turn:
    return Turn.model_validate({"speaker": speaker, "text": text, "at": START, **fields})


def test_turns_without_a_conversation_are_read_by_speaker(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    """So nobody's words are read, or shown as context, with those of a stranger."""
    model.extractions = [[], [], []]
    hook(extractor, unnamed("I sail.", "Mia"), unnamed("I ski.", "Eve"))
    assert unnamed("I sail.", " Mia").conversation == "Mia"
    asyncio.run(extractor.keep_one(unnamed("I sail.", "Eve")))
    hook(extractor)
    shown = [[(one.speaker, one.text) for one in turns] for turns in model.shown]
    assert shown == [[("Mia", "I sail.")], [("Eve", "I ski.")], [("Eve", "I sail.")]]
    assert model.context == [(), (), ("I ski.",)]


def test_the_bots_turns_without_a_conversation_are_of_the_only_person_who_speaks(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    asked = unnamed("Do you sail?", "bot", is_bot=True)
    model.extractions = [[], [], []]
    hook(extractor, asked, unnamed("Yes.", "Mia"))
    hook(extractor, asked, unnamed("Yes.", "Eve"), unnamed("No.", "Jonas"))
    shown = [[one.text for one in turns] for turns in model.shown]
    assert shown == [["Do you sail?", "Yes."], ["Yes."], ["No."]]


def test_an_id_may_be_a_number() -> None:
    assert turn("Hello", id=7).id == "7"
