"""Whatever is done in whatever order, the store and a simple model of it agree."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from memory.deduplicator import MemoryDeduplicator
from memory.errors import CannotUndo, MemoryNotFound, StillStatedBy
from memory.ledger import REVERSIBLE, Ledger
from memory.models import Memory, MemoryLink
from memory.providers import OfflineModel, WordLlamaEmbedder
from memory.store import MemoryStore
from memory.text import text_key
from memory.upkeep import examine
from tests.doubles import ticking

EMBEDDER = WordLlamaEmbedder()
facts = st.builds(
    "{} keeps {} in the {}{}".format,
    st.sampled_from(["Mia", "Jonas"]),
    st.sampled_from(["two drums", "three drums", "a kayak", "no kayak"]),
    st.sampled_from(["barn", "attic"]),
    st.sampled_from([".", "!", " today.", " in 2021."]),
)
users = st.sampled_from(["Mia", None])


class StoreAndModel(RuleBasedStateMachine):
    """The model: every text that was told, under its id, until it is forgotten."""

    told = Bundle("told")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="memory-stateful-"))
        self.texts: dict[str, set[str]] = {}
        self.forgotten: set[str] = set()
        self.clock = ticking(timedelta(seconds=1))
        """It stays within a day: what is told "today" on another day is another thing."""
        self.open()

    def open(self) -> None:
        ledger = Ledger.create(f"sqlite:///{self.folder / 'ledger.db'}")
        self.store = MemoryStore(ledger, EMBEDDER, clock=self.clock)
        self.deduplicator = MemoryDeduplicator(self.store, OfflineModel())

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    def exported(self) -> dict[str, Memory]:
        return {memory.id: memory for memory in self.store.memories()}

    @rule(target=told, text=facts, user=users)
    def write(self, text: str, user: str | None) -> str:
        new = self.store.new_memory(text, user=user)
        asyncio.run(self.deduplicator.check_and_merge(new))
        self.texts[new.id] = {new.content}
        return new.id

    @rule(target=told, text=facts, near=told)
    def write_linked(self, text: str, near: str) -> Any:
        """The link leads to whoever stands for the other one today, and back."""
        new = self.store.new_memory(text, user="Mia")
        new = new.model_copy(update={"linked_ids": (MemoryLink(target_id=near),)})
        self.store.add(new)
        self.texts[new.id] = {new.content}
        end = self.standing_for(near)
        if end is not None and end != new.id:
            assert new.id in {link.target_id for link in self.exported()[end].linked_ids}
        return multiple(new.id)

    @rule(target=told, name=told)
    def write_again(self, name: str) -> Any:
        """The same words shouted are no second memory, where the first still says them."""
        memory = self.store.get(name)
        if memory is None:
            return multiple()
        new = self.store.new_memory(memory.content.upper(), user=memory.user)
        before = sum(text_key(m.content) == text_key(new.content) for m in self.store.memories())
        asyncio.run(self.deduplicator.check_and_merge(new))
        after = sum(text_key(m.content) == text_key(new.content) for m in self.store.memories())
        assert after <= before
        self.texts[new.id] = {new.content}
        return new.id

    @rule(name=told, text=facts)
    def update(self, name: str, text: str) -> None:
        try:
            self.store.update(name, text)
        except MemoryNotFound:
            assert name not in self.exported()
        else:
            assert self.exported()[name].content == text
            self.texts[name].add(text)

    @rule()
    def batch(self) -> None:
        asyncio.run(self.deduplicator.deduplicate_all())
        settled = self.exported()
        report = asyncio.run(self.deduplicator.deduplicate_all())
        assert (report.decisions, self.exported()) == ({}, settled), "a second one changes nothing"

    @rule()
    def take_the_last_decision_back(self) -> None:
        """What was exported before it is exported again, and the arrival beside it."""
        done = [one for one in self.store.history() if one.action in REVERSIBLE and not one.undone]
        if not done:
            return
        before = self.exported()
        try:
            self.store.undo(done[-1].number)
        except CannotUndo:
            assert self.exported() == before
        else:
            assert set(done[-1].members) <= set(self.exported())

    @rule(name=consumes(told))
    def forget(self, name: str) -> None:
        with self.store.ledger.reading() as reader:
            ancestors = reader.memories.ancestors(name)
        try:
            forgotten = self.store.forget(name)
        except (MemoryNotFound, StillStatedBy):
            assert name not in self.exported()
        else:
            assert forgotten.erased
            self.forgotten |= {name, *ancestors}

    @rule()
    def reopen(self) -> None:
        before = self.exported()
        self.store.close()
        self.open()
        assert self.exported() == before

    def standing_for(self, name: str) -> str | None:
        with self.store.ledger.reading() as reader:
            alive = reader.memories.living(name)
        return alive.memory.id if alive is not None else None

    @invariant()
    def nothing_is_lost(self) -> None:
        with self.store.ledger.reading() as reader:
            rows = reader.memories.rows(list(self.texts))
        for name, texts in self.texts.items():
            if name not in self.forgotten:
                # of equal texts the best written one is shown
                assert text_key(rows[name].memory.content) in set(map(text_key, texts))
                assert self.standing_for(name) is not None
        for name in self.forgotten & rows.keys():
            assert rows[name].memory.content == ""

    @invariant()
    def links_are_two_way(self) -> None:
        live = self.exported()
        ends = {(m.id, link.target_id) for m in live.values() for link in m.linked_ids}
        assert ends == {(target, source) for source, target in ends}

    @invariant()
    def the_doctor_agrees(self) -> None:
        assert [one for one in examine(self.store) if one.kind == "damage"] == []


BRIEF = settings(
    max_examples=5,
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_the_store_and_the_model_agree() -> None:
    run_state_machine_as_test(StoreAndModel, settings=BRIEF)


@pytest.mark.drill
def test_the_store_and_the_model_agree_at_length() -> None:
    run_state_machine_as_test(StoreAndModel, settings=settings(BRIEF, max_examples=60))
