"""Consolidation replays neighbours in time, and proposes pairs; it merges nothing."""

from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory.agent import build_tools
from memory.agent.memory_store import AgentMemory, ConsolidationEngine, ConsolidationStats
from memory.agent.schemas import Consolidated, MergeCandidate, Remembered
from memory.assembly import open_store
from memory.config import Config, MemoryConfig
from memory.models import Memory
from memory.store import MemoryStore
from tests.doubles import PlacedEmbedder


@pytest.fixture
def agent(store: MemoryStore) -> AgentMemory:
    return AgentMemory(store)


def save(agent: AgentMemory, *contents: str, **given: Any) -> list[Memory]:
    saved = [asyncio.run(agent.save_with_auto_link(text, **given))[0] for text in contents]
    return [memory for memory in saved if memory is not None]


def consolidate(agent: AgentMemory, **given: Any) -> ConsolidationStats:
    return asyncio.run(ConsolidationEngine().run(agent, **given))


@pytest.mark.parametrize(("cosine", "found"), [(0.89, 0), (0.90, 0), (0.900001, 1), (0.94, 1)])
def test_a_pair_is_found_strictly_below_the_threshold(
    agent: AgentMemory, embedder: PlacedEmbedder, cosine: float, found: int
) -> None:
    embedder.place("b", cosine, "a")
    save(agent, "a", "b")
    assert len(consolidate(agent).merge_candidates) == found


def test_each_pair_is_found_once_and_nothing_is_paired_with_itself(
    agent: AgentMemory, embedder: PlacedEmbedder
) -> None:
    embedder.place("b", 0.94, "a")
    a, b = save(agent, "a", "b")
    [pair] = consolidate(agent).merge_candidates
    assert {pair.memory_a_id, pair.memory_b_id} == {a.id, b.id}
    assert pair.distance == pytest.approx(0.06)


def test_the_closest_pairs_are_kept_of_too_many(
    agent: AgentMemory, embedder: PlacedEmbedder
) -> None:
    for n in range(4):
        embedder.place(f"b{n}", 0.91 + n / 100, f"a{n}")
        save(agent, f"a{n}", f"b{n}")
    found = consolidate(agent, max_merge_candidates=2).merge_candidates
    assert [round(pair.distance, 6) for pair in found] == [0.06, 0.07]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (
            "Today's conversation was fun. I learned a lot from Master.",
            "Today's conversation was enjoyable. Master taught me many things.",
        ),
        (
            "今日の会話は楽しかった。Masterから多くのことを学んだ。",
            "今日の会話は楽しかった。Masterとの対話は学びが多い。",
        ),
    ],
)
def test_what_is_told_again_in_other_words_is_proposed_with_the_default_embedder(
    tmp_path: Path, a: str, b: str
) -> None:
    """And no pair of things that differ."""
    config = Config(memory=MemoryConfig(data_dir=str(tmp_path / "data")))
    others = ["The rain stopped at noon.", "朝、駅まで歩いた。", "Master repaired the old radio."]
    with open_store(config) as core:
        tools = build_tools(core, config)
        for text in (a, b, *others):
            saved = asyncio.run(tools.call("remember", {"content": text})).data
            assert isinstance(saved, Remembered)
            assert saved.saved, "the guard lets it through"
        proposed = asyncio.run(tools.call("consolidate", {})).data
    assert isinstance(proposed, Consolidated)
    assert [(one.snippet_a, one.snippet_b) for one in proposed.merge_candidates] == [(a, b)]


def test_how_near_a_proposed_pair_must_be_is_configured(
    agent: AgentMemory, embedder: PlacedEmbedder
) -> None:
    embedder.place("b", 0.88, "a")
    save(agent, "a", "b")
    for distance, found in ((0.10, 0), (0.15, 1)):
        stats = asyncio.run(ConsolidationEngine().run(agent, merge_threshold=distance))
        assert len(stats.merge_candidates) == found


def test_unlike_memories_are_not_proposed(agent: AgentMemory) -> None:
    save(agent, "a", "b", "c")
    assert consolidate(agent).merge_candidates == ()


def test_pairs_are_never_proposed_across_users(agent: AgentMemory) -> None:
    save(agent, "tea", user="Alice")
    save(agent, "tea", user="Bob")
    stats = consolidate(agent)
    assert (stats.merge_candidates, stats.replay_events) == ((), 0)


def test_neighbours_in_time_are_linked_once_and_trusted_more_each_time(agent: AgentMemory) -> None:
    a, b, c = save(agent, "a", "b", "c")
    first, second = consolidate(agent), consolidate(agent)
    assert (first.replay_events, first.coactivation_updates, first.link_updates) == (2, 2, 2)
    assert (second.replay_events, second.coactivation_updates, second.link_updates) == (2, 2, 0)
    assert first.refreshed_memories == 3
    middle = asyncio.run(agent.get_by_id(b.id))
    assert middle is not None
    assert {link.target_id for link in middle.linked_ids} == {a.id, c.id}
    assert [(link.link_type, link.confidence) for link in middle.linked_ids] == [
        ("related", 0.7)
    ] * 2


def test_a_replay_leaves_the_type_of_a_link_alone(agent: AgentMemory) -> None:
    a, b = save(agent, "a", "b")
    asyncio.run(agent.link_memories(a.id, b.id, "leads_to", "as told"))
    consolidate(agent)
    seen = asyncio.run(agent.get_by_id(a.id))
    assert seen is not None
    assert [(link.link_type, link.note) for link in seen.linked_ids] == [("leads_to", "as told")]


def test_only_the_window_is_replayed_and_at_most_so_many_events(
    agent: AgentMemory, store: MemoryStore
) -> None:
    old = store.new_memory("an old one")
    store.add(old.model_copy(update={"timestamp": old.timestamp - timedelta(hours=30)}))
    save(agent, *"abcde")
    assert consolidate(agent).replay_events == 4
    assert consolidate(agent, window_hours=48).replay_events == 5
    assert consolidate(agent, window=3).replay_events == 2
    assert consolidate(agent, max_replay_events=1).replay_events == 1


def test_nothing_is_merged_or_deleted(agent: AgentMemory, embedder: PlacedEmbedder) -> None:
    embedder.place("b", 0.94, "a")
    saved = save(agent, "a", "b")
    consolidate(agent)
    assert len(saved) == len(asyncio.run(agent.list_recent())) == 2


def test_stats_are_frozen_and_turn_into_a_dict() -> None:
    pair = MergeCandidate("mem_a", "mem_b", 0.05, "a", "b")
    stats = ConsolidationStats(1, 2, 3, 4, (pair,))
    with pytest.raises(FrozenInstanceError):
        stats.replay_events = 9  # type: ignore[misc]
    assert ConsolidationStats(0, 0, 0, 0).merge_candidates == ()
    assert stats.to_dict() == {
        "replay_events": 1,
        "coactivation_updates": 2,
        "link_updates": 3,
        "refreshed_memories": 4,
        "merge_candidates": [
            {
                "memory_a_id": "mem_a",
                "memory_b_id": "mem_b",
                "distance": 0.05,
                "snippet_a": "a",
                "snippet_b": "b",
            }
        ],
    }
