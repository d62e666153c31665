"""What people answered in reviews fits the scale, without asking again."""

from __future__ import annotations

from memory.models import Memory, Rules
from memory.store import MemoryStore
from memory.upkeep.answers import Answered, AnsweredMember, Answers, Given, ReviewAnswer
from memory.upkeep.calibration import Answer, reviewed
from memory.upkeep.cards import card_key, content_hash
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder


def pair(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory, n: int
) -> list[Memory]:
    a = embedder.place(f"Mia has fed {n} cats.")
    b = embedder.place(f"Mia has gladly fed {n} cats.", 0.96, a)
    return [store.add(make_memory(text, user=f"Mia {n}")) for text in (a, b)]


def given(
    answers: Answers, members: list[Memory], answer: ReviewAnswer, text: str | None = None
) -> None:
    shown = [(one.id, content_hash(one.content)) for one in members]
    told = tuple(AnsweredMember(id=name, hash=text) for name, text in shown)
    said = Answered(key=card_key(shown), members=told, answer=answer, text=text, insist=True)
    assert isinstance(answers.give(said), Given)


def test_every_kind_of_answer_counts_as_long_as_it_stands(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    answers = Answers(store, Rules(), "run_of_a_review")
    families = [pair(store, embedder, make_memory, n) for n in range(5)]
    given(answers, families[0], ReviewAnswer.APPLY)
    given(answers, families[1], ReviewAnswer.APPLY, "Mia has fed 1 cats, at home and away.")
    given(answers, families[2], ReviewAnswer.KEEP_ALL)
    given(answers, families[3], ReviewAnswer.LATER)
    given(answers, families[4], ReviewAnswer.KEEP_ALL)
    store.undo(store.history()[-1].number, keep_apart=False)
    pairs, said = reviewed(store)
    assert sorted(said.values()) == [Answer.APART, Answer.MERGE, Answer.SAME]
    assert {round(one.cosine, 2) for one in pairs} == {0.96}


def test_a_forgotten_memory_is_no_labelled_pair(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    members = pair(store, embedder, make_memory, 1)
    given(Answers(store, Rules(), "run_of_a_review"), members, ReviewAnswer.KEEP_ALL)
    assert len(reviewed(store)[0]) == 1
    store.forget(members[0].id)
    assert reviewed(store)[0] == []
