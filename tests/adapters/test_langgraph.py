"""LangGraph's store: what is put is kept as it was put; what resembles each other is kept once."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.config import MemoryConfig
from memory.deduplicator import MemoryDeduplicator
from memory.ledger import Ledger
from memory.models import MergeGroup, NamedUpdate, Question, Verdict
from memory.store import MemoryStore
from memory.text import normalise
from tests.doubles import START, PlacedEmbedder, ScriptedModel, ticking

pytest.importorskip("langgraph.store.base")
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
    TTLConfig,
)
from langgraph.store.memory import InMemoryStore

from memory.adapters.langgraph import DedupStore, open_dedup_store

pytestmark = pytest.mark.framework

MIA, TOM = ("memories", "mia"), ("memories", "tom")
FILES = ("files", "mia")
CAT, CAT_AGAIN = "Mia has a cat.", "mia has a cat"
BLACK = "Mia has a black cat."
PORTO, LISBON = "Mia lives in Porto.", "Mia lives in Lisbon."
TEA = "Mia drinks tea."
POOL = (CAT, CAT_AGAIN, BLACK, PORTO, LISBON, TEA, "Mia drinks green tea.", "Mia sold a boat.")


def placed() -> PlacedEmbedder:
    embedder = PlacedEmbedder()
    for text in (CAT, PORTO, TEA, "Mia sold a boat."):
        embedder.place(text)
    embedder.place(BLACK, 0.97, CAT)
    embedder.place(LISBON, 0.96, PORTO)
    embedder.place("Mia drinks green tea.", 0.96, TEA)
    return embedder


@contextmanager
def opened(
    url: str,
    *answers: Verdict | Callable[[Question], Verdict],
    dedup: bool = True,
    namespaces: Sequence[Sequence[str]] = (("memories",),),
    fields: Sequence[str] = ("text",),
    hybrid: bool = True,
    clock: Callable[[], datetime] | None = None,
    ttl: TTLConfig | None = None,
) -> Iterator[DedupStore]:
    config = MemoryConfig(dedup_enabled=dedup)
    model = ScriptedModel(*answers, *[Verdict(reason="told apart")] * 500)
    clock = clock or ticking()
    store = MemoryStore(Ledger.create(url), placed(), folds=dedup, hybrid=hybrid, clock=clock)
    with (
        store,
        DedupStore(
            store,
            MemoryDeduplicator(store, model, config=config),
            namespaces=namespaces,
            fields=fields,
            ttl=ttl,
        ) as adapted,
    ):
        yield adapted


@pytest.fixture
def store(empty_url: str) -> Iterator[DedupStore]:
    with opened(empty_url) as adapted:
        yield adapted


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def value_of(store: DedupStore, namespace: tuple[str, ...], key: str) -> Any:
    item = store.get(namespace, key)
    return None if item is None else item.value


def texts_in(store: DedupStore, *prefix: str) -> list[str]:
    return sorted(item.value["text"] for item in store.search(prefix, limit=1000))


# --- one text under several keys ------------------------------------------------------------------


def test_supersession_hides_from_a_search_and_never_changes_what_get_returns(
    sqlite_url: str,
) -> None:
    ends = Verdict(updates=(NamedUpdate(older=0, newer=1),))
    with opened(sqlite_url, ends) as store:
        store.put(MIA, "then", {"text": PORTO})
        store.put(MIA, "now", {"text": LISBON})
        assert texts_in(store, "memories") == [LISBON]
        assert value_of(store, MIA, "then") == {"text": PORTO}


def test_a_store_whose_fields_match_nothing_says_so_once_and_names_the_keys(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(sqlite_url, fields=["content.content"]) as store:
        store.put(FILES, "plan.md", {"content": "not in a chosen namespace"})
        assert caplog.records == []
        for key in "ab":
            store.put(MIA, key, {"content": CAT, "kind": {"name": "fact"}})
        [record] = caplog.records
        assert "none of the fields content.content; its keys are content, kind.name" in (
            record.getMessage()
        )
    with opened(sqlite_url, fields=["content"]) as store:
        store.put(MIA, "c", {"content": CAT})
        store.put(MIA, "d", {"content": CAT_AGAIN})
        store.put(MIA, "e", {"number": 7})
        assert len(caplog.records) == 1, "a value without a text beside others is no mistake"
        found = [item.key for item in store.search(MIA, query=CAT) if item.score is not None]
        assert len(found) == 1


def test_a_key_whose_memory_was_absorbed_returns_what_was_put(store: DedupStore) -> None:
    store.put(MIA, "a", {"text": CAT, "source": "chat 1"})
    store.put(MIA, "b", {"text": BLACK, "source": "chat 2"})
    assert value_of(store, MIA, "a") == {"text": CAT, "source": "chat 1"}
    assert value_of(store, MIA, "b") == {"text": BLACK, "source": "chat 2"}
    assert [item.key for item in store.search(MIA)] == ["b"]


def test_what_stands_beside_the_text_is_found_by_its_own_key(store: DedupStore) -> None:
    store.put(MIA, "a", {"text": CAT, "kind": "pet"})
    store.put(MIA, "b", {"text": CAT_AGAIN, "kind": "joke"})
    assert [item.key for item in store.search(MIA, filter={"kind": "pet"})] == ["a"]
    assert [item.key for item in store.search(MIA, filter={"kind": "joke"})] == ["b"]
    assert len(store.search(MIA)) == 1


def test_two_users_never_meet(store: DedupStore) -> None:
    store.put(MIA, "a", {"text": CAT})
    store.put(TOM, "a", {"text": CAT})
    assert len(store.search(("memories",))) == 2
    store.delete(TOM, "a")
    assert value_of(store, MIA, "a") == {"text": CAT}


def test_a_search_shows_a_merged_text_once(sqlite_url: str) -> None:
    both = "Mia lives in Porto. Mia lives in Lisbon."
    with opened(sqlite_url, Verdict(parts=(MergeGroup(members=(0, 1), text=both),))) as store:
        store.put(MIA, "a", {"text": PORTO})
        store.put(MIA, "b", {"text": LISBON})
        assert value_of(store, MIA, "a") == {"text": PORTO}
        [found] = store.search(MIA)
        assert (found.key, found.value) == ("b", {"text": both})
        store.put(MIA, "b", {"text": both, "seen": 1})
        assert texts_in(store, *MIA) == [both], "the text that was read is put back"


def test_a_decision_taken_back_gives_each_key_its_own_text(sqlite_url: str) -> None:
    with opened(sqlite_url) as adapted, Ledger.create(sqlite_url) as ledger:
        adapted.put(MIA, "a", {"text": CAT})
        adapted.put(MIA, "b", {"text": BLACK})
        with MemoryStore(ledger, placed()) as other:
            other.undo(other.history()[-1].number)
        assert value_of(adapted, MIA, "a") == {"text": CAT}
        assert texts_in(adapted, *MIA) == [BLACK, CAT]


# --- keys that change -----------------------------------------------------------------------------


def thrice(store: DedupStore) -> None:
    for key, text in zip("abc", ("Mia has a cat.", "Mia has a cat!", "mia has a cat"), strict=True):
        store.put(MIA, key, {"text": text})
    assert [item.key for item in store.search(MIA)] == ["c"]


def test_correcting_what_a_search_shows_leaves_no_older_copy(store: DedupStore) -> None:
    thrice(store)
    store.put(MIA, "c", {"text": "Mia sold a boat."})
    for query in (None, CAT):
        assert [item.key for item in store.search(MIA, query=query)] == ["c"]
    assert texts_in(store, *MIA) == ["Mia sold a boat."]
    store.delete(MIA, "c")
    assert store.search(MIA) == store.search(MIA, query=CAT) == []
    assert value_of(store, MIA, "a") == {"text": "Mia has a cat."}
    assert value_of(store, MIA, "b") == {"text": "Mia has a cat!"}
    store.put(MIA, "a", {"text": "Mia has a cat."})
    assert [item.key for item in store.search(MIA)] == ["a"], "what is put again holds again"


def test_deleting_what_a_search_shows_leaves_no_older_copy(store: DedupStore) -> None:
    thrice(store)
    store.delete(MIA, "c")
    assert store.search(MIA, filter={"text": {"$ne": ""}}) == store.search(MIA, query=CAT) == []
    assert value_of(store, MIA, "a") == {"text": "Mia has a cat."}


def test_deleting_a_key_that_no_search_shows_leaves_the_memory(store: DedupStore) -> None:
    thrice(store)
    store.delete(MIA, "a")
    store.put(MIA, "b", {"text": TEA})
    assert texts_in(store, *MIA) == [TEA, "Mia has a cat!"], "the better written text stays"


def test_deleting_the_last_key_of_a_text_erases_it(sqlite_url: str, tmp_path: Path) -> None:
    with opened(sqlite_url) as store:
        store.put(MIA, "a", {"text": CAT})
        store.put(MIA, "b", {"text": BLACK})
        store.put(MIA, "c", {"text": TEA})
        store.put(MIA, "d", {"text": "Mia drinks green tea."})
        store.put(MIA, "d", {"text": PORTO})
        for key in "dcba":
            store.delete(MIA, key)
        assert store.search(()) == []
    held = b"".join(path.read_bytes() for path in tmp_path.glob("ledger.db*"))
    assert b"black" not in held
    assert b"drinks" not in held


def test_another_text_under_a_key_stands_for_the_one_before(store: DedupStore) -> None:
    store.put(MIA, "home", {"text": PORTO})
    store.put(MIA, "home", {"text": LISBON})
    assert value_of(store, MIA, "home") == {"text": LISBON}
    assert texts_in(store, *MIA) == [LISBON]
    store.put(("memories", "Ada"), "past", {"text": "Ada lives in Porto."})
    store.put(("memories", "Ada"), "past", {"text": "Ada lives in Faro."})
    [found] = store.search(("memories", "Ada"), query="Where did Ada live before?")
    assert found.value == {"text": "Ada lives in Faro."}


def test_overwriting_one_of_two_keys_leaves_the_other_its_text(store: DedupStore) -> None:
    store.put(MIA, "a", {"text": CAT})
    store.put(MIA, "b", {"text": CAT_AGAIN})
    store.put(MIA, "b", {"text": TEA})
    assert value_of(store, MIA, "a") == {"text": CAT}
    assert value_of(store, MIA, "b") == {"text": TEA}


def test_a_value_read_and_put_back_changes_no_memory(sqlite_url: str) -> None:
    with opened(sqlite_url) as adapted, Ledger.create(sqlite_url) as ledger:
        adapted.put(MIA, "a", {"text": CAT, "seen": 1})
        adapted.put(MIA, "b", {"text": BLACK})
        with ledger.reading() as reader:
            before = reader.counts()
        adapted.put(MIA, "a", value_of(adapted, MIA, "a") | {"seen": 2})
        with ledger.reading() as reader:
            assert reader.counts() == before
        assert value_of(adapted, MIA, "a") == {"text": CAT, "seen": 2}


def test_forgetting_a_memory_takes_its_keys_away(sqlite_url: str) -> None:
    with opened(sqlite_url) as adapted, Ledger.create(sqlite_url) as ledger:
        adapted.put(MIA, "a", {"text": CAT})
        with MemoryStore(ledger, placed()) as other:
            other.forget(next(other.memories()).id)
        assert value_of(adapted, MIA, "a") is None


def test_what_a_process_put_and_did_not_live_to_deduplicate_is_caught_up(sqlite_url: str) -> None:
    with opened(sqlite_url) as adapted, Ledger.create(sqlite_url) as ledger:
        adapted.put(MIA, "b", {"text": BLACK})
        with ledger.writing() as writer:
            at = ticking()()
            writer.items.put(MIA, "a", json.dumps({"text": CAT}), "mem_00000000abcd", at)
        assert texts_in(adapted, *MIA) == [BLACK, CAT]
        assert adapted.catch_up() == 1
        assert texts_in(adapted, *MIA) == [BLACK]
        assert adapted.catch_up() == 0


# --- what is left alone ---------------------------------------------------------------------------


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
), st.text(min_size=1))  # fmt: skip
@settings(max_examples=40)
def test_a_file_comes_back_byte_for_byte(content: Any, key: str) -> None:
    with tempfile.TemporaryDirectory() as folder, opened(f"sqlite:///{folder}/l.db") as store:
        value = {"text": CAT, "content": content}
        for name in (key, key + "2"):
            store.put(FILES, name, value)
        assert value_of(store, FILES, key) == value_of(store, FILES, key + "2") == value
        assert {item.key for item in store.search(FILES)} == {key, key + "2"}


def test_what_is_not_indexed_or_has_no_text_is_not_deduplicated(store: DedupStore) -> None:
    store.put(MIA, "a", {"text": CAT})
    store.put(MIA, "b", {"text": CAT}, index=False)
    store.put(MIA, "c", {"text": CAT}, index=["title"])
    store.put(MIA, "d", {"text": " \x00", "title": CAT})
    store.put(MIA, "e", {"text": CAT}, index=["text"])
    assert {item.key for item in store.search(MIA)} == {"b", "c", "d", "e"}
    assert value_of(store, MIA, "d") == {"text": " \x00", "title": CAT}


def test_a_field_may_lie_deeper_and_a_label_may_be_any(sqlite_url: str) -> None:
    namespaces, fields = [("*", "memories")], ["content.content", "text"]
    with opened(sqlite_url, namespaces=namespaces, fields=fields) as store:
        here = ("mia", "memories")
        store.put(here, "a", {"kind": "Memory", "content": {"content": CAT}})
        store.put(here, "b", {"kind": "Memory", "content": {"content": BLACK, "n": 1}})
        store.put(("mia", "drafts"), "c", {"text": CAT})
        [found] = store.search(here)
        assert found.value == {"kind": "Memory", "content": {"content": BLACK, "n": 1}}
        assert value_of(store, ("mia", "drafts"), "c") == {"text": CAT}


@pytest.fixture
def timed(sqlite_url: str) -> Iterator[tuple[DedupStore, Callable[[float], None]]]:
    """Yield a store, and a function that moves its clock to so many minutes after the start."""
    now = [START]

    def set_minutes(minutes: float) -> None:
        now[0] = START + timedelta(minutes=minutes)

    with opened(sqlite_url, clock=lambda: now[0], ttl={"default_ttl": 60.0}) as store:
        yield store, set_minutes


def test_an_item_is_deleted_when_nobody_reads_or_puts_it_for_its_time_to_live(
    timed: tuple[DedupStore, Callable[[float], None]],
) -> None:
    store, set_minutes = timed
    store.put(MIA, "cat", {"text": CAT}, ttl=10)
    store.put(FILES, "cat", {"text": CAT}, ttl=10)
    store.put(MIA, "tea", {"text": TEA})
    store.put(MIA, "porto", {"text": PORTO}, ttl=None)
    set_minutes(9)
    assert value_of(store, MIA, "cat") == {"text": CAT}
    assert [item.key for item in store.search(FILES, refresh_ttl=False)] == ["cat"]
    set_minutes(18)
    assert [item.key for item in store.search(FILES)] == []
    assert texts_in(store, *MIA) == [TEA, CAT, PORTO]
    set_minutes(29)
    assert texts_in(store, *MIA) == [TEA, PORTO]
    assert value_of(store, MIA, "cat") is None
    assert store.list_namespaces() == [MIA]
    set_minutes(30 + 60)
    assert texts_in(store, *MIA) == [PORTO]


def test_a_memory_stays_as_long_as_one_of_its_items(
    timed: tuple[DedupStore, Callable[[float], None]],
) -> None:
    store, set_minutes = timed
    store.put(MIA, "a", {"text": CAT}, ttl=None)
    store.put(MIA, "b", {"text": CAT_AGAIN}, ttl=10)
    store.put(MIA, "c", {"text": TEA}, ttl=10)
    set_minutes(5)
    store.put(MIA, "c", {"text": TEA}, ttl=None)
    set_minutes(11)
    assert {item.key for item in store.search(MIA)} == {"a", "c"}
    assert (value_of(store, MIA, "a"), value_of(store, MIA, "b")) == ({"text": CAT}, None)


def test_an_undo_lets_each_memory_live_as_long_as_its_item(sqlite_url: str) -> None:
    with opened(sqlite_url) as adapted, Ledger.create(sqlite_url) as ledger:
        for key, text, ttl in (("a", CAT, 60), ("b", CAT_AGAIN, 10)):
            adapted.put(MIA, key, {"text": text}, ttl=ttl)
        adapted.put(MIA, "b", {"text": CAT_AGAIN}, ttl=30)
        with MemoryStore(ledger, placed(), clock=lambda: START) as other:
            other.undo(other.history()[-1].number)
            with ledger.reading() as reader:
                items = reader.items.of_memories([one.id for one in other.memories()])
            found = {one.id: one.expires_at for one in other.memories()}
        assert found == {one.memory_id: one.expires_at for one in items}
        assert len(found) == 2


@pytest.mark.parametrize("ttl", [-1.0, float("nan"), 1e300])
def test_an_impossible_time_to_live_is_refused(store: DedupStore, ttl: float) -> None:
    with pytest.raises(ValueError, match=r"ttl is .* not minutes from 0 to"):
        store.put(MIA, "a", {"text": CAT}, ttl=ttl)
    assert store.search(()) == []


# --- the contract of a batch ----------------------------------------------------------------------


def test_reads_are_answered_before_the_writes_of_the_same_batch(store: DedupStore) -> None:
    store.put(MIA, "a", {"text": CAT})
    answers: list[Any] = store.batch([
        PutOp(MIA, "a", {"text": PORTO}),
        GetOp(MIA, "a"),
        PutOp(MIA, "b", {"text": TEA}),
        SearchOp(("memories",)),
        ListNamespacesOp(),
        PutOp(MIA, "b", {"text": LISBON, "last": True}),
    ])  # fmt: skip
    assert answers[0] is answers[2] is answers[5] is None
    assert answers[1].value == {"text": CAT}
    assert [item.key for item in answers[3]] == ["a"]
    assert answers[4] == [MIA]
    assert value_of(store, MIA, "b") == {"text": LISBON, "last": True}
    assert texts_in(store) == [LISBON, PORTO]


def test_labels_are_checked_though_a_batch_is_handed_over(store: DedupStore) -> None:
    wrong: Any
    for wrong in [("a.b",), ("a\x00",), ("a", ""), (1,)]:
        for op in (GetOp(wrong, "k"), PutOp(wrong, "k", {}), SearchOp(wrong)):
            with pytest.raises(InvalidNamespaceError):
                store.batch([op])
    wrong = ["get"]
    with pytest.raises(ValueError, match="unknown operation"):
        store.batch(wrong)


def test_nothing_of_a_batch_is_stored_where_one_value_is_no_json(store: DedupStore) -> None:
    with pytest.raises(TypeError):
        store.batch([PutOp(FILES, "a", {"n": 1}), PutOp(FILES, "b", {"n": object()})])
    assert store.search(()) == []


def test_filters_compare_numbers_parts_and_lists(store: DedupStore) -> None:
    store.put(FILES, "a", {"n": 1, "at": {"x": 1, "y": 2}, "l": [1, 2]})
    store.put(FILES, "b", {"n": 2.5, "l": [1, 3]})
    store.put(FILES, "c", {"n": "many"})

    def keys(**wanted: Any) -> set[str]:
        return {item.key for item in store.search(FILES, filter=wanted)}

    assert keys(n={"$gt": 1}) == keys(n={"$gte": 2.5}) == {"b"}
    assert keys(n={"$lt": 2}) == keys(n={"$lte": 1}) == keys(n={"$eq": 1}) == keys(n=1) == {"a"}
    assert keys(n={"$ne": 1}) == {"b", "c"}
    assert keys(n={"$gt": 1, "$lt": 2}) == set()
    assert keys(at={"x": 1}) == keys(l=[1, 2]) == keys(at={"x": {"$lt": 2}}) == {"a"}
    assert keys(**{"at.x": 1}) == keys(**{"at.y": {"$gt": 1}, "n": 1}) == {"a"}
    store.put(FILES, "d", {"at.x": 7, "at": {"x": 1}})
    assert keys(**{"at.x": 7}) == {"d"}, "a key with a dot in it comes first"
    with pytest.raises(ValueError, match=r"unsupported operator '\$in'"):
        keys(n={"$in": [1]})


def test_namespaces_are_listed_by_their_ends_and_their_depth(store: DedupStore) -> None:
    for namespace in [("a", "b", "c"), ("a", "b", "d"), ("a", "x", "c"), ("ab", "c")]:
        store.put(namespace, "k", {})
    assert store.list_namespaces(prefix=("a",)) == [
        ("a", "b", "c"),
        ("a", "b", "d"),
        ("a", "x", "c"),
    ]
    assert store.list_namespaces(suffix=("c",), prefix=("a",)) == [("a", "b", "c"), ("a", "x", "c")]
    assert store.list_namespaces(prefix=("a", "*", "c")) == [("a", "b", "c"), ("a", "x", "c")]
    assert store.list_namespaces(max_depth=2) == [("a", "b"), ("a", "x"), ("ab", "c")]
    assert store.list_namespaces(limit=1, offset=1) == [("a", "b", "d")]
    assert [item.namespace for item in store.search(("a", "b"), limit=9)] == [
        ("a", "b", "d"), ("a", "b", "c"),
    ]  # fmt: skip
    store.delete(("ab", "c"), "k")
    assert store.list_namespaces(prefix=("ab",)) == []


def test_pages_follow_each_other(store: DedupStore) -> None:
    for number in range(7):
        store.put(FILES, str(number), {"n": number})
    pages = [store.search(FILES, limit=3, offset=start) for start in (0, 3, 6)]
    assert [item.value["n"] for page in pages for item in page] == [6, 5, 4, 3, 2, 1, 0]


def test_the_nearest_comes_first_and_what_has_no_memory_last(store: DedupStore) -> None:
    store.put(MIA, "a", {"text": TEA})
    store.put(MIA, "b", {"text": PORTO})
    store.put(MIA, "c", {"text": LISBON}, index=False)
    found = store.search(("memories",), query=PORTO)
    assert [item.key for item in found] == ["b", "a", "c"]
    scores = [item.score for item in found]
    assert scores[2] is None
    assert scores[0] is not None
    assert scores[1] is not None
    assert scores[0] > scores[1]


def test_it_answers_in_a_running_loop_and_to_many_at_once(store: DedupStore) -> None:
    async def talk() -> None:
        await asyncio.gather(*(store.aput(MIA, str(n), {"text": CAT}) for n in range(8)))
        same = await asyncio.gather(*(store.aget(MIA, str(n)) for n in range(8)))
        assert all(item is not None and item.value == {"text": CAT} for item in same)
        assert len(await store.asearch(MIA)) == 1
        store.put(MIA, "sync", {"text": TEA})
        await asyncio.gather(*(store.aput(MIA, "one", {"text": text}) for text in POOL))

    asyncio.run(talk())
    assert len(store.search(MIA, filter={"text": value_of(store, MIA, "one")["text"]})) == 1


# --- beside LangGraph's own store -----------------------------------------------------------------

names = st.sampled_from([("u",), ("u", "a"), ("u", "b"), ("v", "a")])
prefixes = st.sampled_from([(), ("u",), ("u", "a"), ("v",), ("w",)])
keys = st.sampled_from(["k", "l", "m"])
values = st.fixed_dictionaries({"text": st.sampled_from(POOL), "n": st.integers(0, 3)})
filters = st.sampled_from([None, {}, {"n": 1}, {"n": {"$gte": 2}}, {"n": {"$ne": 0, "$lt": 3}}])
conditions = st.builds(
    MatchCondition, st.sampled_from(["prefix", "suffix"]),
    st.sampled_from([("u",), ("a",), ("*", "a"), ("u", "*"), ("v", "a")]),
)  # fmt: skip
operations = st.one_of(
    st.builds(GetOp, names, keys),
    st.builds(PutOp, names, keys, values, index=st.none(), ttl=st.none()),
    st.builds(PutOp, names, keys, st.none(), ttl=st.none()),
    st.builds(SearchOp, prefixes, filters, st.just(100), st.just(0),
              st.sampled_from([None, *POOL])),
    st.builds(ListNamespacesOp, st.lists(conditions, max_size=2).map(tuple),
              st.none() | st.integers(1, 2), st.just(100)),
)  # fmt: skip


def one_text_once(ops: list[Any]) -> list[Any]:
    """LangGraph's own store refuses a batch that puts one text under two keys."""
    seen: set[str] = set()
    kept = []
    for op in ops:
        text = op.value["text"] if isinstance(op, PutOp) and op.value else None
        if text is None or text not in seen:
            kept.append(op)
            seen.add(text or "")
    return kept


