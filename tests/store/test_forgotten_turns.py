"""What waits to be extracted brings back nothing that was forgotten, and loses nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from memory import coverage
from memory.coverage import parse
from memory.decide import merged
from memory.deduplicator import MemoryDeduplicator
from memory.errors import LeaseLost
from memory.extractor import MemoryExtractor
from memory.ledger import Lease, Ledger
from memory.models import (
    Action,
    Candidate,
    Decision,
    KeptCandidate,
    Memory,
    NamedMemory,
    Outcome,
    Turn,
)
from memory.store.forgetting import forget_turns, forget_user
from memory.store.store import MemoryStore
from memory.text import text_key
from tests.conftest import MakeMemory
from tests.doubles import START, ScriptedModel
from tests.turns import hook, live, turn

VAN = "Mia drives a juniper99 van."


@pytest.fixture
def ledger(empty_url: str) -> Iterator[Ledger]:
    with Ledger.create(empty_url) as opened:
        yield opened


def keep(store: MemoryStore, *turns: Turn) -> None:
    with store.ledger.writing() as writer:
        for one in turns:
            writer.turns.keep(one, str(one.id))


def waiting(store: MemoryStore) -> list[str]:
    with store.ledger.reading() as reader:
        return [one.turn.text for one in reader.turns.waiting()]


def candidates(store: MemoryStore) -> list[tuple[KeptCandidate | None, ...] | None]:
    with store.ledger.reading() as reader:
        return [one.candidates for one in reader.turns.waiting()]


def test_a_waiting_turn_goes_if_no_rule_can_tell_whether_it_states_the_forgotten(
    store: MemoryStore, make_memory: MakeMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere a failing rule loses nothing; here the forgotten text would come back."""
    van = store.add(make_memory(VAN, user="Mia"))
    keep(store, turn("The juniper99 van is mine.", 0), turn("Faro is lovely.", 1))

    def broken(*_args: Any) -> Any:
        raise RecursionError

    monkeypatch.setattr(inspect.unwrap(coverage.parse), "__code__", broken.__code__)
    store.forget(van.id)
    assert waiting(store) == ["Faro is lovely."]


def forget(store: MemoryStore, memory: Memory) -> None:
    store.forget(memory.id)


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("I drive a juniper99 van.", []),
        ("I drive a juniper99 van. My sister moved.", ["My sister moved."]),
        ("Hi!\nI'm tired, and I drive a juniper99 van to work.\nBye!", ["Hi!\n\nBye!"]),
        ("My sister moved and I drive a juniper99 van.", []),
        ("I drive a juniper98 van.", ["I drive a juniper98 van."]),
        ("I want a juniper99 van.", ["I want a juniper99 van."]),
    ],
)
def test_a_waiting_turn_loses_what_states_a_forgotten_memory(
    store: MemoryStore, make_memory: MakeMemory, said: str, left: list[str]
) -> None:
    memory = store.add(make_memory(VAN, user="Mia"))
    keep(store, turn(said))
    forget(store, memory)
    assert waiting(store) == left


