"""A candidate may name memories that it repeats, updates or extends: one text replaces them all."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from memory import Config, open_chat_memory, open_store
from memory.config import LLMConfig, MemoryConfig
from memory.decide import survivor_of
from memory.deduplicator import MemoryDeduplicator
from memory.errors import ModelUnavailable
from memory.extractor.extractor import MemoryExtractor
from memory.ledger import DecisionRecord, Ledger
from memory.models import (
    PERSON,
    Action,
    Candidate,
    Decision,
    Extraction,
    KeptCandidate,
    LanguageModel,
    Memory,
    MergeGroup,
    MergeReading,
    NamedMemory,
    ProposedMerge,
    Rereading,
    Verdict,
)
from memory.store import MemoryStore, forget_user
from memory.text import text_key
from tests.conftest import MakeMemory
from tests.doubles import START, PlacedEmbedder, ScriptedModel
from tests.gemini_server import GeminiServer
from tests.openai_server import OpenAIServer
from tests.turns import hook, live, turn

PEANUTS = "Mia is allergic to peanuts."
OUTGROWN = "Mia has outgrown her allergy."
BOTH = "Mia was allergic to peanuts, but has outgrown her allergy."
LOST = MergeReading(lost=("that it was peanuts",))


def naming(*replaces: int, turns: tuple[int, ...] = (0,), user: str = "Mia") -> Candidate:
    return Candidate(content=OUTGROWN, user=user, turns=turns, replaces=replaces, merged=BOTH)


def decided(store: MemoryStore) -> list[DecisionRecord]:
    return store.history()


def is_open(store: MemoryStore) -> bool:
    return store.counts().pending > 0


HERE: dict[str, Any] = {"external_id": "c/1/0", "metadata": {"conversation": "c"}}
"""What a memory that this conversation produced has; only these are shown if several speak."""


@pytest.fixture
def peanuts_here(store: MemoryStore, make_memory: MakeMemory) -> Memory:
    return store.add(make_memory(PEANUTS, user="Mia", **HERE))


@pytest.fixture
def peanuts(store: MemoryStore, make_memory: MakeMemory) -> Memory:
    return store.add(make_memory(PEANUTS, user="Mia"))


def test_an_accepted_text_replaces_what_is_named_in_one_decision(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory
) -> None:
    model.extractions = [[naming(0)]]
    result = hook(extractor, turn("The doctor says the allergy is gone.", 30))
    assert live(store) == [("Mia", BOTH)]
    [decision] = decided(store)
    assert (decision.action, decision.pending, decision.verified) == (
        Action.MERGE, False, "by a second reading",
    )  # fmt: skip
    [merge] = model.reread_merges[0]
    assert [one.content for one in merge.members] == [PEANUTS, OUTGROWN]
    assert [one.memory.content for one in result.outcomes] == [BOTH]
    assert (result.usage.calls, model.asked) == (3, []), "the turns, the model's trial, one reading"


def test_undo_brings_back_what_was_named_and_what_the_turns_say(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory
) -> None:
    model.extractions = [[naming(0)]]
    hook(extractor, turn("The doctor says the allergy is gone.", 30))
    [decision] = decided(store)
    store.undo(decision.number, keep_apart=False)
    assert sorted(live(store)) == [("Mia", OUTGROWN), ("Mia", PEANUTS)]


def test_a_refused_text_leaves_all_as_they_are_and_the_question_open(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    model.extractions, model.readings = [[naming(0)]], [[LOST]]
    hook(extractor, turn("The doctor says the allergy is gone.", 30))
    assert sorted(live(store)) == [("Mia", OUTGROWN), ("Mia", PEANUTS)]
    [decision] = decided(store)
    assert (decision.action, decision.pending) == (Action.KEEP_BOTH, True)
    assert "loses: that it was peanuts" in decision.reason
    assert "DEDUP_REFUSED" in caplog.text
    assert "DEDUP_FAIL" not in caplog.text
    [asked] = model.asked
    assert "loses: that it was peanuts" in asked.objection
    [refusal] = decision.refused
    assert (refusal.text, refusal.by) == (BOTH, "a second reading")


def test_a_refused_text_is_mended_once(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory
) -> None:
    mended = f"{BOTH} That is all."
    model.answers = [Verdict(parts=(MergeGroup(members=(0, 1), text=mended),))]
    model.extractions, model.readings = [[naming(0)]], [[LOST], []]
    hook(extractor, turn("The doctor says the allergy is gone.", 30))
    assert live(store) == [("Mia", mended)]
    [decision] = decided(store)
    assert (decision.action, decision.refused) == (Action.MERGE, ())


def test_a_value_that_no_memory_states_is_refused_without_a_reading(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory
) -> None:
    model.extractions = [[naming(0).model_copy(update={"merged": BOTH + " She is 31."})]]
    hook(extractor, turn("The doctor says the allergy is gone.", 30))
    assert sorted(live(store)) == [("Mia", OUTGROWN), ("Mia", PEANUTS)]
    assert model.reread_merges == []
    assert is_open(store)


def test_a_reading_that_fails_loses_nothing_and_leaves_the_question_open(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    model.extractions, model.readings = [[naming(0)]], [ModelUnavailable("503")]
    result = hook(extractor, turn("The doctor says the allergy is gone.", 30))
    assert sorted(live(store)) == [("Mia", OUTGROWN), ("Mia", PEANUTS)]
    assert (result.pending, result.extracted, is_open(store)) == (1, 1, True), "the question"
    assert "DEDUP_FAIL: LLM merge failed, falling back to keep both (503)" in caplog.text
    assert "DEDUP_REFUSED" not in caplog.text


def test_one_reading_checks_all_that_a_window_proposes(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, make_memory: MakeMemory
) -> None:
    """Also for two users: both spoke here, and the model was shown the memories of both."""
    store.add(make_memory(PEANUTS, user="Mia", **HERE))
    store.add(make_memory("Ben rents a flat in Faro.", user="Ben", **HERE))
    flat = Candidate(
        content="Ben bought a flat.", user="Ben", turns=(1,), replaces=(1,),
        merged="Ben, who rented a flat in Faro, bought a flat.",
    )  # fmt: skip
    model.extractions = [[naming(0), flat]]
    hook(extractor, turn("I have outgrown it.", 30), turn("I bought a flat.", 31, "Ben"))
    assert live(store) == [("Mia", BOTH), ("Ben", flat.merged)]
    assert [len(merges) for merges in model.reread_merges] == [2]


def test_a_nul_in_a_merged_text_blocks_nothing(
    empty_url: str, embedder: PlacedEmbedder, model: ScriptedModel, make_memory: MakeMemory
) -> None:
    with MemoryStore(Ledger.create(empty_url), embedder) as store:
        store.add(make_memory(PEANUTS, user="Mia"))
        dirty = naming(0).model_dump() | {"merged": BOTH.replace(",", "\0,")}
        model.extractions = [[Candidate.model_validate(dirty)]]
        hook(MemoryExtractor(store, MemoryDeduplicator(store, model), model), turn("Gone.", 30))
        assert live(store) == [("Mia", BOTH)]


# --- who may be named -----------------------------------------------------------------------------


def test_words_of_one_user_never_retire_a_memory_of_another(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts_here: Memory,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """Ben says that Mia's allergy is gone, whatever user the model writes beside it."""
    model.extractions = [[naming(0, turns=(1,))]]
    hook(extractor, turn("Hello.", 30), turn("Her allergy is gone.", 31, "Ben"))
    assert model.remembered == [(PEANUTS,)]
    assert sorted(live(store)) == [("Ben", OUTGROWN), ("Mia", PEANUTS)]
    assert (model.reread_merges, is_open(store)) == ([], False)
    assert "names 1 memories that it may not replace" in caplog.text
    assert "peanuts" not in caplog.text


