"""What a model has read on pages is kept by scope, text and model, and dropped with the text."""

from __future__ import annotations

from memory.ledger.ledger import Ledger
from memory.models import Scope
from memory.store import MemoryStore
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