def test_a_turn_that_waited_for_the_model_does_not_bring_back_what_was_forgotten(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [[Candidate(content=VAN, turns=(0,))]]
    hook(extractor, turn("I drive a juniper99 van.", 0))
    keep(store, turn("I drive a juniper99 van.", 1, conversation="another"))
    forget(store, next(store.memories()))
    hook(extractor)
    assert live(store) == []
    assert len(model.shown) == 1, "there is nothing left to ask about"


def test_the_turn_that_a_memory_came_from_is_not_extracted_again_whatever_its_words(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    came_from = {"conversation": "c", "turn": "0"}
    memory = store.add(make_memory(VAN, user="Mia", metadata=came_from))
    keep(store, turn("As I said.", 0), turn("As I said.", 1), turn("As I said.", 0, "Jonas"))
    forget(store, memory)
    assert waiting(store) == ["As I said."]


def test_a_candidate_in_other_words_goes_with_the_memory_that_it_became(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    memory = store.add(make_memory("Mia's car is a van.", user="Mia", external_id="c/0/0"))
    keep(store, turn("I drive a van, and I sail.", 0))
    with store.ledger.writing() as writer:
        [one] = writer.turns.waiting()
        found = [KeptCandidate(content=text) for text in (VAN, "Mia sails.")]
        writer.turns.keep_candidates(one.seq, found)
    forget(store, memory)
    assert waiting(store) == [""]
    assert candidates(store) == [(None, KeptCandidate(content="Mia sails."))]


def test_a_turn_whose_candidates_are_kept_loses_the_sentence_that_states_a_memory(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    memory = store.add(make_memory(VAN, user="Mia"))
    keep(store, turn("I sail. I drive a juniper99 van.", 0), turn("I drive a juniper99 van.", 1))
    sails = KeptCandidate(content="Mia sails.")
    with store.ledger.writing() as writer:
        for one in writer.turns.waiting():
            writer.turns.keep_candidates(one.seq, [sails])
    forget(store, memory)
    assert waiting(store) == ["I sail.", ""]
    assert candidates(store) == [(sails,), (sails,)]


def test_a_merged_text_goes_where_the_undone_merge_that_it_names_stood_for_the_memory(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    van, sails = (
        store.add(make_memory(VAN, user="Mia")),
        store.add(make_memory("Mia sails.", user="Mia")),
    )
    one = merged("Mia drives a juniper99 van and sails.", (van, sails), store.new_id)
    decision = Decision(Action.MERGE, "told", (van, sails), (one,), model="m")
    done = store.apply(decision)
    assert isinstance(done, Outcome)
    keep(store, turn("Often.", 0))
    named = NamedMemory(id=one.memory.id, text_key=text_key(one.memory.content))
    found = KeptCandidate(content="Mia sails often.", named=(named,), merged=f"{VAN} She sails.")
    with store.ledger.writing() as writer:
        writer.turns.keep_candidates(writer.turns.waiting()[0].seq, [found])
    store.undo(done.number, keep_apart=False)
    forget(store, van)
    assert candidates(store) == [(KeptCandidate(content="Mia sails often."),)]


CELLO = "Mia plays the cello."
FOUND = ("Ben sold a boat.", "Mia sails.", CELLO)


@pytest.mark.parametrize("gone", [0, 1, 2], ids=["one", "both", "user"])
def test_forgetting_moves_no_later_candidate_to_an_earlier_name(
    store: MemoryStore, model: ScriptedModel, gone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies after two of three are stored; what is corrected then stays corrected."""
    users = ("Ben" if gone == 2 else "Mia", "Mia", "Mia")
    model.extractions = [
        [Candidate(content=c, user=u, turns=(0,)) for c, u in zip(FOUND, users, strict=True)]
    ]
    deduplicator = MemoryDeduplicator(store, model)
    write = store.write

    def killed(new: Sequence[Any], *how: Any, **more: Any) -> None:
        write(new[:2], *how, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        hook(MemoryExtractor(store, deduplicator, model), turn("As I said.", 0))
    monkeypatch.undo()
    first, second = store.memories()
    with store.ledger.writing() as writer:
        writer.leases.free_all()
    if gone != 1:
        store.update(second.id, "Mia rows.")
    if gone == 2:
        forget_user(store.ledger, store.index, "Ben", store.clock())
    else:
        forget(store, first)
    if gone == 1:
        forget(store, second)
    hook(MemoryExtractor(store, deduplicator, model))
    left = [text for _, text in live(store) if text != first.content]
    assert sorted(left) == sorted([CELLO] if gone == 1 else [CELLO, "Mia rows."])


@pytest.mark.parametrize(
    "said",
    ["a teapot and a steam engine", "Steam is not tea leaves.", "I like tea. My sister moved."],
)
@pytest.mark.parametrize("speaker", ["Mia", "Jonas", "bot"])
def test_a_short_memory_takes_no_part_of_a_word_or_of_another_sentence_with_it(
    store: MemoryStore, make_memory: MakeMemory, said: str, speaker: str
) -> None:
    memory = store.add(make_memory("tea", user="Mia"))
    keep(store, turn("Well.", 0), turn(said, 1, speaker, is_bot=speaker == "bot"))
    forget(store, memory)
    assert waiting(store) == ["Well.", said]


def test_another_users_turn_that_states_the_same_stays(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    of_mia, of_nobody = (
        store.add(make_memory(VAN, user="Mia")),
        store.add(make_memory("I sail. I row.")),
    )
    keep(store, turn("I drive a juniper99 van.", 0, "Jonas"), turn("I sail. I row.", 1, "Jonas"))
    forget(store, of_mia)
    forget(store, of_nobody)
    assert waiting(store) == ["I drive a juniper99 van.", "I sail. I row."]


def test_a_bots_words_about_a_recalled_memory_are_forgotten_with_it(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    memory = store.add(make_memory(VAN, user="Mia"))
    keep(
        store,
        turn("So you drive a van!", 0, "bot", is_bot=True, recalled_ids=(memory.id,)),
        turn("Mia drives a juniper99 van.", 1, "bot", is_bot=True),
        turn("And how is the weather?", 2, "bot", is_bot=True),
        turn("Fine.", 3),
    )
    forget(store, memory)
    assert waiting(store) == ["And how is the weather?", "Fine."]


def test_extracted_turns_in_which_the_bot_recalled_a_memory_keep_no_text(
    store: MemoryStore, extractor: MemoryExtractor, model: ScriptedModel, make_memory: MakeMemory
) -> None:
    memory = store.add(make_memory(VAN, user="Mia"))
    model.extractions = [[]]
    asked = turn("Who drives a van?", 0, "Ben", conversation="his")
    said = {"is_bot": True, "conversation": "his", "recalled_ids": (memory.id,)}
    hook(extractor, asked, turn("Mia, a juniper99 one!", 1, "bot", **said))
    with store.ledger.reading() as reader:
        assert len(reader.turns.extracted()) == 2
    forget(store, memory)
    with store.ledger.reading() as reader:
        assert reader.turns.extracted() == []


def test_only_who_extracts_a_conversation_of_that_user_starts_again(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    memory = store.add(make_memory(VAN, user="Mia"))
    keep(store, turn("Hello.", 0, conversation="hers"), turn("Hi.", 0, "Jonas", conversation="his"))
    hers, his = Lease("hers", "1"), Lease("his", "2")
    with store.ledger.writing() as writer:
        for lease in (hers, his):
            assert writer.leases.claim(lease, 60.0)
    forget(store, memory)
    with store.ledger.reading() as reader:
        reader.leases.check(his)
        with pytest.raises(LeaseLost):
            reader.leases.check(hers)


def test_the_context_of_other_users_conversations_stays(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor
) -> None:
    model.extractions = [[Candidate(content=VAN, turns=(0,))], [], [], []]
    hook(extractor, turn("I drive a juniper99 van.", 0, conversation="hers"))
    hook(extractor, turn("I row.", 0, "Jonas", conversation="his"))
    forget(store, next(store.memories()))
    hook(extractor, turn("Well.", 1, conversation="hers"))
    hook(extractor, turn("Often.", 1, "Jonas", conversation="his"))
    assert model.context[-2:] == [(), ("I row.",)]


def test_a_turn_told_again_after_forgetting_is_extracted(
    store: MemoryStore, model: ScriptedModel, extractor: MemoryExtractor, make_memory: MakeMemory
) -> None:
    forget(store, store.add(make_memory(VAN, user="Mia")))
    model.extractions = [[Candidate(content=VAN, turns=(0,))]]
    hook(extractor, turn("I drive a juniper99 van.", 0, at=START))
    assert live(store) == [("Mia", VAN)]


def test_turns_are_compared_outside_of_the_transaction_that_forgets(
    store: MemoryStore, make_memory: MakeMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write meanwhile; what they write is taken into account."""
    memory = store.add(make_memory(VAN, user="Mia"))
    keep(store, turn("I drive a juniper99 van. I sail.", 0))
    kept = list[str]()

    def writing_meanwhile(text: str) -> Any:
        if len(kept) < len(MEANWHILE):
            kept.append(MEANWHILE[len(kept)])
            keep(store, turn(kept[-1], 10 + len(kept)))
        return parse(text)

    monkeypatch.setattr(coverage, "parse", writing_meanwhile)
    forget(store, memory)
    assert kept == MEANWHILE
    assert waiting(store) == ["I sail.", "I row.", "I ski."]


MEANWHILE = [
    "I drive a red juniper99 van. I row.",
    "I drive a blue juniper99 van. I ski.",
]


def test_a_description_names_waiting_turns_of_one_user(store: MemoryStore) -> None:
    keep(store, turn("my pin is 4711", 0), turn("I sail.", 1), turn("my pin is 1", 2, "Jonas"))
    keep(store, turn("Your pin is 4711, then.", 3, "bot", is_bot=True))
    assert forget_turns(store.ledger, store.index, "Mia", "the moon") == 0
    assert forget_turns(store.ledger, store.index, "Mia", "Mia's pin") == 1
    assert waiting(store) == ["I sail.", "my pin is 1"]


def test_a_fact_found_in_a_named_turn_goes_with_it(store: MemoryStore) -> None:
    keep(store, turn("My pin has changed.", 0), turn("It is 4711 now.", 1))
    with store.ledger.writing() as writer:
        first, second = writer.turns.waiting()
        said_in = (first.name, second.name)
        pin, sails = (
            KeptCandidate(content=text, user="Mia", intensity=1.0, said_in=names)
            for text, names in (("Mia's pin is 4711.", said_in), ("Mia sails.", said_in[1:]))
        )
        writer.turns.keep_candidates(second.seq, [pin, sails])
    assert forget_turns(store.ledger, store.index, "Mia", "Mia's pin") == 1
    assert candidates(store) == [(None, sails)]