@pytest.mark.parametrize("turns", [(), (7,)])
def test_a_candidate_that_names_no_turn_replaces_nothing(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory,
    turns: tuple[int, ...],
) -> None:  # fmt: skip
    model.extractions = [[naming(0, turns=turns)]]
    hook(extractor, turn("Hello.", 30), turn("My allergy is gone.", 31))
    assert sorted(live(store)) == [("Mia", OUTGROWN), ("Mia", PEANUTS)]
    assert (model.reread_merges, is_open(store)) == ([], False)


def test_nothing_is_replaced_where_deduplication_is_off(
    store: MemoryStore, model: ScriptedModel, peanuts: Memory
) -> None:
    off = MemoryDeduplicator(store, model, config=MemoryConfig(dedup_enabled=False))
    model.extractions = [[naming(0)]]
    hook(MemoryExtractor(store, off, model), turn("It is gone.", 30))
    assert sorted(live(store)) == [("Mia", OUTGROWN), ("Mia", PEANUTS)]
    assert (model.reread_merges, is_open(store)) == ([], False)


def test_a_candidate_of_two_speakers_turns_is_of_the_one_whom_it_is_about_and_replaces_nothing(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts_here: Memory
) -> None:
    model.extractions = [[naming(0, turns=(1, 0))]]
    hook(
        extractor, turn("I have outgrown the allergy.", 30), turn("Her allergy is gone.", 31, "Ben")
    )
    assert live(store) == [("Mia", PEANUTS), ("Mia", OUTGROWN)]
    [_, memory] = store.memories()
    assert memory.metadata == {"conversation": "c", "turn": "30", "turns": ["30", "31"]}


