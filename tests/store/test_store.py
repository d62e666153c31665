"""The store: find what is alike, add once, update without losing the old wording."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from memory.errors import (
    CannotUndo,
    EmbedderMismatch,
    InputError,
    MemoryNotFound,
    StillStatedBy,
)
from memory.ledger import Ledger
from memory.models import (
    Action,
    Decision,
    Memory,
    MemoryLink,
    Outcome,
    SearchResult,
    Survivor,
    Vectors,
)
from memory.store import Nearby
from memory.store.forgetting import Forgotten
from memory.store.store import MemoryStore
from memory.store.writing import Conflict
from memory.text import text_key
from memory.upkeep import reembed
from tests.conftest import MakeMemory
from tests.doubles import BrokenIndex, PlacedEmbedder, living_for, under


@pytest.fixture
def ledger(empty_url: str) -> Iterator[Ledger]:
    """Each test runs on SQLite and on PostgreSQL."""
    with Ledger.create(empty_url) as opened:
        yield opened


def contents(store: MemoryStore) -> list[str]:
    return [memory.content for memory in store.memories()]


def matches(store: MemoryStore, new: Memory, min_similarity: float) -> tuple[SearchResult, ...]:
    """What a new memory is to be decided against."""
    nearby = Nearby(5, min_similarity)
    [found] = store.write(store.prepare([new], nearby), lambda known: known.matches)
    assert isinstance(found, tuple)
    return found


def test_find_similar_includes_the_threshold_itself(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    embedder.place("Mia has a cat.")
    embedder.place("Mia owns a cat.", 0.90, "Mia has a cat.")
    embedder.place("Mia keeps a cat.", 0.89, "Mia has a cat.")
    store.add(make_memory("Mia has a cat."))
    found = store.find_similar("Mia owns a cat.")
    assert found is not None
    assert (found.similarity, found.distance) == (0.90, 0.10)
    assert store.find_similar("Mia keeps a cat.") is None
    assert store.find_similar("Mia keeps a cat.", threshold=0.89) is not None


def test_find_similar_sees_only_the_user_it_is_asked_about(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    store.add(make_memory("The car is red.", user="Mia"))
    assert store.find_similar("The car is red.") is not None, "without a user: all public ones"
    assert store.find_similar("The car is red.", user="Jonas") is None
    assert store.find_similar("The car is red.", user="Mia") is not None


def test_a_search_names_whose_memories_it_wants(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    mia = store.add(make_memory("Mia has a cat.", user="Mia"))
    jonas = store.add(make_memory("Jonas has a cat.", user="Jonas"))
    assert [hit.memory.id for hit in store.search("a cat", user=" Mia")] == [mia.id]
    everyones = {hit.memory.id for hit in store.search("a cat", everyone=True)}
    assert everyones == {mia.id, jonas.id}
    for whose in ({}, {"user": None}, {"user": "Mia", "everyone": True}):
        with pytest.raises(InputError, match="everyone=True"):
            store.search("a cat", **whose)


def test_the_same_memory_twice_is_stored_once(store: MemoryStore, make_memory: MakeMemory) -> None:
    memory = make_memory("Mia has a cat.")
    assert store.add(memory) == store.add(memory) == memory
    assert store.add_batch([memory, memory]) == 0
    assert contents(store) == ["Mia has a cat."]


def test_no_text_is_embedded_twice(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    store.add_batch(
        [make_memory("Mia has a cat."), make_memory("mia has a  cat"), make_memory("Jonas sails.")]
    )
    store.add(make_memory("Mia has a cat!"))
    assert embedder.embedded == ["mia has a cat", "jonas sails"]


def test_update_keeps_the_old_wording_as_a_retired_version(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    memory = store.add(make_memory("Mia has a cat.", tags=("pet",)))
    store.update(memory.id, "Mia has two cats.")
    updated = store.get(memory.id)
    assert updated == memory.model_copy(update={"content": "Mia has two cats."})
    with store.ledger.reading() as reader:
        old = [row for row in reader.memories.all() if not row.live]
    assert [(row.memory.content, row.successor_id) for row in old] == [
        ("Mia has a cat.", memory.id)
    ]
    assert store.search("Mia has two cats.", everyone=True)[0].similarity == 1.0


@pytest.mark.parametrize("text", ["", "  ", "x" * 200_000])
def test_a_text_that_is_no_memory_is_refused_and_nothing_changes(
    store: MemoryStore, make_memory: MakeMemory, text: str
) -> None:
    memory = store.add(make_memory("Mia has a cat."))
    with pytest.raises(InputError):
        store.update(memory.id, text)
    assert store.get(memory.id) == memory
    assert store.find_similar("  ") is None


def test_updating_what_is_not_there_is_an_error(store: MemoryStore) -> None:
    with pytest.raises(MemoryNotFound):
        store.update("mem_000000000000", "anything")


def test_a_broken_index_is_said_once_and_exact_search_goes_on(
    ledger: Ledger,
    embedder: PlacedEmbedder,
    make_memory: MakeMemory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    index = BrokenIndex()
    embedder.place("Mia has a cat.")
    embedder.place("Mia owns a cat.", 0.95, "Mia has a cat.")
    with MemoryStore(ledger, embedder, lambda _: index, vectors_mb=0) as store:
        store.add(make_memory("Mia has a cat."))
        with caplog.at_level(logging.WARNING):
            assert store.find_similar("Mia owns a cat.") is not None
            assert store.find_similar("Mia owns a cat.") is not None
    assert index.asked == 1
    assert caplog.text.count("similarity query failed") == 1


def test_another_embedder_is_refused_until_all_is_embedded_again(
    tmp_path: Path, make_memory: MakeMemory
) -> None:
    class Other(PlacedEmbedder):
        fingerprint = "placed-other"
        dim = 32

    url = f"sqlite:///{tmp_path / 'l.db'}"
    with MemoryStore(Ledger.create(url), PlacedEmbedder()) as store:
        store.add(make_memory("Mia has a cat."))
        store.add(make_memory("Jonas sails."))
        store.update(next(store.memories()).id, "Mia has two cats.")
    with Ledger.create(url) as ledger:
        stranger = MemoryStore(ledger, Other())
        with (
            pytest.raises(EmbedderMismatch, match="memory-dedup store reembed"),
            ledger.reading() as reader,
        ):
            stranger.embeddings.check(reader)
        with pytest.raises(EmbedderMismatch):
            stranger.add(make_memory("Aiko draws."))
        assert reembed(ledger, Other()) == 3
        with MemoryStore(ledger, Other()) as store:
            assert store.find_similar("Jonas sails.") is not None


def test_a_store_that_was_embedded_again_under_it_mixes_nothing(
    store: MemoryStore, ledger: Ledger, make_memory: MakeMemory
) -> None:
    class Wide(PlacedEmbedder):
        fingerprint = "placed-wide"
        dim = 128

    store.add(make_memory("Mia has a cat."))
    store.search("a cat", everyone=True)
    reembed(ledger, Wide())
    for call in (
        lambda: store.add(make_memory("Jonas sails.")),
        lambda: store.search("a cat", everyone=True),
    ):
        with pytest.raises(EmbedderMismatch):
            call()
    fresh = MemoryStore(ledger, Wide())
    assert [hit.memory.content for hit in fresh.search("Mia has a cat.", everyone=True)] == [
        "Mia has a cat."
    ]


def test_a_memory_forgotten_during_reembed_leaves_no_vector(
    store: MemoryStore, ledger: Ledger, make_memory: MakeMemory
) -> None:
    class Slow(PlacedEmbedder):
        fingerprint = "placed-slow"

        def embed(self, texts: Sequence[str]) -> Vectors:
            store.forget(secret.id)
            return super().embed(texts)

    secret = store.add(make_memory("Mia has a secret."))
    store.add(make_memory("Jonas sails."))
    reembed(ledger, Slow())
    with ledger.reading() as reader:
        assert reader.vectors.of([text_key(secret.content)]) == {}
        assert len(reader.vectors.of([text_key("Jonas sails.")])) == 1


def test_without_a_vector_a_memory_is_kept_and_embedded_later(
    store: MemoryStore,
    embedder: PlacedEmbedder,
    make_memory: MakeMemory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    embedder.broken = True
    with caplog.at_level(logging.WARNING):
        store.add(make_memory("Mia has a cat."))
    assert "no vectors for 1 memories" in caplog.text
    embedder.broken = False
    assert contents(store) == ["Mia has a cat."]
    assert store.find_similar("Mia has a cat!") is not None, "the same text needs no vector"
    assert store.search("Mia has a cat.", everyone=True) == []
    assert store.embeddings.make_missing() == 1
    assert len(store.search("Mia has a cat.", everyone=True)) == 1


# --- applying ---------------------------------------------------------------------------------


def revision(store: MemoryStore) -> int:
    with store.ledger.reading() as reader:
        return reader.revision()


def replacement(old: Memory, new: Memory) -> Decision:
    return Decision(Action.REPLACE, "test", (old, new), (Survivor(new, (old.id,)),))


def test_apply_does_nothing_where_a_member_changed(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    old, new = (
        store.add(make_memory("Mia has a cat.")),
        store.add(make_memory("Mia has a black cat.")),
    )
    since = revision(store)
    store.update(old.id, "Mia has a dog.")
    assert store.apply(under(replacement(old, new), since)) == Conflict(f"{old.id} changed")
    assert contents(store) == ["Mia has a dog.", "Mia has a black cat."]


def test_apply_does_nothing_where_something_as_near_came_meanwhile(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    embedder.place("Mia has a cat.")
    embedder.place("Mia owns a cat.", 0.95, "Mia has a cat.")
    since = revision(store)
    [new] = store.embeddings.embed([make_memory("Mia owns a cat.")])
    rival = store.add(make_memory("Mia has a cat."))
    decision = Decision(Action.ADD, "nothing similar", (new.memory,))
    came = store.apply(under(decision, since, min_similarity=0.95, arrival=new))
    assert came == Conflict(f"{rival.id} came")
    assert contents(store) == ["Mia has a cat."]
    seen = replace(decision, candidates=((rival.id, 0.95),))
    assert isinstance(store.apply(under(seen, since, min_similarity=0.9, arrival=new)), Outcome)
    assert len(contents(store)) == 2


def test_links_of_the_retired_lead_to_whoever_stands_for_them(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    friend = store.add(make_memory("Mia feeds the cat."))
    link = MemoryLink(target_id=friend.id, link_type="leads_to", confidence=0.8)
    old, new = (
        store.add(make_memory("Mia has a cat.", linked_ids=(link,))),
        make_memory("Mia has a black."),
    )
    heir = new.model_copy(update={"linked_ids": old.linked_ids})
    decision = Decision(Action.REPLACE, "test", (old, new), (Survivor(heir, (old.id,)),))
    [arrival] = store.embeddings.embed([new])
    done = store.apply(under(decision, revision(store), arrival=arrival))
    assert isinstance(done, Outcome)
    alive = store.get(friend.id)
    assert alive is not None
    [back] = alive.linked_ids
    assert (back.target_id, back.link_type, back.confidence) == (new.id, "caused_by", 0.8)
    assert living_for(store, old) == store.get(new.id)


# --- taking back --------------------------------------------------------------------------------


def everything(store: MemoryStore) -> list[Memory]:
    return sorted(store.memories(), key=lambda memory: memory.id)


@pytest.mark.parametrize("synthesised", [False, True])
def test_undo_restores_text_values_links_and_vectors(
    store: MemoryStore, make_memory: MakeMemory, synthesised: bool
) -> None:
    friend = store.add(make_memory("Mia feeds the cat."))
    link = MemoryLink(target_id=friend.id, link_type="leads_to", confidence=0.8)
    old = store.add(make_memory("Mia has a cat.", linked_ids=(link,), intensity=0.9, tags=("pet",)))
    new = store.add(make_memory("Mia has a black cat.", metadata={"n": 1}))
    before = everything(store)
    heir = new.model_copy(update={"intensity": 0.9})
    survivor = Survivor(heir, (old.id,))
    if synthesised:
        joined = heir.model_copy(
            update={"id": store.new_id(), "content": "Mia has a black, a cat."}
        )
        survivor = Survivor(joined, (old.id, new.id))
    decision = Decision(Action.MERGE, "test", (old, new), (survivor,))
    assert isinstance(store.apply(under(decision, revision(store))), Outcome)
    assert everything(store) != before
    number = store.history(old.id)[-1].number
    store.undo(number)
    assert everything(store) == before
    assert store.search("Mia has a cat.", everyone=True)[0].memory.id == old.id
    new_again = new.model_copy(update={"id": store.new_id(), "timestamp": store.clock()})
    [nearest, *_] = matches(store, new_again, 0.0)
    assert nearest.memory.id != old.id, "kept apart by a person"
    with pytest.raises(CannotUndo, match="undone already"):
        store.undo(number)


def test_undo_of_a_replacement_at_write_time_brings_both_back_as_told(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    old = store.add(make_memory("Mia has a cat.", intensity=0.9))
    [new] = store.embeddings.embed([make_memory("Mia has a black cat.", intensity=0.1)])
    heir = new.memory.model_copy(update={"intensity": 0.9})
    decision = Decision(Action.REPLACE, "test", (old, new.memory), (Survivor(heir, (old.id,)),))
    assert isinstance(store.apply(under(decision, revision(store), arrival=new)), Outcome)
    store.undo(store.history()[-1].number)
    assert everything(store) == sorted([old, new.memory], key=lambda memory: memory.id)


def test_undo_of_an_update_brings_the_old_words_back_and_leaves_no_version_behind(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    memory = store.add(make_memory("Mia sails."))
    store.update(memory.id, "Mia dives.")
    [update] = [one.number for one in store.history() if one.action is Action.UPDATE]
    store.undo(update)
    assert everything(store) == [memory]
    assert store.counts().retired == 0


def test_a_link_that_came_after_a_decision_outlives_its_undo(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    """With whom it led to; where that one goes, with the newest member."""
    old, new = store.add(make_memory("Mia has a cat.")), store.add(make_memory("Mia has a black."))
    joined = new.model_copy(update={"id": store.new_id(), "content": "Mia has a black, a cat."})
    merge = Decision(Action.MERGE, "test", (old, new), (Survivor(joined, (old.id, new.id)),))
    assert isinstance(store.apply(under(merge, revision(store))), Outcome)
    link = MemoryLink(target_id=joined.id, link_type="caused_by", note="later", confidence=0.9)
    other = store.add(make_memory("Mia sneezes.", linked_ids=(link,)))
    store.undo(store.history()[-1].number)
    found = {memory.id: memory.linked_ids for memory in everything(store)}
    moved = link.model_copy(update={"target_id": new.id})
    back = link.model_copy(update={"target_id": other.id, "link_type": "leads_to"})
    assert found == {old.id: (), new.id: (back,), other.id: (moved,)}


@pytest.mark.parametrize("synthesised", [False, True])
def test_a_link_that_was_labelled_after_a_decision_keeps_the_label_after_its_undo(
    store: MemoryStore, make_memory: MakeMemory, synthesised: bool
) -> None:
    """Of two links that the decision joined, it is the one that it kept; others get their own."""
    texts = "Mia sneezes.", "Mia sews.", "Mia sings."
    sneezes, sews, sings = (
        MemoryLink(target_id=store.add(make_memory(text)).id, note="first") for text in texts
    )
    own = sews.model_copy(update={"note": "own"})
    old = store.add(make_memory("Mia has a cat.", linked_ids=(sneezes, sews, sings)))
    new = store.add(make_memory("Mia has a black.", linked_ids=(own,)))
    made = new.model_copy(update={"id": store.new_id()} if synthesised else {})
    retired = (old, new) if synthesised else (old,)
    survivor = Survivor(made, tuple(one.id for one in retired))
    merge = Decision(Action.MERGE, "test", (old, new), (survivor,))
    assert isinstance(store.apply(under(merge, revision(store))), Outcome)
    later = {"link_type": "caused_by", "note": "later", "confidence": 0.9}
    with store.ledger.writing() as writer:
        writer.links.put([(made.id, one.model_copy(update=later)) for one in (sneezes, sews)])
    store.undo(store.history()[-1].number)
    found = {memory.id: set(memory.linked_ids) for memory in everything(store)}
    labelled = [sneezes.model_copy(update=later), sings]
    labelled.append(sews.model_copy(update=later) if synthesised else sews)
    assert found[old.id] == set(labelled)
    assert found[new.id] == {own if synthesised else own.model_copy(update=later)}


def test_the_same_text_is_never_added_twice_whatever_was_decided(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    """Not even by a decision that could not look for neighbours."""
    first = store.add(make_memory("Mia sails.", user="Mia"))
    [again] = store.embeddings.embed([make_memory("mia sails!", user="Mia")])
    addition = Decision(Action.ADD, "the search failed", (again.memory,), pending=True)
    repeated = store.apply(under(addition, 0, min_similarity=1.0, arrival=again))
    assert repeated == Conflict(f"{first.id} says the same")
    assert store.counts().live == 1


def test_undo_is_refused_where_later_decisions_build_on_it(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    a, b, c = (
        store.add(make_memory(text)) for text in ("Mia sails.", "Mia sails a lot.", "Mia sails it.")
    )
    store.apply(under(replacement(a, b), revision(store)))
    store.apply(under(replacement(b, c), revision(store)))
    first, second = (one.number for one in store.history())
    with pytest.raises(CannotUndo, match=rf"decisions \[{second}\] build on it; undo those first"):
        store.undo(first)
    store.undo(second)
    store.undo(first)
    assert everything(store) == sorted([a, b, c], key=lambda memory: memory.id)


def test_there_is_nothing_to_undo_in_an_addition(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    memory = store.add(make_memory("Mia sails."))
    [added] = store.history(memory.id)
    for number in (added.number, 999):
        with pytest.raises(CannotUndo):
            store.undo(number)


def test_a_forgotten_memory_does_not_come_back(store: MemoryStore, make_memory: MakeMemory) -> None:
    a, b = store.add(make_memory("Mia sails.")), store.add(make_memory("Mia sails a lot."))
    store.apply(under(replacement(a, b), revision(store)))
    number = store.history()[-1].number
    with pytest.raises(StillStatedBy, match=b.id):
        store.forget(a.id)
    assert store.forget(b.id) == Forgotten(b, erased=True, origins=(a,))
    with pytest.raises(CannotUndo, match="forgotten"):
        store.undo(number)
    assert everything(store) == []


def test_an_id_that_is_taken_is_stored_once_under_another(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    first = store.add(make_memory("Mia sails."))
    second = make_memory("Mia dives.").model_copy(update={"id": first.id})
    added = [store.add(second) for _ in range(3)]
    assert {memory.content for memory in added} == {"Mia dives."}
    assert len({memory.id for memory in added} | {first.id}) == 2
    assert contents(store) == ["Mia sails.", "Mia dives."]


def test_a_memory_that_undo_removes_is_no_neighbour_any_more(
    store: MemoryStore, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    embedder.place("Mia knits.")
    near = store.add(make_memory(embedder.place("Mia knits socks.", 0.93, "Mia knits.")))
    for number in range(8):
        pair = [
            store.add(make_memory(embedder.place(f"Mia knits {what} {number}.", 0.5, "Mia knits.")))
            for what in ("hat", "scarf")
        ]
        text = embedder.place(f"Mia knits both {number}.", 0.95, "Mia knits.")
        joined = pair[1].model_copy(update={"id": store.new_id(), "content": text})
        survivor = Survivor(joined, (pair[0].id, pair[1].id))
        merge = Decision(Action.MERGE, "test", tuple(pair), (survivor,))
        assert isinstance(store.apply(under(merge, revision(store))), Outcome)
        store.search("Mia knits.", everyone=True)
        store.undo(store.history()[-1].number)
    assert [hit.memory.id for hit in matches(store, make_memory("Mia knits."), 0.9)] == [near.id]
    assert len(store.search("Mia knits.", 5, everyone=True)) == 5


def test_more_threads_than_connections_may_search_at_once(
    store: MemoryStore, make_memory: MakeMemory
) -> None:
    store.add_batch([make_memory(f"Mia knows word {n}.") for n in range(20)])
    with ThreadPoolExecutor(40) as pool:
        found = list(pool.map(lambda n: store.find_similar(f"Mia knows word {n}.", 0.9), range(40)))
    assert sum(hit is not None for hit in found) == 20
