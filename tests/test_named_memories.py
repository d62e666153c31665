"""A candidate may name memories that it repeats, updates or extends: one text replaces them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from memory.decide import survive
from memory.deduplicator import MemoryDeduplicator
from memory.errors import ModelUnavailable
from memory.extractor import MemoryExtractor
from memory.ledger import DecisionRecord, Ledger
from memory.models import (
    Action,
    Candidate,
    Decision,
    Memory,
    MergeReading,
    ProposedMerge,
    Rereading,
)
from memory.store import Afterwards, Anyway, MemoryStore
from tests.conftest import Tell
from tests.doubles import PlacedEmbedder, ScriptedModel
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


@pytest.fixture
def peanuts(store: MemoryStore, tell: Tell) -> Memory:
    return store.add(tell(PEANUTS, user="Mia"))


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
    store.undo(decision.number, Afterwards.OPEN)
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
    assert model.asked == [], "no second answer is asked for at write time"


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
    assert (result.pending, is_open(store)) == (0, True)
    assert "DEDUP_FAIL: LLM merge failed, falling back to keep both (503)" in caplog.text
    assert "DEDUP_REFUSED" not in caplog.text


def test_one_reading_checks_all_that_a_window_proposes(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, tell: Tell
) -> None:
    """Also for two users: both spoke here, and the model was shown the memories of both."""
    store.add(tell(PEANUTS, user="Mia"))
    store.add(tell("Ben rents a flat in Faro.", user="Ben"))
    flat = Candidate(
        content="Ben bought a flat.", user="Ben", turns=(1,), replaces=(1,),
        merged="Ben, who rented a flat in Faro, bought a flat.",
    )  # fmt: skip
    model.extractions = [[naming(0), flat]]
    hook(extractor, turn("It is gone.", 30), turn("I bought a flat.", 31, "Ben"))
    assert live(store) == [("Mia", BOTH), ("Ben", flat.merged)]
    assert [len(merges) for merges in model.reread_merges] == [2]


# --- who may be named -----------------------------------------------------------------------------


def test_nobodys_words_retire_somebody_elses_memory(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory,
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


def test_a_candidate_of_two_speakers_turns_is_of_the_one_whom_it_is_about(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, peanuts: Memory
) -> None:
    model.extractions = [[naming(0, turns=(1, 0))]]
    hook(extractor, turn("It is gone.", 30), turn("Her allergy is gone.", 31, "Ben"))
    assert live(store) == [("Mia", BOTH)]
    [memory] = store.memories()
    assert memory.metadata == {"conversation": "c", "turn": "30", "turns": ["30", "31"]}


def test_at_most_five_are_replaced(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, tell: Tell
) -> None:
    pets = [store.add(tell(f"Mia has a cat called Pip{n}.", user="Mia")) for n in range(7)]
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
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, tell: Tell
) -> None:
    store.add(tell(PEANUTS, user="Mia", is_private=True))
    model.extractions = [[naming(0)]]
    hook(extractor, turn("It is gone.", 30))
    assert model.remembered == [()]
    assert sorted(live(store)) == [("Mia", OUTGROWN), ("Mia", PEANUTS)]


def test_only_memories_of_the_same_scope_are_joined(
    ledger: Ledger, embedder: PlacedEmbedder, model: ScriptedModel, tell: Tell
) -> None:
    with MemoryStore(ledger, embedder, scope_fields=("user", "category")) as store:
        extractor = MemoryExtractor(store, MemoryDeduplicator(store, model), model)
        store.add(tell(PEANUTS, user="Mia", category="health"))
        model.extractions = [[naming(0)]]
        hook(extractor, turn("It is gone.", 30))
        assert sorted(live(store)) == [("Mia", OUTGROWN), ("Mia", PEANUTS)]


def test_of_two_that_name_the_same_memory_the_first_takes_it(
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


def retire(store: MemoryStore, old: Memory, tell: Tell) -> None:
    newer = store.add(tell("Mia is allergic to peanuts and to dust.", user="Mia"))
    both = (old, newer)
    store.apply(Decision(Action.REPLACE, "covered", both, (survive(newer, both),)), Anyway())


@pytest.mark.parametrize("what", ["changed", "retired", "forgotten"])
def test_a_named_memory_that_moved_after_it_was_read_is_a_conflict(
    store: MemoryStore, peanuts: Memory, tell: Tell, what: str
) -> None:
    happens = {
        "changed": lambda: store.update(peanuts.id, "Mia is allergic to walnuts."),
        "retired": lambda: retire(store, peanuts, tell),
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


@pytest.mark.parametrize("what", ["changed", "retired"])
def test_a_named_memory_that_moved_before_it_was_read_is_not_read(
    store: MemoryStore, model: ScriptedModel, peanuts: Memory, tell: Tell, what: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """It moves while the model extracts."""
    extract = model.extract

    async def slowly(*args: object, **kwargs: object) -> object:
        found = await extract(*args, **kwargs)  # type: ignore[arg-type]
        if what == "changed":
            store.update(peanuts.id, "Mia is allergic to walnuts.")
        else:
            retire(store, peanuts, tell)
        return found

    monkeypatch.setattr(model, "extract", slowly)
    extractor = MemoryExtractor(store, MemoryDeduplicator(store, model), model)
    model.extractions = [[naming(0)]]
    hook(extractor, turn("It is gone.", 30))
    assert OUTGROWN in {text for _, text in live(store)}
    assert (model.reread_merges, model.asked) == ([], [])
    assert is_open(store)