def test_at_most_five_are_replaced(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, make_memory: MakeMemory
) -> None:
    pets = [store.add(make_memory(f"Mia has a cat called Pip{n}.", user="Mia")) for n in range(7)]
    names = ", ".join(f"Pip{n}" for n in range(5))
    merged = f"Mia has cats called {names}, and loves them."
    one = Candidate(
        content="Mia loves her cats.", turns=(0,), replaces=tuple(range(7)), merged=merged
    )
    model.extractions = [[one]]
    hook(extractor, turn("I love them.", 30))
    [merge] = model.reread_merges[0]
    assert [member.id for member in merge.members[:-1]] == [pet.id for pet in pets[:5]]
    assert [text for _, text in live(store)] == [pets[5].content, pets[6].content, merged]


@pytest.mark.parametrize("replaces", [(-1,), (1,), (40,)])
def test_a_number_that_was_not_shown_is_ignored(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory,
    replaces: tuple[int, ...],
) -> None:  # fmt: skip
    model.extractions = [[naming(*replaces)]]
    hook(extractor, turn("It is gone.", 30))
    assert sorted(live(store)) == [("Mia", OUTGROWN), ("Mia", PEANUTS)]
    assert not is_open(store)


def test_a_private_memory_is_not_shown(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, make_memory: MakeMemory
) -> None:
    store.add(make_memory(PEANUTS, user="Mia", is_private=True))
    model.extractions = [[naming(0)]]
    hook(extractor, turn("It is gone.", 30))
    assert model.remembered == [()]
    assert sorted(live(store)) == [("Mia", OUTGROWN), ("Mia", PEANUTS)]


def test_only_memories_of_the_same_scope_are_joined(
    ledger: Ledger, embedder: PlacedEmbedder, model: ScriptedModel, make_memory: MakeMemory
) -> None:
    with MemoryStore(ledger, embedder, scope_fields=("user", "category")) as store:
        extractor = MemoryExtractor(store, MemoryDeduplicator(store, model), model)
        store.add(make_memory(PEANUTS, user="Mia", category="health"))
        model.extractions = [[naming(0)]]
        hook(extractor, turn("It is gone.", 30))
        assert sorted(live(store)) == [("Mia", OUTGROWN), ("Mia", PEANUTS)]


def test_the_first_of_two_candidates_that_name_a_memory_takes_it(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory
) -> None:
    second = Candidate(
        content="Mia eats peanut butter.", turns=(0,), replaces=(0,),
        merged="Mia was allergic to peanuts, and eats peanut butter.",
    )  # fmt: skip
    model.extractions = [[naming(0), second]]
    hook(extractor, turn("It is gone, I eat peanut butter.", 30))
    assert [text for _, text in live(store)] == [BOTH, second.content]
    assert [len(merges) for merges in model.reread_merges] == [1]
    assert is_open(store)