def forget_the_empty(own: InMemoryStore) -> None:
    """LangGraph's own store lists a namespace that was only ever read, or is empty again."""
    for namespace in [name for name, items in own._data.items() if not items]:
        del own._data[namespace]


def comparable(op: Any, answer: Any) -> Any:
    if isinstance(op, GetOp):
        return answer and (answer.namespace, answer.key, answer.value)
    if isinstance(op, SearchOp):
        scores = [item.score for item in answer if item.score is not None]
        assert scores == sorted(scores, reverse=True)
        found = [
            (item.namespace, item.key, item.value["n"], item.value["text"],
             None if item.score is None else pytest.approx(item.score, abs=1e-5))
            for item in answer
        ]  # fmt: skip
        return sorted(found, key=lambda one: one[:4])
    return answer


@given(st.lists(st.lists(operations, max_size=6).map(one_text_once), max_size=8))
@settings(max_examples=40)
def test_without_deduplication_it_answers_as_langgraphs_own_store(
    batches: list[list[Any]],
) -> None:
    embedder = placed()

    def embed(texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = embedder.embed([normalise(one) for one in texts]).tolist()
        return vectors

    own = InMemoryStore(index={"dims": 64, "embed": embed, "fields": ["text"]})
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(f"sqlite:///{folder}/l.db", dedup=False, namespaces=[()], hybrid=False) as ours,
    ):
        for ops in batches:
            forget_the_empty(own)
            told = sorted(ops, key=lambda op: isinstance(op, GetOp))  # what is read is listed too
            expected, answers = own.batch(told), ours.batch(told)
            for op, one, other in zip(told, expected, answers, strict=True):
                assert comparable(op, other) == comparable(op, one), op


