"""A review under way: what happens when others decide, and who hears of what is taken back."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from memory.agent import WorkspaceMemorySync, build_workspace, follow_undo
from memory.assembly import build_review
from memory.config import AgentConfig, Config
from memory.deduplicator import MemoryDeduplicator
from memory.models import Memory
from memory.providers import OfflineModel
from memory.store import MemoryStore
from memory.upkeep.answers import Answered, AnsweredMember, ReviewAnswer
from memory.upkeep.cards import Card
from memory.upkeep.review import Review, ShownGroup
from tests.conftest import MakeMemory
from tests.doubles import PlacedEmbedder
from tests.upkeep.conftest import NEW, OLD, OTHER
from tests.upkeep.serving import is_new


@pytest.fixture
def review(store: MemoryStore, tmp_path: Path) -> Review:
    agent = AgentConfig(workspace_dir=str(tmp_path))
    workspace = build_workspace(Config(agent=agent), store.ledger)
    follow = partial(follow_undo, store, workspace)
    return build_review(store, Config(agent=agent), OfflineModel(), follow_undo=follow)


def applied(card: Card, **more: object) -> Answered:
    members = tuple(AnsweredMember(id=one.id, hash=one.content_hash) for one in card.members)
    told = {"key": card.key, "members": members, "answer": ReviewAnswer.APPLY, **more}
    return Answered.model_validate(told)


def decided_and_taken_back(store: MemoryStore) -> None:
    """By another process: the older went, and is there again, kept apart from the newer."""
    asyncio.run(MemoryDeduplicator(store, OfflineModel()).deduplicate_all())
    [number] = [one.number for one in store.history() if one.survivors]
    store.undo(number)


def first(review: Review) -> Card:
    asyncio.run(review.look())
    return shown(review, review.keys()[0]).card


def shown(review: Review, key: str) -> ShownGroup:
    found = asyncio.run(review.show(key))
    assert found is not None
    return found


def test_memories_that_are_kept_apart_meanwhile_are_not_shown_together(
    store: MemoryStore, review: Review, three: list[Memory]
) -> None:
    card = first(review)
    decided_and_taken_back(store)
    now = shown(review, card.key)
    assert [one.content for one in now.card.members] == [OLD, OTHER]
    assert now.note == "a person keeps some of these apart: this is the group as it is now"
    keep = applied(now.card).model_copy(update={"answer": ReviewAnswer.KEEP_ALL})
    assert is_new(asyncio.run(review.answer(keep)))


def test_a_group_that_somebody_keeps_apart_meanwhile_drops_out(
    store: MemoryStore, review: Review, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    embedder.place(OLD)
    store.add_batch(
        [make_memory(text, user="Mia") for text in (OLD, embedder.place(NEW, 0.97, OLD))]
    )
    card = first(review)
    decided_and_taken_back(store)
    assert asyncio.run(review.show(card.key)) is None
    assert review.keys() == []


def test_a_card_says_what_became_of_its_members(
    store: MemoryStore, review: Review, three: list[Memory]
) -> None:
    card = first(review)
    store.update(three[2].id, "Mia runs 22 km.")
    note = shown(review, card.key).note
    assert note == f"{three[2].id} has another text now: this is the group as it is now"


def test_a_workspace_tells_again_of_what_is_taken_back(
    store: MemoryStore, review: Review, three: list[Memory], tmp_path: Path
) -> None:
    workspace = WorkspaceMemorySync(tmp_path)
    workspace.check()
    for reopen in (True, False):
        workspace.sync_memory(three[1])
        text = "On Sundays Mia is running 12 km."
        answered = applied(first(review), left_out=(three[2].id,), text=text, insist=True)
        assert is_new(asyncio.run(review.answer(answered)))
        [made] = [one for one in store.memories() if one.content == text]
        workspace.remove_memory(three[1].id)
        workspace.sync_memory(made)
        asyncio.run(review.undo(store.history()[-1].number, reopen=reopen))
        told = "".join(path.read_text() for path in (tmp_path / "memory").glob("*.md"))
        assert text not in told
        assert three[1].id in told