def test_what_a_person_keeps_apart_is_not_joined(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory
) -> None:
    model.extractions = [[naming(0)]]
    hook(extractor, turn("It is gone.", 30))
    store.undo(decided(store)[0].number)
    live_now = [one.id for one in store.memories()]
    extension = Candidate(
        content="Mia carries no pen.", turns=(0,), replaces=(0, 1),
        merged="Mia was allergic to peanuts, but has outgrown her allergy and carries no pen.",
    )  # fmt: skip
    model.extractions = [[extension]]
    hook(extractor, turn("I carry no pen any more.", 31))
    assert {*live_now} <= {one.id for one in store.memories()}
    assert len(live(store)) == 3
    assert not is_open(store), "another text would be no better"


def test_a_models_earlier_verdict_binds_until_a_batch_asks_again(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory
) -> None:
    with store.ledger.writing() as writer:
        keys = text_key(PEANUTS), text_key(OUTGROWN)
        writer.distinct.mark_all([(store.scope_of(peanuts), *keys, "two facts")], "model")
    model.extractions = [[naming(0)]]
    hook(extractor, turn("It is gone.", 30))
    assert sorted(live(store)) == [("Mia", OUTGROWN), ("Mia", PEANUTS)]
    assert (model.reread_merges, is_open(store)) == ([], True)


# --- what comes between the model's answer and the commit ----------------------------------------


