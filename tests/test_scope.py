"""Scopes of metadata: an agent's memories, or a channel's, never meet another's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from pydantic import TypeAdapter, ValidationError

from memory.deduplicator import MemoryDeduplicator
from memory.ledger import Ledger
from memory.models import Action, Memory, Scope, ScopeField
from memory.store import MemoryStore
from memory.text import text_key
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder, ScriptedModel, ticking
from tests.search.vectors import BruteForce

TEXT = "Mia is allergic to nuts."


@pytest.fixture(params=["in memory", "by an index"])
def by_agent(
    request: pytest.FixtureRequest, empty_url: str, embedder: PlacedEmbedder
) -> Iterator[MemoryStore]:
    """A store that keeps the agents apart, on each database, in memory and beyond it."""
    index = BruteForce()
    with MemoryStore(
        Ledger.create(empty_url),
        embedder,
        lambda _: index,
        vectors_mb=512 if request.param == "in memory" else 0,
        scope_fields=("user", "agent"),
        clock=ticking(),
    ) as store:
        yield store


def told_to(agent: object, make_memory: MakeMemory, content: str = TEXT) -> Memory:
    metadata = {} if agent is None else {"agent": agent}
    return make_memory(content, user="Mia", metadata=metadata)


AGENTS: tuple[object, ...] = ("a", "b", 7, None)


def test_the_same_words_told_to_two_agents_stay_two_memories(
    by_agent: MemoryStore, model: ScriptedModel, make_memory: MakeMemory
) -> None:
    deduplicator = MemoryDeduplicator(by_agent, model)
    for _ in range(2):
        for agent in AGENTS:
            asyncio.run(deduplicator.check_and_merge(told_to(agent, make_memory)))
    assert [one.metadata.get("agent") for one in by_agent.memories()] == list(AGENTS)
    assert not model.asked


def test_a_batch_merges_within_each_agent_only(
    by_agent: MemoryStore, model: ScriptedModel, make_memory: MakeMemory
) -> None:
    by_agent.add_batch([told_to(agent, make_memory) for agent in (*AGENTS, *AGENTS)])
    asyncio.run(MemoryDeduplicator(by_agent, model).deduplicate_all())
    left = [one.metadata.get("agent") for one in by_agent.memories()]
    assert sorted(left, key=str) == sorted(AGENTS, key=str)


@pytest.mark.parametrize("fields", [(), ("user",), ("user", "agent"), ("agent", "channel")])
def test_memories_kept_apart_stay_apart_in_scopes_of_other_fields(
    empty_url: str,
    embedder: PlacedEmbedder,
    make_memory: MakeMemory,
    fields: tuple[ScopeField, ...],
) -> None:
    black, dark = "Mia owns a black cat.", "Mia owns a dark cat."
    embedder.place(dark, 0.97, to=black)
    model = ScriptedModel()
    with MemoryStore(Ledger.create(empty_url), embedder, clock=ticking()) as store:
        store.add_batch([told_to("a", make_memory, black), told_to("a", make_memory, dark)])
        scope = store.scope_of(next(store.memories()))
        with store.ledger.writing() as writer:
            writer.distinct.mark(
                scope, text_key(black), text_key(dark), "kept by a person", "person"
            )
    with MemoryStore(
        Ledger.create(empty_url), embedder, scope_fields=fields, clock=ticking()
    ) as store:
        deduplicator = MemoryDeduplicator(store, model)
        report = asyncio.run(deduplicator.deduplicate_all())
        assert (report.groups, store.counts().live) == ((), 2)
        [copy] = asyncio.run(deduplicator.check_and_merge_all([told_to("a", make_memory, dark)]))
        assert (copy.action, store.counts().live) == (Action.REPLACE, 2)
    assert not model.asked


@pytest.mark.parametrize("fields", [(), ("user",), ("user", "agent"), ("agent", "channel")])
def test_an_import_too_keeps_apart_what_a_person_did_in_scopes_of_other_fields(
    empty_url: str,
    embedder: PlacedEmbedder,
    make_memory: MakeMemory,
    fields: tuple[ScopeField, ...],
) -> None:
    black, dark = "Mia owns a cat.", "Mia owns a dark cat."
    embedder.place(dark, 0.97, to=black)
    with MemoryStore(
        Ledger.create(empty_url), embedder, scope_fields=fields, clock=ticking()
    ) as store:
        store.add(told_to("a", make_memory, black))
        here = Scope.of(next(store.memories()), ("user",))
        with store.ledger.writing() as writer:
            writer.distinct.mark(
                here, text_key(black), text_key(dark), "kept by a person", "person"
            )
        deduplicator = MemoryDeduplicator(store, ScriptedModel())
        new = [told_to("a", make_memory, dark), told_to("a", make_memory, "Mia rows.")]
        asyncio.run(deduplicator.check_and_merge_all(new, run="run_1"))
        assert {memory.content for memory in store.memories()} == {black, dark, "Mia rows."}


def test_a_search_may_ask_for_one_agents_memories(
    by_agent: MemoryStore, make_memory: MakeMemory
) -> None:
    by_agent.add_batch([told_to(agent, make_memory, f"{TEXT} {agent}") for agent in AGENTS])
    for agent, value in (("a", "a"), (7, "7"), (None, None)):
        found = by_agent.search(TEXT, 5, scope=Scope((("agent", value), ("user", "Mia"))))
        assert [hit.memory.metadata.get("agent") for hit in found] == [agent]
    with by_agent.ledger.reading() as reader:
        [row] = reader.memories.newest(1, Scope((("agent", "a"),)))
    assert row.memory.metadata == {"agent": "a"}


@pytest.mark.parametrize("name", ["content", "tags", "id", "metadata", ""])
def test_a_field_that_cannot_divide_memories_is_refused_as_scope(name: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(ScopeField).validate_python(name)
