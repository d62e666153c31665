"""What a model has read on pages is kept by scope, text and model, and dropped with the text."""

from __future__ import annotations

from datetime import timedelta

import numpy as np

from memory.deduplicator import unread_snapshot
from memory.ledger.ledger import Ledger
from memory.models import Memory, Scope
from memory.store import Asker, MemoryStore
from memory.text import text_key
from tests.doubles import PlacedEmbedder


def test_a_thorough_reading_stays_and_belongs_to_one_model(empty_url: str) -> None:
    with MemoryStore(Ledger.create(empty_url), PlacedEmbedder()) as store:
        ledger, texts = store.ledger, ("Mia sails.", "Mia rows.")
        store.add_batch([store.new_memory(text) for text in texts])
        a, b = map(text_key, texts)
        s, t = (Scope(values).key for values in ((), (("user", None),)))
        with ledger.writing() as writer:
            writer.readings.record([(s, a), (s, b)], "reader", thorough=False)
            writer.readings.record([(s, b), (t, a)], "reader", thorough=True)
            writer.readings.record([(s, b)], "reader", thorough=False)
        with ledger.reading() as reader:
            assert reader.readings.all("reader") == {(s, a), (s, b), (t, a)}
            assert reader.readings.all("reader", thorough=True) == {(s, b), (t, a)}
            assert reader.readings.all("another") == set()
        with ledger.writing() as writer:
            writer.readings.drop({a})
            assert writer.readings.all("reader") == {(s, b)}
            writer.readings.drop_all("reader")
            assert writer.readings.all("reader") == set()


def test_forgetting_a_text_drops_that_it_was_read(empty_url: str) -> None:
    with MemoryStore(Ledger.create(empty_url), PlacedEmbedder()) as store:
        kept, gone = (store.new_memory(f"Mia owns boat {n}.", user="Mia") for n in range(2))
        store.add_batch([kept, gone])
        with store.ledger.writing() as writer:
            keys = [row.text_key for row in writer.memories.live()]
            scope = Scope.of(kept, store.scope_fields).key
            assert writer.readings.count_unread("reader", private=False) == 2
            writer.readings.record([(scope, key) for key in keys], "reader", thorough=False)
            assert writer.readings.count_unread("reader", private=False) == 0
        store.forget(gone.id)
        with store.ledger.reading() as reader:
            assert reader.readings.all("reader") == {(scope, keys[0])}
        with store.ledger.writing() as writer:  # its page was out meanwhile
            writer.readings.record([(scope, key) for key in keys], "reader", thorough=False)
            assert writer.readings.all("reader") == {(scope, keys[0])}


def test_a_text_that_only_another_user_still_has_was_never_read(empty_url: str) -> None:
    with MemoryStore(Ledger.create(empty_url), PlacedEmbedder()) as store:
        gone, kept = (store.new_memory("I own a boat.", user=user) for user in ("Mia", "Jonas"))
        store.add_batch([gone, kept])
        texts = [(store.scope_of(one).key, text_key(one.content)) for one in (gone, kept)]
        store.forget(gone.id)
        with store.ledger.writing() as writer:  # its page was out meanwhile
            writer.readings.record(texts, "reader", thorough=False)
            assert writer.readings.all("reader") == {texts[1]}


def test_the_unread_memories_of_a_scope_come_last_first_and_by_the_dates_they_mean(
    empty_url: str,
) -> None:
    fields = ("user", "team")
    with MemoryStore(Ledger.create(empty_url), PlacedEmbedder(), scope_fields=fields) as store:
        told = [("sails", "a", 0), ("rows tomorrow", "a", 0), ("runs", "b", 0)]
        at = store.now()
        stored = [
            Memory(
                id=store.new_id(),
                content=f"Mia {what}.",
                user="Mia",
                metadata={"team": team},
                timestamp=at + timedelta(days=days),
            )
            for what, team, days in [*told, ("rows tomorrow", "a", 9)]
        ]
        store.add_batch(stored)
        scope = store.scope_of(stored[0])
        with store.ledger.writing() as writer:
            found = writer.readings.unread("reader", scope)
            assert [*found] == [stored[3].id, stored[1].id, stored[0].id]
            writer.readings.record([(scope.key, found[stored[3].id])], "reader", thorough=False)
            assert [*writer.readings.unread("reader", scope)] == [stored[1].id, stored[0].id]
            assert len(writer.readings.unread("another", scope)) == 3


def test_what_is_read_of_a_scope_is_what_is_unread_and_near_it(empty_url: str) -> None:
    embedder, model = PlacedEmbedder(), Asker("reader")
    texts = [
        embedder.place_at(f"Mia owns boat {n}.", [np.cos(n / 400), np.sin(n / 400)])
        for n in range(400)
    ]
    with MemoryStore(Ledger.create(empty_url), embedder) as store:
        store.add_batch([store.new_memory(text, user="Mia") for text in texts])
        scope = store.scope_of(next(store.memories()))
        snapshot, later = unread_snapshot(store, model, scope)
        assert (len(snapshot.rows), len(later)) == (48 + 5, 400 - 48)
        with store.ledger.writing() as writer:
            keys = writer.readings.unread(model.model, scope).values()
            known = [(scope.key, key) for key in [*keys][1:]]
            writer.readings.record(known, model.model, thorough=False)
        snapshot, _ = unread_snapshot(store, model, scope)
        assert [row.memory.content for row in snapshot.rows] == [
            f"Mia owns boat {n}." for n in range(389, 400)
        ]
        assert {(scope.key, row.dated_key) for row in snapshot.rows} - snapshot.read == {
            (scope.key, snapshot.rows[-1].dated_key)
        }