class Interrupting(ScriptedModel):
    """Something happens while it reads the proposals."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__()
        self.happens = happens

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        reading = await super().reread(merges)
        if self.reread_merges:
            self.happens()
        return reading


def retire(store: MemoryStore, old: Memory, make_memory: MakeMemory) -> None:
    newer = store.add(make_memory("Mia is allergic to peanuts and to dust.", user="Mia"))
    both = (old, newer)
    store.apply(Decision(Action.REPLACE, "covered", both, (survivor_of(newer, both),)))


@pytest.mark.parametrize("what", ["changed", "retired", "forgotten"])
def test_a_named_memory_that_moved_after_it_was_read_is_a_conflict(
    store: MemoryStore, peanuts: Memory, make_memory: MakeMemory, what: str
) -> None:
    happens = {
        "changed": lambda: store.update(peanuts.id, "Mia is allergic to walnuts."),
        "retired": lambda: retire(store, peanuts, make_memory),
        "forgotten": lambda: store.forget(peanuts.id),
    }[what]
    model = Interrupting(happens)
    extractor = MemoryExtractor(store, MemoryDeduplicator(store, model), model)
    model.extractions = [[naming(0)]]
    hook(extractor, turn("It is gone.", 30))
    texts = {text for _, text in live(store)}
    assert OUTGROWN in texts
    assert BOTH not in texts
    assert len(model.shown) == 1
    assert [len(merges) for merges in model.reread_merges] == [1], "nothing is asked again"
    if what == "forgotten":
        assert texts == {OUTGROWN}
        assert "peanuts" not in str([one.reason for one in decided(store)])
    else:
        assert is_open(store)
        assert len(texts) == 2


def keep_apart(store: MemoryStore, a: Memory, b: Memory) -> None:
    pairs = ((a.id, b.id),)
    decision = Decision(Action.KEEP_BOTH, "two", (a, b), distinct=pairs, model=PERSON)
    store.apply(decision)


def test_named_memories_that_a_person_keeps_apart_meanwhile_are_not_joined(
    store: MemoryStore, peanuts: Memory, make_memory: MakeMemory
) -> None:
    walnuts = store.add(make_memory("Mia is allergic to walnuts.", user="Mia"))
    model = Interrupting(lambda: keep_apart(store, peanuts, walnuts))
    extractor = MemoryExtractor(store, MemoryDeduplicator(store, model), model)
    merged = "Mia was allergic to peanuts and walnuts, but has outgrown her allergy."
    model.extractions = [[naming(0, 1).model_copy(update={"merged": merged})]]
    hook(extractor, turn("They are gone.", 30))
    assert [text for _, text in live(store)] == [PEANUTS, walnuts.content, OUTGROWN]


@pytest.mark.parametrize("what", ["changed", "retired"])
def test_a_named_memory_that_moved_before_it_was_read_is_not_read(
    store: MemoryStore, model: ScriptedModel, peanuts: Memory, make_memory: MakeMemory, what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """It moves while the model extracts."""
    extract = model.extract

    async def slowly(*args: object, **kwargs: object) -> object:
        found = await extract(*args, **kwargs)  # type: ignore[arg-type]
        if what == "changed":
            store.update(peanuts.id, "Mia is allergic to walnuts.")
        else:
            retire(store, peanuts, make_memory)
        return found

    monkeypatch.setattr(model, "extract", slowly)
    extractor = MemoryExtractor(store, MemoryDeduplicator(store, model), model)
    model.extractions = [[naming(0)]]
    hook(extractor, turn("It is gone.", 30))
    assert OUTGROWN in {text for _, text in live(store)}
    assert (model.reread_merges, model.asked) == ([], [])
    assert is_open(store)


# --- candidates that wait in the ledger -----------------------------------------------------------


def waiting(store: MemoryStore) -> list[KeptCandidate]:
    with store.ledger.reading() as reader:
        every = [found for one in reader.turns.waiting() for found in one.candidates or ()]
    return [found for found in every if found is not None]


def leave_waiting(store: MemoryStore, *found: KeptCandidate, at: int = -1) -> None:
    """Turns of Mia and Ben wait, with these candidates at one of them."""
    said = [turn("It is gone.", 0), turn("Hers is gone.", 1, "Ben")]
    with store.ledger.writing() as writer:
        for one in said:
            writer.turns.keep(one, str(one.id))
        seqs = [one.seq for one in writer.turns.waiting()]
        for seq in seqs:
            writer.turns.keep_candidates(seq, found if seq == seqs[at] else [])


def kept(named: Memory, **fields: object) -> KeptCandidate:
    name = NamedMemory(id=named.id, text_key=text_key(named.content))
    given = {"content": OUTGROWN, "user": "Mia", "named": (name,), "merged": BOTH, **fields}
    return KeptCandidate.model_validate(given)


def test_forgetting_a_named_memory_drops_the_merged_text_of_waiting_candidates(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory
) -> None:
    leave_waiting(store, kept(peanuts), at=0)
    store.forget(peanuts.id)
    [left] = waiting(store)
    assert (left.content, left.named, left.merged) == (OUTGROWN, (), "")
    hook(extractor)
    assert (live(store), model.shown) == ([("Mia", OUTGROWN)], [])


def test_forgetting_what_became_of_a_named_memory_drops_it_too(
    store: MemoryStore, peanuts: Memory, make_memory: MakeMemory
) -> None:
    leave_waiting(store, kept(peanuts), at=0)
    retire(store, peanuts, make_memory)
    store.forget(next(store.memories()).id)
    assert [(one.named, one.merged) for one in waiting(store)] == [((), "")]


def test_forgetting_a_user_drops_what_others_candidates_took_from_their_turns(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    flat = store.add(make_memory("Ben rents a flat.", user="Ben"))
    both = kept(flat, content="Ben and Mia are well.", user="Ben", said_in=("0", "1"))
    own = kept(flat, content="Ben bought a flat.", user="Ben")
    leave_waiting(store, both, own)
    forget_user(store.ledger, store.index, "Mia", START)
    assert waiting(store) == [own]


def test_every_turn_that_a_memory_came_from_is_not_extracted_again_once_it_is_forgotten(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    came_from = {"conversation": "c", "turn": "2", "turns": ["0", "2"]}
    memory = store.add(make_memory(OUTGROWN, user="Mia", metadata=came_from))
    with store.ledger.writing() as writer:
        for n in range(3):
            writer.turns.keep(turn(f"And then, {n}.", n), str(n))
    store.forget(memory.id)
    with store.ledger.reading() as reader:
        assert [one.name for one in reader.turns.waiting()] == ["1"]


def test_candidates_that_an_older_version_left_waiting_are_stored(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, tmp_path: Path
) -> None:
    leave_waiting(store)
    told = {"content": OUTGROWN, "user": "Mia", "category": "fact", "intensity": 0.5}
    found = json.dumps([told | {"turn": 0, "asked": False}, told | {"turn": None, "asked": True}])
    with store.ledger.writing() as writer:
        first = writer.turns.waiting()[0].seq
    with sqlite3.connect(tmp_path / "data" / "ledger.db") as database:
        database.execute("UPDATE turns SET candidates = ? WHERE seq = ?", (found, first))
    hook(extractor)
    assert (live(store), model.shown) == ([("Mia", OUTGROWN)], [])


def test_a_window_that_is_extracted_again_replaces_nothing_twice(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """It ended after its first memory was stored: its candidates are not asked for again."""
    write = store.write

    def then_freed(*args: Any, **rest: Any) -> Any:
        done = write(*args, **rest)
        with store.ledger.writing() as writer:
            writer.leases.free_all()
        return done

    row = Candidate(content="Mia rows.", turns=(0,))
    model.extractions = [[naming(0), row]]
    with monkeypatch.context() as patched:
        patched.setattr(store, "write", then_freed)
        asyncio.run(extractor.keep([turn("It is gone, and I row.", 30)]))
        assert asyncio.run(extractor.extract_conversation("c")) is None
    assert live(store) == [("Mia", BOTH)]
    hook(extractor)
    assert live(store) == [("Mia", BOTH), ("Mia", "Mia rows.")]
    assert (len(model.shown), len(model.reread_merges), len(decided(store))) == (1, 1, 1)
    assert not is_open(store)


# --- silence --------------------------------------------------------------------------------------


@pytest.fixture
def silent(model: ScriptedModel, embedder: PlacedEmbedder) -> Candidate:
    """What is as near to a memory that is shown as what the judge is asked about, and no copy."""
    embedder.place(OUTGROWN, 0.92, PEANUTS)
    found = Candidate(content=OUTGROWN, turns=(0,))
    model.extractions = [[found]]
    return found


def test_silence_spares_the_question_and_is_no_verdict(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory,
    silent: Candidate,
) -> None:  # fmt: skip
    hook(extractor, turn("It is gone.", 30))
    assert live(store) == [("Mia", PEANUTS), ("Mia", silent.content)]
    assert (model.asked, is_open(store)) == ([], False)
    with store.ledger.reading() as reader:
        assert reader.distinct.all() == set()
        assert reader.readings.all(model.name, thorough=False) == set(), "pages read it"


def test_a_memory_that_was_not_shown_is_asked_about(
    store: MemoryStore,
    model: ScriptedModel,
    peanuts: Memory,
    make_memory: MakeMemory,
    silent: Candidate,
    embedder: PlacedEmbedder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It came while the model extracted."""
    newer = embedder.place("Mia no longer minds nuts.", 0.91, OUTGROWN)
    extract = model.extract

    async def slowly(*args: Any, **rest: Any) -> Extraction:
        store.add(make_memory(newer, user="Mia"))
        return await extract(*args, **rest)

    monkeypatch.setattr(model, "extract", slowly)
    model.answers = [Verdict()]
    hook(MemoryExtractor(store, MemoryDeduplicator(store, model), model), turn("It is gone.", 30))
    assert [[one.content for one in question.members] for question in model.asked] == [
        [newer, silent.content]
    ]


