"""The agent's face of the store: the guard, links that are always two-way, clean deletion."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.agent.memory_store import AgentMemory, ConsolidationEngine, MemorySearchResult
from memory.errors import CannotUndo, ChangedMeanwhile, InputError, MemoryNotFound, StillStatedBy
from memory.ledger import REVERSIBLE, Ledger
from memory.models import INVERSE_LINK, Memory, Rules, SearchResult, Vectors
from memory.store import MemoryStore, forget_user
from tests.doubles import PlacedEmbedder, ticking

run = asyncio.run


@pytest.fixture
def ledger(empty_url: str) -> Iterator[Ledger]:
    with Ledger.create(empty_url) as opened:
        yield opened


@pytest.fixture
def agent(store: MemoryStore) -> AgentMemory:
    return AgentMemory(store)


def save(agent: AgentMemory, content: str, **given: Any) -> Memory:
    memory, *_ = run(agent.save_with_auto_link(content, **given))
    assert memory is not None
    return memory


def test_the_second_of_two_near_copies_is_blocked_with_the_first_as_reason(
    agent: AgentMemory, embedder: PlacedEmbedder
) -> None:
    embedder.place("Mia really has a cat.", 0.97, "Mia has a cat.")
    first = save(agent, "Mia has a cat.")
    result = run(agent.save_with_auto_link("Mia really has a cat."))
    assert len(result) == 4
    memory, links, linked, duplicate_of = result
    assert (memory, links, linked) == (None, 0, [])
    assert duplicate_of is not None
    assert duplicate_of.memory.id == first.id
    assert duplicate_of.distance == pytest.approx(0.03)


def test_what_is_told_again_for_longer_is_no_repeat(agent: AgentMemory, store: MemoryStore) -> None:
    soon = store.now() + timedelta(hours=1)
    save(agent, "The meeting room is B12.", expires_at=soon)
    save(agent, "The meeting room is B12.")
    [kept] = store.memories()
    assert kept.expires_at is None


def test_into_an_empty_store_anything_is_saved(agent: AgentMemory) -> None:
    memory, links, linked, duplicate_of = run(agent.save_with_auto_link("the first"))
    assert memory is not None
    assert (links, linked, duplicate_of) == (0, [], None)


def test_a_text_that_states_all_of_a_stored_one_replaces_it_and_is_returned(
    agent: AgentMemory, embedder: PlacedEmbedder, store: MemoryStore
) -> None:
    embedder.place("Mia has a black cat.", 0.97, "Mia has a cat.")
    old = save(agent, "Mia has a cat.", tags=["pet"])
    new, links, linked, replaced = run(agent.save_with_auto_link("Mia has a black cat."))
    assert new is not None
    assert (links, linked) == (0, [])
    assert replaced is not None
    assert replaced.memory.id == old.id
    assert [(one.id, one.tags) for one in store.memories()] == [(new.id, ("pet",))]
    store.undo(store.history(new.id)[-1].number)
    assert {one.id for one in store.memories()} == {old.id, new.id}


@pytest.mark.parametrize(
    ("told", "live"), [("Mia has a black cat.", 2), ("Mia really has a cat.", 1)]
)
def test_below_the_upper_threshold_a_word_more_keeps_both(
    agent: AgentMemory, embedder: PlacedEmbedder, store: MemoryStore, told: str, live: int
) -> None:
    embedder.place(told, 0.92, "Mia has a cat.")
    save(agent, "Mia has a cat.")
    run(agent.save_with_auto_link(told))
    assert len(list(store.memories())) == live


@pytest.mark.parametrize(("cosine", "blocked"), [(0.95, False), (0.950001, True)])
def test_without_the_guard_only_the_distance_blocks_strictly_below_its_threshold(
    store: MemoryStore, embedder: PlacedEmbedder, cosine: float, blocked: bool
) -> None:
    agent = AgentMemory(store, rules=Rules(guard=False))
    embedder.place("near", cosine, "there")
    save(agent, "there")
    memory, *_ = run(agent.save_with_auto_link("near"))
    assert (memory is None) is blocked


def test_a_blocked_save_writes_nothing(agent: AgentMemory, ledger: Ledger) -> None:
    save(agent, "told")
    with ledger.reading() as reader:
        before = reader.revision()
    run(agent.save_with_auto_link("told"))
    with ledger.reading() as reader:
        assert reader.revision() == before


def test_the_guard_never_compares_across_users_or_privacy(agent: AgentMemory) -> None:
    save(agent, "likes tea", user="Alice")
    save(agent, "likes tea", user="Bob")
    save(agent, "likes tea", user="Alice", is_private=True)


def test_at_most_max_links_of_the_nearest_are_linked(
    agent: AgentMemory, embedder: PlacedEmbedder
) -> None:
    saved = []
    for n in range(4):
        embedder.place(f"near {n}", 0.75 + n / 100, "hub")
        saved.append(save(agent, f"near {n}"))
    memory, links, linked, _ = run(agent.save_with_auto_link("hub", max_links=2))
    assert memory is not None
    assert links == 2
    assert [hit.memory.id for hit in linked] == [saved[3].id, saved[2].id]
    assert {link.target_id for link in memory.linked_ids} == {saved[3].id, saved[2].id}


def test_two_saves_of_one_text_at_the_same_moment_store_it_once(agent: AgentMemory) -> None:
    async def both() -> list[Any]:
        return await asyncio.gather(*(agent.save_with_auto_link("the same") for _ in range(4)))

    results = run(both())
    assert sum(result[0] is not None for result in results) == 1


def test_a_search_result_is_the_store_s_own() -> None:
    assert MemorySearchResult is SearchResult


def test_the_newest_come_first_and_only_of_the_window(
    agent: AgentMemory, store: MemoryStore
) -> None:
    old = store.new_memory("old")
    store.add(old.model_copy(update={"timestamp": old.timestamp.replace(microsecond=5)}))
    save(agent, "fresh")
    assert [one.content for one in run(agent.list_recent())] == ["fresh", "old"]
    assert [one.content for one in run(agent.list_recent(1))] == ["fresh"]


# --- deletion -----------------------------------------------------------------------------------


def test_delete_gives_the_memory_and_unlinks_the_others(agent: AgentMemory) -> None:
    a, b = save(agent, "a"), save(agent, "b")
    run(agent.link_memories(a.id, b.id))
    deleted = run(agent.delete(a.id))
    assert deleted is not None
    assert deleted.content == "a"
    assert run(agent.get_by_id(a.id)) is None
    left = run(agent.get_by_id(b.id))
    assert left is not None
    assert left.linked_ids == ()


def test_delete_of_a_memory_without_links_and_of_an_unknown_one(agent: AgentMemory) -> None:
    alone = save(agent, "alone")
    assert run(agent.delete(alone.id)) is not None
    assert run(agent.delete(alone.id)) is None
    assert run(agent.delete("mem_000000000000")) is None


def test_a_merged_memory_cannot_be_deleted_alone(agent: AgentMemory) -> None:
    a, b = save(agent, "a"), save(agent, "b")
    run(agent.merge(a.id, b.id, "a and b"))
    with pytest.raises(StillStatedBy, match=a.id):
        run(agent.delete(b.id))
    assert run(agent.delete(a.id)) is not None


def test_an_episode_that_holds_a_forgotten_memory_loses_its_summary(
    agent: AgentMemory, ledger: Ledger
) -> None:
    a, b = save(agent, "the secret recipe"), save(agent, "another dish")
    both = run(agent.create_episode([a.id, b.id], "We tasted the secret recipe."))
    alone = run(agent.create_episode([a.id], "A meal."))
    stays = run(agent.create_episode([b.id], "They served the secret recipe too."))
    run(agent.delete(a.id))
    told = [run(agent.get_episode(one.id)) for one in (both, alone, stays)]
    summaries = [view[0].summary for view in told if view]
    assert summaries == ["(forgotten)", "(forgotten)", stays.summary]
    assert [view[0].memory_ids for view in told if view] == [(b.id,), (), (b.id,)]
    assert [view[1] for view in told if view] == [1, 1, 0]
    run(agent.replay([]))
    with ledger.reading() as reader:
        found = [reader.episodes.get(one.id) for one in (both, alone, stays)]
    assert [episode and episode.memory_ids for episode in found] == [(b.id,), (), (b.id,)]
    after = run(agent.get_episode(alone.id))
    assert after is not None
    assert (after[0].memory_ids, after[1]) == ((), 0)


def test_the_summary_goes_with_what_a_memory_of_the_episode_was_merged_into(
    agent: AgentMemory,
) -> None:
    a, b = save(agent, "a dish"), save(agent, "another dish")
    told = run(agent.create_episode([a.id], "A meal."))
    run(agent.merge(b.id, a.id, "two dishes"))
    run(agent.delete(b.id))
    view = run(agent.get_episode(told.id))
    assert view is not None
    assert (view[0].summary, view[1]) == ("(forgotten)", 1)


def test_the_summary_goes_with_an_origin_of_a_merge_that_was_taken_back(
    agent: AgentMemory, store: MemoryStore
) -> None:
    a, b = save(agent, "a dish"), save(agent, "the secret recipe")
    kept = run(agent.merge(a.id, b.id, "a dish and the secret recipe"))
    told = run(agent.create_episode([kept.id], "We tasted the secret recipe."))
    store.undo(store.history()[0].number)
    run(agent.delete(b.id))
    view = run(agent.get_episode(told.id))
    assert view is not None
    assert view[0].summary == "(forgotten)"


def test_a_short_memory_forgotten_leaves_the_summaries_that_its_text_is_part_of(
    agent: AgentMemory,
) -> None:
    tea, ben = save(agent, "tea"), save(agent, "Ben came at four.")
    told = run(agent.create_episode([ben.id], "A teatime with Ben, and tea"))
    run(agent.delete(tea.id))
    view = run(agent.get_episode(told.id))
    assert view is not None
    assert view[0].summary == told.summary


@pytest.mark.parametrize("at_once", [True, False], ids=["the user", "one by one"])
def test_nobody_else_reads_an_episode_before_or_after_its_memories_are_forgotten(
    store: MemoryStore, at_once: bool
) -> None:
    mia, ben, everyone = (AgentMemory(store, user=user) for user in ("Mia", "Ben", None))
    memories = [save(mia, text) for text in ("the alarm code", "the back door")]
    told = run(mia.create_episode([one.id for one in memories], "The code is 7788."))
    assert told.user == "Mia"
    assert run(ben.get_episode(told.id)) is None
    if at_once:
        forget_user(store.ledger, store.index, "Mia", store.clock())
    else:
        for one in memories:
            run(mia.delete(one.id))
    assert run(ben.get_episode(told.id)) is None
    seen = [run(agent.get_episode(told.id)) for agent in (mia, everyone)]
    left = [view[0].summary if view else None for view in seen]
    assert left == ([None, None] if at_once else ["(forgotten)", "(forgotten)"])


def test_an_episode_about_two_users_belongs_to_nobody_and_forgets_with_either(
    store: MemoryStore,
) -> None:
    mia, ben, everyone = (AgentMemory(store, user=user) for user in ("Mia", "Ben", None))
    memories = [save(mia, "Mia's part"), save(ben, "Ben's part")]
    told = run(everyone.create_episode([one.id for one in memories], "Both of them."))
    assert told.user is None
    assert [run(agent.get_episode(told.id)) for agent in (mia, ben)] == [None, None]
    forget_user(store.ledger, store.index, "Mia", store.clock())
    assert [run(agent.get_episode(told.id)) for agent in (mia, ben)] == [None, None]
    view = run(everyone.get_episode(told.id))
    assert view is not None
    assert (view[0].summary, view[1]) == ("(forgotten)", 1)


def test_consolidation_reads_nothing_of_other_users_and_writes_only_if_it_must(
    empty_url: str, store: MemoryStore
) -> None:
    """Neither their episodes nor their memories; a damaged row of theirs would be noticed."""
    mia, ben = (AgentMemory(store, user=user) for user in ("Mia", "Ben"))
    theirs, own = save(ben, "Ben sails."), save(mia, "Mia rows.")
    run(ben.create_episode([theirs.id], "On the lake."))
    told = run(mia.create_episode([own.id], "On the river."))
    engine = sa.create_engine(empty_url)
    with engine.begin() as connection:
        for table, column in (("memories", "metadata"), ("episodes", "start_time")):
            connection.execute(
                sa.text(f"UPDATE {table} SET {column} = 'damaged' WHERE \"user\" = 'Ben'")
            )
    engine.dispose()
    with store.ledger.reading() as reader:
        before = reader.revision()
    stats = run(ConsolidationEngine().run(mia))
    assert (stats.replay_events, stats.merge_candidates) == (0, ())
    with store.ledger.reading() as reader:
        assert reader.revision() == before, "no writing transaction"
    view = run(mia.get_episode(told.id))
    assert view is not None
    assert view[0] == told


def test_an_episode_spans_the_time_of_its_memories(agent: AgentMemory) -> None:
    saved = [save(agent, name) for name in "abc"]
    ids = [saved[n].id for n in (1, 2, 0)]
    episode = run(agent.create_episode(ids, "All of it"))
    assert (episode.start_time, episode.end_time) == (saved[0].timestamp, saved[2].timestamp)
    assert run(agent.get_episode("ep_000000000000")) is None
    with pytest.raises(MemoryNotFound):
        run(agent.create_episode([ids[0], "mem_000000000000"], "x"))
    with pytest.raises(InputError, match="content is empty"):
        run(agent.create_episode(ids, " "))


# --- links and merges -----------------------------------------------------------------------------


def test_a_link_is_seen_from_both_ends_with_its_inverse_type(agent: AgentMemory) -> None:
    cause, effect = save(agent, "rain"), save(agent, "a wet street")
    assert run(agent.link_memories(effect.id, cause.id, "caused_by", "of course")).created
    seen = [run(agent.get_by_id(one.id)) for one in (effect, cause)]
    assert [one.linked_ids[0].link_type for one in seen if one] == ["caused_by", "leads_to"]
    assert [one.linked_ids[0].note for one in seen if one] == ["of course"] * 2


def test_confidence_grows_up_to_one(agent: AgentMemory) -> None:
    a, b = save(agent, "a"), save(agent, "b")
    assert not run(agent.bump_link_confidence(a.id, b.id))
    run(agent.link_memories(a.id, b.id))
    grown = []
    for _ in range(7):
        assert run(agent.bump_link_confidence(a.id, b.id, delta=0.1))
        seen = run(agent.get_by_id(b.id))
        grown.append(seen.linked_ids[0].confidence if seen else None)
    assert grown == [0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0]


def test_a_merge_keeps_time_and_category_and_takes_links_tags_and_importance(
    agent: AgentMemory,
) -> None:
    keep = save(agent, "keep", category="lesson", tags=["x"], importance=2)
    remove = save(agent, "remove", tags=["y"], importance=5)
    friend = save(agent, "friend")
    run(agent.link_memories(remove.id, friend.id, "leads_to"))
    kept = run(agent.merge(keep.id, remove.id))
    assert (kept.id, kept.content, kept.category) == (keep.id, "keep", "lesson")
    assert (kept.timestamp, kept.importance, kept.tags) == (keep.timestamp, 5, ("x", "y"))
    assert [(link.target_id, link.link_type) for link in kept.linked_ids] == [
        (friend.id, "leads_to")
    ]


def test_a_merge_lasts_as_long_as_the_memory_that_lasts_longer(
    agent: AgentMemory, store: MemoryStore
) -> None:
    soon = store.now() + timedelta(days=1)
    keep = store.add(store.new_memory("keep").model_copy(update={"expires_at": soon}))
    remove = save(agent, "remove")
    kept = run(agent.merge(keep.id, remove.id))
    assert kept.expires_at is None


@pytest.mark.parametrize("text", [None, "both in one"])
def test_the_undo_of_a_merge_is_exact(
    agent: AgentMemory, store: MemoryStore, text: str | None
) -> None:
    a, b, c = (save(agent, name) for name in ("one", "two", "three"))
    run(agent.link_memories(a.id, b.id))
    run(agent.link_memories(b.id, c.id, "caused_by"))
    before = list(store.memories())
    run(agent.merge(a.id, b.id, text))
    assert len(list(store.memories())) == 2
    store.undo(store.history(b.id)[-1].number)
    assert list(store.memories()) == before
    assert run(agent.get_by_id(a.id)) == before[0]
    _, pairs = run(agent.recent_near_copies(3, before[0].timestamp, 2.0))
    assert {(pair.older.id, pair.newer.id) for pair in pairs} == {(a.id, c.id), (b.id, c.id)}


def test_a_correction_is_a_decision_that_names_the_old_wording(
    agent: AgentMemory, store: MemoryStore
) -> None:
    old = save(agent, "Rent is 900.", importance=5)
    new, _, _, replaced = run(agent.save_with_auto_link("Rent is 950.", replaces=old.id))
    assert new is not None
    assert replaced is not None
    assert replaced.memory.id == old.id
    assert run(agent.get_by_id(old.id)) is None
    assert new.importance == 5
    number = store.history(new.id)[-1].number
    [decision] = [one for one in store.history(old.id) if one.number == number]
    assert decision.survivors == ((new.id, (old.id,)),)


def test_an_unknown_id_cannot_be_linked_merged_or_corrected(agent: AgentMemory) -> None:
    a = save(agent, "a")
    for attempt in (
        agent.link_memories(a.id, "mem_000000000000"),
        agent.merge(a.id, "mem_000000000000"),
        agent.save_with_auto_link("b", replaces="mem_000000000000"),
    ):
        with pytest.raises(MemoryNotFound):
            run(attempt)
    with pytest.raises(InputError, match="itself"):
        run(agent.link_memories(a.id, a.id))


def test_a_correction_that_another_write_outruns_changes_nothing(ledger: Ledger) -> None:
    class Outrun(PlacedEmbedder):
        """While the corrected text is embedded, another process updates the memory."""

        def embed(self, texts: Sequence[str]) -> Vectors:
            if "three cats" in texts[0]:
                other.update(old.id, "Mia has two cats.")
            return super().embed(texts)

    with (
        MemoryStore(ledger, Outrun(), clock=ticking()) as store,
        MemoryStore(ledger, PlacedEmbedder(), clock=ticking()) as other,
    ):
        agent = AgentMemory(store)
        old = save(agent, "Mia has a cat.")
        with pytest.raises(ChangedMeanwhile, match="recall") as caught:
            save(agent, "Mia has three cats.", replaces=old.id)
        assert not isinstance(caught.value, InputError)
        assert [one.content for one in store.memories()] == ["Mia has two cats."]


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["save", "save", "link", "bump", "delete", "merge", "correct", "undo", "consolidate"]
        ),
        st.integers(0, 7),
        st.integers(0, 7),
    ),
    max_size=14,
)


@settings(max_examples=10)
@given(OPERATIONS)
def test_links_are_two_way_after_every_operation(operations: list[tuple[str, int, int]]) -> None:
    embedder = PlacedEmbedder()
    for n in range(1, 8):
        embedder.place(f"text {n}", 0.6 + n / 20, f"text {n - 1}")
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(f"sqlite:///{Path(folder) / 'ledger.db'}")
        with MemoryStore(ledger, embedder, clock=ticking()) as store:
            for operation in operations:
                run(perform(AgentMemory(store), store, *operation))
                check_two_way(list(store.memories()))


async def perform(agent: AgentMemory, store: MemoryStore, what: str, i: int, j: int) -> None:
    ids = [memory.id for memory in store.memories()]
    if what == "save" or not ids:
        await agent.save_with_auto_link(f"text {i}", dedup_threshold=0.05 if j else 0.0)
        return
    a, b = ids[i % len(ids)], ids[j % len(ids)]
    if what == "delete":
        await agent.delete(a)
    elif what == "correct":
        await agent.save_with_auto_link(f"text {j}", replaces=a)
    elif what == "consolidate":
        await ConsolidationEngine().run(agent)
    elif what == "undo":
        undo_latest(store)
    elif what == "bump":
        await agent.bump_link_confidence(a, b)
    elif what == "link" and a != b:
        await agent.link_memories(a, b, "leads_to")
    elif what == "merge" and a != b:
        await agent.merge(a, b, f"text {i}" if i % 2 else None)


def undo_latest(store: MemoryStore) -> None:
    decided = [one for one in store.history() if one.action in REVERSIBLE and not one.undone]
    try:
        if decided:
            store.undo(decided[-1].number)
    except CannotUndo:
        assert any(one.scrubbed for one in decided), "only what was forgotten stays decided"


def check_two_way(memories: list[Memory]) -> None:
    by_id = {memory.id: memory for memory in memories}
    for memory in memories:
        targets = [link.target_id for link in memory.linked_ids]
        assert len(set(targets)) == len(targets)
        assert memory.id not in targets
        for link in memory.linked_ids:
            [back] = [one for one in by_id[link.target_id].linked_ids if one.target_id == memory.id]
            assert back.link_type == INVERSE_LINK[link.link_type]
            assert back.confidence == link.confidence


# --- observers ------------------------------------------------------------------------------------


def test_observers_hear_of_saves_and_of_nothing_else(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def broken(_memory: Memory) -> None:
        raise RuntimeError("secret words")

    agent = AgentMemory(store, observers=(broken, lambda memory: heard.append(memory.id)))
    first = save(agent, "once")
    run(agent.save_with_auto_link("once"))
    second = save(agent, "twice", replaces=first.id)
    third = save(agent, "more")
    run(agent.merge(second.id, third.id))
    run(agent.delete(second.id))
    assert heard == [first.id, second.id, third.id]
    assert "secret words" not in caplog.text