@given(st.lists(st.tuples(keys, st.sampled_from([None, *POOL]), st.booleans()), max_size=25))
@settings(max_examples=40)
def test_with_deduplication_every_key_that_was_put_answers(
    puts: list[tuple[str, str | None, bool]],
) -> None:
    expected: dict[tuple[tuple[str, ...], str], dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder, opened(f"sqlite:///{folder}/l.db") as store:
        for number, (key, text, is_file) in enumerate(puts):
            namespace = FILES if is_file else MIA
            expected.pop((namespace, key), None)
            if text is None:
                store.delete(namespace, key)
            else:
                expected[namespace, key] = {"text": text, "number": number}
                store.put(namespace, key, {"text": text, "number": number})
            for namespace in (FILES, MIA):
                for key in ("k", "l", "m"):
                    value = value_of(store, namespace, key)
                    put = expected.get((namespace, key))
                    assert value == put
        live = {one["text"] for (name, _), one in expected.items() if name == MIA}
        assert len(store.search(MIA)) <= len({normalise(text) for text in live})


def test_it_is_opened_by_a_configuration(tmp_path: Path) -> None:
    namespaces = [("memories",)]
    for number in range(2):
        with open_dedup_store(
            namespaces=namespaces, data_dir=str(tmp_path), llm_provider="offline"
        ) as store:
            store.put(MIA, str(number), {"text": CAT})
            assert len(store.search(MIA, query="Which pets?")) == 1


def test_a_search_shows_one_of_the_items_that_state_the_same_and_a_listing_all(
    sqlite_url: str,
) -> None:
    small = "Mia has a very small black cat."
    with opened(sqlite_url) as store:
        for key, text in zip("abc", (small, CAT, TEA), strict=True):
            store.put(MIA, key, {"text": text})
        assert len(store.search(MIA)) == 3
        first, second = store.search(MIA, query=CAT)
        assert (first.key, second.key) == ("a", "c")
        [also] = first.dict()["also"]
        assert (also["key"], also["value"]) == ("b", {"text": CAT})
        assert "also" not in second.dict()
        pages = [store.search(MIA, query=CAT, limit=1, offset=start) for start in (0, 1, 2)]
        assert [[item.key for item in page] for page in pages] == [["a"], ["c"], []]
        store.delete(MIA, "a")
        assert [item.key for item in store.search(MIA, query=CAT)] == ["b", "c"]


def test_an_agent_with_langmems_tools_corrects_and_deletes_what_it_sees(tmp_path: Path) -> None:
    """Its two tools name a memory by its key, and no copy of it comes back."""
    langmem = pytest.importorskip("langmem")
    place: dict[str, Any] = {"data_dir": str(tmp_path), "llm_provider": "offline"}
    with open_dedup_store(namespaces=[("memories",)], fields=["content"], **place) as store:
        manage = langmem.create_manage_memory_tool(("memories", "mia"), store=store)
        look = langmem.create_search_memory_tool(("memories", "mia"), store=store)

        def seen() -> list[Any]:
            found: list[Any] = json.loads(look.invoke({"query": "Where does Mia live?"}))
            return found

        for text in ("Mia lives in Porto.", "Mia lives in Porto!", "mia lives in Porto"):
            manage.invoke({"content": text, "action": "create"})
        [shown] = seen()
        manage.invoke({"id": shown["key"], "content": "Mia lives in Faro.", "action": "update"})
        [shown] = seen()
        assert shown["value"] == {"content": "Mia lives in Faro."}
        manage.invoke({"content": "Mia really lives in Faro.", "action": "create"})
        [shown] = seen()
        [also] = shown.get("also", [None])
        manage.invoke({"id": shown["key"], "action": "delete"})
        assert [one["key"] for one in seen()] == ([also["key"]] if also else [])