def test_a_rule_replaces_whatever_was_shown(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory
) -> None:
    model.extractions = [[Candidate(content=PEANUTS, turns=(0,))]]
    hook(extractor, turn("I must not eat peanuts.", 30))
    assert live(store) == [("Mia", PEANUTS)]


class Older(ScriptedModel):
    """Knows nothing of pages, of second readings, nor of naming what it was shown."""

    page_size = 0

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        return await LanguageModel.reread(self, merges)


def test_the_silence_of_a_model_that_does_not_read_spares_nothing(
    store: MemoryStore, embedder: PlacedEmbedder, peanuts: Memory
) -> None:
    model = Older(Verdict())
    embedder.place(OUTGROWN, 0.92, PEANUTS)
    model.extractions = [[Candidate.model_validate({"content": OUTGROWN, "turn": 0})]]
    hook(MemoryExtractor(store, MemoryDeduplicator(store, model), model), turn("It is gone.", 30))
    assert live(store) == [("Mia", PEANUTS), ("Mia", OUTGROWN)]
    assert len(model.asked) == 1


def test_a_model_without_a_second_reading_may_only_join_what_the_words_bear_out(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    store.add(make_memory("Mia has a boat.", user="Mia"))
    model = Older()
    whole = "Mia has a red boat."
    red = Candidate(content=whole, turns=(0,), replaces=(0,), merged=whole)
    model.extractions = [[red]]
    hook(MemoryExtractor(store, MemoryDeduplicator(store, model), model), turn("Red, it is.", 30))
    assert (live(store), model.reread_merges) == ([("Mia", whole)], [])
    lost = red.model_copy(
        update={"content": "Mia's boat is fast.", "merged": "Mia's boat is fast."}
    )
    model.extractions = [[lost]]
    hook(MemoryExtractor(store, MemoryDeduplicator(store, model), model), turn("It is fast.", 31))
    assert sorted(live(store)) == [("Mia", whole), ("Mia", lost.content)]


# --- over the wire --------------------------------------------------------------------------------


def answered(data: dict[str, Any]) -> str:
    """What a model says: the second time the turns say more of what is remembered."""
    if "already_remembered" not in data:
        return json.dumps({"memories": [{"content": PEANUTS, "user": "Mia", "turns": [1]}]})
    [[[number, user, _]]] = data["already_remembered"].values()
    told = {"content": OUTGROWN, "user": user, "turns": [1], "replaces": [number], "merged": BOTH}
    return json.dumps({"memories": [told]})


@pytest.mark.parametrize("structured", ["gemini", "schema", "json", "prompt"])
def test_numbers_over_the_wire_name_what_was_shown(tmp_path: Path, structured: str) -> None:
    memory = MemoryConfig(data_dir=str(tmp_path), extraction_wait=3_600.0)

    async def talk(config: Config) -> None:
        async with open_chat_memory(config) as chat:
            for n, text in enumerate(("I must not eat peanuts.", "My allergy is gone.")):
                await chat.hear(turn(text, n))
                result = await chat.settle()
                assert (result.extracted, result.problem) == (1, "")
        with open_store(config) as store:
            assert live(store) == [("Mia", BOTH)]

    server: GeminiServer | OpenAIServer
    if structured == "gemini":
        server = GeminiServer(lambda asked: answered(asked.data))
        llm: dict[str, Any] = {"provider": "gemini"}
    else:
        server = OpenAIServer(lambda asked: answered(asked.data))
        llm = {"provider": "openai", "model": "house-8b", "structured": structured}
    with server.running():
        config = Config(memory=memory, llm=LLMConfig(base_url=server.url, **llm))
        asyncio.run(talk(config.model_copy(update={"api_key": SecretStr("k")})))
    asked = [one for one in server.asked if "turns" in one.data]
    assert len(asked) == 2
    assert "replaces: The numbers of the remembered memories" in asked[0].system


def test_what_the_turns_end_is_superseded_by_what_they_say(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory
) -> None:
    model.extractions = [[Candidate(content=OUTGROWN, user="Mia", turns=(0,), ends=(0, 5))]]
    result = hook(extractor, turn("The doctor says the allergy is gone.", 30))
    assert live(store) == [("Mia", OUTGROWN)]
    assert [one.id for one in result.outcomes[0].retired] == [peanuts.id]
    decision = store.history(peanuts.id)[-1]
    assert (decision.action, decision.model) == (Action.SUPERSEDE, model.name)
    store.undo(decision.number)
    assert sorted(live(store)) == [("Mia", OUTGROWN), ("Mia", PEANUTS)]
