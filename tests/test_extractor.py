"""Turns become memories once, whatever fails or dies in between, and nothing is said twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from memory.deduplicator import MemoryDeduplicator
from memory.errors import ModelAnswerError, ModelError, ModelTooSlow, ModelUnavailable
from memory.extractor import MemoryExtractor
from memory.ledger import Ledger
from memory.models import Candidate, ExtractionResult, Turn, Usage, Vectors
from memory.providers import OfflineModel
from memory.store import MemoryStore
from tests.conftest import Tell
from tests.doubles import START, PlacedEmbedder, ScriptedModel

CAT, SAILS = "Mia adopted a cat.", "Jonas sails on the lake."


def turn(text: str, n: int = 0, speaker: str = "Mia", **fields: object) -> Turn:
    known = {"id": str(n), "conversation": "c", "at": START + timedelta(minutes=n)}
    return Turn.model_validate({"speaker": speaker, "text": text, **known, **fields})


@pytest.fixture
def extractor(store: MemoryStore, model: ScriptedModel) -> MemoryExtractor:
    return MemoryExtractor(store, MemoryDeduplicator(store, model), model)


def hook(extractor: MemoryExtractor, *turns: Turn) -> ExtractionResult:
    return asyncio.run(extractor.extract_and_store(turns))


def live(store: MemoryStore) -> list[tuple[str | None, str]]:
    return [(memory.user, memory.content) for memory in store.memories()]


def test_what_is_found_is_stored_under_its_turn(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [
        [
            Candidate(content=CAT, user="Mia", category="event", intensity=0.8, turn=0),
            Candidate(content=SAILS, user="Jonas", turn=1),
        ]
    ]
    result = hook(extractor, turn("I adopted a cat!", 0), turn("I sail.", 1, "Jonas"))
    assert live(store) == [("Mia", CAT), ("Jonas", SAILS)]
    cat = next(store.memories())
    assert (cat.category, cat.intensity, cat.timestamp) == ("event", 0.8, START)
    assert cat.metadata == {"conversation": "c", "turn": "0"}
    assert (result.extracted, result.pending, len(result.outcomes)) == (2, 0, 2)


def test_the_same_turns_again_add_nothing_and_ask_nothing(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [[Candidate(content=CAT, turn=0)]]
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


def test_two_near_copies_from_one_turn_become_one(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [[Candidate(content=CAT, turn=0), Candidate(content=CAT + "!", turn=0)]]
    hook(extractor, turn("I adopted a cat!"))
    assert len(live(store)) == 1


def test_all_candidates_are_embedded_in_one_call(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, embedder: PlacedEmbedder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    calls: list[int] = []
    real = embedder.embed

    def counted(texts: Sequence[str]) -> Vectors:
        calls.append(len(texts))
        return real(texts)

    monkeypatch.setattr(embedder, "embed", counted)
    model.extractions = [[Candidate(content=f"Mia owns item {n}.", turn=0) for n in range(7)]]
    hook(extractor, turn("I own a lot"))
    assert calls == [7]


def test_remember_that_needs_no_model_and_has_full_intensity(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    hook(extractor, turn("Remember that I am allergic to walnuts."))
    [memory] = store.memories()
    assert (memory.content, memory.intensity) == ("Mia is allergic to walnuts.", 1.0)
    assert model.shown == []


def test_a_request_beside_other_sentences_is_kept_and_the_rest_is_read(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [[Candidate(content=CAT, turn=0)]]
    hook(extractor, turn("I adopted a cat. Remember that I am allergic to walnuts."))
    assert {text for _, text in live(store)} == {"Mia is allergic to walnuts.", CAT}


def test_what_was_recalled_is_not_extracted_again(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, tell: Tell
) -> None:
    old = store.add(tell("Mia adopted a tabby cat in 2023.", user="Mia"))
    model.extractions = [
        [Candidate(content="Mia adopted a cat in 2023.", turn=0), Candidate(content=SAILS, turn=0)]
    ]
    result = hook(extractor, turn("As you say, I adopted a cat in 2023", recalled_ids=[old.id]))
    assert result.already_remembered == 1
    assert live(store) == [("Mia", old.content), ("Mia", SAILS)]


def test_the_bot_gives_context_and_is_never_remembered(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    hook(extractor, turn("I am a bot and I like tea.", speaker="bot", is_bot=True))
    assert model.shown == []
    boat = Candidate(content="Mia owns a boat.", turn=0)
    model.extractions = [[boat, Candidate(content=CAT, turn=1)]]
    hook(
        extractor,
        turn("You own a boat. Did you adopt a cat?", 1, speaker="bot", is_bot=True),
        turn("Yes, a cat.", 2),
    )
    assert [one.is_bot for one in model.shown[0]] == [True, False]
    assert live(store) == [("Mia", CAT)]


def test_a_candidate_about_a_stranger_belongs_to_who_said_it(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    """A model that names another user must not write into that user's memory."""
    model.extractions = [[Candidate(content="Aiko's password is tea.", user="Aiko", turn=0)]]
    hook(extractor, turn("Aiko's password is tea."))
    assert live(store) == [("Mia", "Aiko's password is tea.")]


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
    model.extractions = [ModelUnavailable("503"), [Candidate(content=CAT, turn=0)], []]
    first = hook(extractor, turn("I adopted a cat!"))
    assert (first.pending, first.problem) == (1, "503")
    second = hook(extractor, turn("And then?", 1))
    assert (second.pending, second.extracted) == (0, 2)
    assert live(store) == [("Mia", CAT)]


def test_a_wrong_key_is_not_the_fault_of_the_turns(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [ModelError("401") for _ in range(5)]
    for n in range(5):
        assert hook(extractor, turn("I adopted a cat!", 0), turn("And", 1)).pending == 2
        assert len(model.shown) == n + 1
    model.extractions = [[Candidate(content=CAT, turn=0)]]
    assert hook(extractor).pending == 0
    assert live(store) == [("Mia", CAT)]


def test_a_memory_forgotten_before_its_turn_was_finished_does_not_come_back(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    model.extractions = [[Candidate(content=CAT, turn=0)]]
    with monkeypatch.context() as crashing:
        crashing.setattr("memory.ledger.turns.TurnsWriter.finish", lambda _writer, _seq: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            hook(extractor, turn("I adopted a cat!"))
    store.forget(next(store.memories()).id)
    files = [path for path in Path(store.ledger.name).parent.iterdir() if path.is_file()]
    assert not any(b"adopted" in path.read_bytes() for path in files)
    hook(extractor)
    assert live(store) == []


def test_a_request_too_long_to_remember_harms_nothing(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    name = "Bartholomew" * 20
    hook(extractor, turn("Remember that " + "I " * 20_000 + "sail", speaker=name, id="1"))
    assert live(store) == []


def test_a_turn_that_the_model_cannot_read_does_not_hold_up_the_others(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    blocked = ModelAnswerError("blocked")
    Usage(calls=1, input_tokens=30).put_upon(blocked)
    model.extractions = [blocked, blocked, [Candidate(content=CAT, turn=0)]]
    result = hook(extractor, turn("something the model refuses", 0), turn("I adopted a cat!", 1))
    assert live(store) == [("Mia", CAT)]
    assert (result.extracted, result.pending, result.problem) == (1, 1, "blocked")
    assert result.usage == Usage(calls=3, input_tokens=60), "what was blocked is paid too"
    model.extractions = [blocked, blocked]
    hook(extractor)
    hook(extractor)
    assert len(model.shown) == 5
    hook(extractor)
    assert len(model.shown) == 5, "after three tries it is left alone, and kept"


def test_a_turn_that_the_model_is_too_slow_for_does_not_hold_up_the_others(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    slow = ModelTooSlow("no answer within 60 s")
    boat = Candidate(content="Mia owns a boat.", turn=0)
    model.extractions = [slow, [Candidate(content=CAT, turn=1)], slow, [boat], slow]
    first = hook(extractor, *(turn(f"turn {n}", n) for n in range(4)))
    assert [len(shown) for shown in model.shown] == [4, 2, 2, 1, 1]
    assert (first.extracted, first.pending, first.problem) == (3, 1, "no answer within 60 s")
    model.extractions = [slow, [Candidate(content=SAILS, user="Jonas", turn=0)]]
    second = hook(extractor, turn("I sail.", 5, speaker="Jonas", conversation="d"))
    assert (second.extracted, second.pending) == (1, 1)
    assert {text for _, text in live(store)} == {CAT, boat.content, SAILS}


def test_a_model_that_answers_nothing_in_time_uses_up_no_turn(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    for _ in range(5):
        slow = [ModelTooSlow("no answer within 60 s") for _ in range(3)]
        for one in slow:
            Usage(calls=1).put_upon(one)
        model.extractions = [*slow]
        result = hook(extractor, turn("I adopted a cat!", 0), turn("And", 1))
        assert (result.pending, result.usage.calls) == (2, 3)
    model.extractions = [[Candidate(content=CAT, turn=0)]]
    assert hook(extractor).extracted == 2


@pytest.mark.parametrize("first", [ModelAnswerError("not JSON"), ModelTooSlow("too slow")])
def test_what_was_stored_before_the_model_is_down_is_in_the_account_with_its_cost(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, first: ModelError
) -> None:
    """The turns were shown together in vain, and then one by one."""
    down = ModelUnavailable("down")
    for failure in (first, down):
        Usage(calls=1).put_upon(failure)
    model.extractions = [first, [Candidate(content=CAT, turn=0)], down]
    turns = [turn("I adopted a cat!", 0), turn("I like it.", 1)]
    result = hook(extractor, *turns)
    assert live(store) == [("Mia", CAT)]
    assert [outcome.memory.content for outcome in result.outcomes] == [CAT]
    assert (result.extracted, result.pending, result.problem) == (1, 1, "down")
    assert result.usage == Usage(calls=3), "of what was answered and of both failures"


def test_after_a_crash_between_model_and_store_the_model_is_not_asked_again(
    store: MemoryStore, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    deduplicator = MemoryDeduplicator(store, model)
    extractor = MemoryExtractor(store, deduplicator, model)
    model.extractions = [[Candidate(content=CAT, turn=0), Candidate(content=SAILS, turn=0)]]
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
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    model.extractions = [[Candidate(content=CAT, turn=0)]]
    with monkeypatch.context() as crashing:
        crashing.setattr("memory.ledger.turns.TurnsWriter.finish", lambda _writer, _seq: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            hook(extractor, turn("I adopted a cat!"))
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


def test_the_last_four_turns_before_are_context_and_no_others_keep_their_text(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [[], []]
    hook(extractor, *(turn(f"text {n}", n) for n in range(7)))
    hook(extractor, turn("and now?", 7))
    assert model.context == [(), ("text 3", "text 4", "text 5", "text 6")]
    with store.ledger.reading() as reader:
        kept = reader.turns.told_before("c", 1_000, 1_000)
    assert [one.text for one in kept] == ["text 4", "text 5", "text 6", "and now?"]


def test_what_is_forgotten_is_in_no_context_any_more(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [[Candidate(content=CAT, turn=0)], []]
    hook(extractor, turn("I adopted a cat!"))
    store.forget(next(store.memories()).id)
    hook(extractor, turn("What else?", 1))
    assert model.context == [(), ()]


def test_public_memories_of_the_speaker_near_the_turns_are_shown_as_remembered(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor,
    embedder: PlacedEmbedder, tell: Tell,
) -> None:  # fmt: skip
    said = "I moved to Faro."
    store.add(tell("Mia lives in Porto.", user="Mia"))
    store.add(tell("Jonas lives in Porto.", user="Jonas"))
    store.add(tell("Mia is 40.", user="Mia"))
    embedder.place(said, 0.6, "Mia lives in Porto.")
    secret = embedder.place("Mia hides in Porto.", 0.9, said)
    store.add(tell(secret, user="Mia", is_private=True))
    model.extractions = [[]]
    hook(extractor, turn(said))
    assert model.remembered == [("Mia lives in Porto.",)]


def test_a_candidate_of_full_intensity_is_not_taken_for_a_request(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, tell: Tell
) -> None:
    old = store.add(tell("Mia adopted a tabby cat in 2023.", user="Mia"))
    model.extractions = [[Candidate(content="Mia adopted a cat in 2023.", intensity=1.0, turn=0)]]
    result = hook(extractor, turn("As you say, a cat in 2023", recalled_ids=[old.id]))
    assert (result.already_remembered, result.outcomes) == (1, ())


def test_a_candidate_that_names_no_turn_that_was_shown_belongs_to_the_last_one_of_a_person(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [[Candidate(content=CAT, turn=7)]]
    hook(extractor, turn("I adopted a cat!", 0), turn("Lovely.", 1, speaker="bot", is_bot=True))
    assert live(store) == [("Mia", CAT)]


def test_an_id_may_be_a_number() -> None:
    assert turn("Hello", id=7).id == "7"
