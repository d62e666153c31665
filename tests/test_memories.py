"""The face of scripts: five lines remember and recall; each verb works, each misuse is named."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory import ChatMemory, Memories, Memory, Scope, open_chat_memory
from memory.deduplicator import unread_snapshot
from memory.errors import MemoryPipelineError
from memory.models import new_memory_id
from memory.store import NOBODY, matching
from tests.doubles import START


@pytest.fixture
def memories(tmp_path: Path) -> Iterator[Memories]:
    with Memories(tmp_path / "mia.db", llm_provider="offline") as found:
        yield found


def test_an_outcome_says_what_happened_and_why(memories: Memories) -> None:
    added = memories.remember("Mia has a cat.", user="Mia")
    replaced = memories.remember("mia has a cat", user="Mia")
    assert (added.action.value, added.retired) == ("add", ())
    assert (replaced.action.value, replaced.reason) == ("replace", "same text")
    assert [one.id for one in replaced.retired] == [added.memory.id]
    assert [one.id for one in memories.list(user="Mia")] == [replaced.memory.id]
    [record] = memories.history(replaced.memory.id)[-1:]
    assert record.number == replaced.number
    [undone] = memories.undo(replaced.memory.id)
    members = [added.memory.id, replaced.memory.id]
    assert repr(undone) == f"DecisionRecord(2, 'replace', 'same text', members={members}, undone)"
    both = {"Mia has a cat.", "mia has a cat"}
    assert {one.content for one in memories.list(user="Mia")} == both


def test_results_are_short_to_read(memories: Memories) -> None:
    at = datetime(2026, 5, 1, 8, tzinfo=UTC)
    first = memories.remember("Mia has a cat.", user="Mia", at=at)
    done = memories.remember("mia has a cat", user="Mia", at=at)
    found = (
        f"Memory(id={done.memory.id!r}, content={done.memory.content!r}, user='Mia', "
        "timestamp='2026-05-01 08:00')"
    )
    assert repr(done) == (
        f"Outcome('replace', 'same text', number=2, memory={found}, retired=['{first.memory.id}'])"
    )
    [hit] = memories.recall("cat", user="Mia")
    assert repr(hit) == f"Recalled{found.removeprefix('Memory')[:-1]}, score={hit.score})"
    assert re.fullmatch(
        r"DeduplicationReport\(dry_run=True, memories=1, memories_after=1, pairs=\{.*\}, "
        r"model='offline', seconds=[\d.]+\)",
        repr(memories.clean(dry_run=True)),
    )


def test_a_snapshot_of_one_scope_ignores_what_another_user_s_memories_stand_for(
    memories: Memories,
) -> None:
    for text in ("Mia has a cat.", "mia has a cat"):
        done = memories.remember(text, user="Mia")
    memories.undo(done.number)  # kept apart, so that a snapshot says what memories stand for
    for text in ("Mia rows.", "mia rows"):
        memories.remember(text, user="Mia")
    memories.remember("Ben has a dog.", user="Ben")
    snapshot, _ = unread_snapshot(memories.store, NOBODY, Scope.of_user("Ben"))
    [row] = snapshot.rows
    assert not snapshot.stands_for
    assert row.memory.content == "Ben has a dog."


def test_a_store_is_cleaned_corrected_and_forgotten(memories: Memories) -> None:
    for text in ("Mia has a cat.", "Mia lives in Porto.", "mia has a cat"):
        memories.store.add(memories.store.new_memory(text, user="Mia"))
    assert memories.clean(dry_run=True).retired == 1
    assert len(memories.list(user="Mia")) == 3
    assert memories.clean().retired == 1
    [home] = [one for one in memories.list(user="Mia") if "Porto" in one.content]
    assert memories.update(home.id, "Mia lives in Faro.").id == home.id
    [found] = memories.recall("Where does Mia live?", user="Mia", k=1)
    assert found.content == "Mia lives in Faro."
    memories.forget(home.id)
    assert memories.forget_user("Mia").memories == 1
    assert memories.list(user="Mia") == []


def test_a_recall_keeps_to_what_is_asked_for(memories: Memories) -> None:
    def told(text: str, user: str, day: int, **fields: Any) -> str:
        at = datetime(2026, 5, day, tzinfo=UTC)
        return memories.remember(text, user=user, at=at, **fields).memory.id

    cat = told("Mia has a cat.", "Mia", 1, metadata={"from": "form"})
    dog = told("Mia has a dog.", "Mia", 9, is_private=True)
    boat = told("Jonas has a boat.", "Jonas", 5)

    def ids(**how: Any) -> set[str]:
        return {one.id for one in memories.recall("Who has what?", k=9, **how)}

    assert ids(user="Mia") == {cat, dog}
    assert ids(user=["Mia ", "Jonas"]) == {cat, dog, boat}
    assert ids(everyone=True) == {cat, boat}
    assert ids(everyone=True, private=True) == {cat, dog, boat}
    assert ids(user="Mia", metadata={"from": "form"}) == {cat}
    assert ids(user="Mia", category="nothing") == set() == ids(user="Mia", tags=["x"])
    may = datetime(2026, 5, 5, tzinfo=UTC)
    assert ids(everyone=True, private=True, since=may) == {dog, boat}
    assert ids(everyone=True, private=True, until=may) == {cat}


MATCHES = [
    ("everything about Ana", {"Ana works at Orbis.", "Ana lives in Faro."}),
    ("Ana's employer", set()),
    ("Ana Berg", set()),
    ("", set()),
    ("猫", set()),
    ("The API key ab-1x", {"The API key is ab-1x-secret."}),
    ("The API key ab-7y", set()),
    ("351912345678", {"Her number: +351 912 345 678."}),
    ("where Ana lives", {"Ana lives in Faro."}),
    ("ana@example.org", {"Write to ANA@example.org."}),
    ("the number 415 555 0123", {"Call +1-415-555-0123.", "Call (415) 555-0123."}),
    ("the number 415 555 012", set()),
    ("Wing A", {"Wing A is closed."}),
    ("Rose", {"Rose likes tea."}),
    ("red car", set()),
    ("red kite", {"The red kite is torn."}),
    ("石井のプロフィール", {"石井は神戸に住んでいる。"}),
    ("Leo", set()),
    ("plate KX-7731 / kx7731", {"Plate KX-7731 is Mia's.", "Her plate, kx7731, is new."}),
    ("Bob Tran / Robert Tran", {"Bob Tran sings.", "Robert Tran was hired."}),
    ("Tran / GmbH", set()),
]


@pytest.mark.parametrize(("description", "named"), MATCHES)
def test_a_description_names_no_more_than_it_says(description: str, named: set[str]) -> None:
    texts = {text for _, several in MATCHES for text in several}
    texts |= {
        "A rose is red.",
        "Anabel works at Orbis.",
        "The red lamp is new.",
        "Wing B is closed.",
        "Call 4155550123456.",
        "The API key is cd-2z-secret.",
        "Plate KX-7732 is Leon's.",
        "Orbis GmbH sells lamps.",
    }
    stored = [Memory(content=text, timestamp=START) for text in sorted(texts)]
    assert {one.content for one in matching(stored, description)} == named


@pytest.mark.parametrize(
    ("description", "named"),
    [
        ("Ana's employer", []),
        ("Ana's phone number", ["Ana's phone is new."]),
        ("Ana", ["Ana's phone is new.", "Ana rows.", "Leo is Ana's boss."]),
        ("Leo's employer", []),
        ("about Leo", ["Leo is Ana's boss."]),
        ("Leo's boss", ["Leo is Ana's boss."]),
    ],
)
def test_a_users_own_name_names_no_memory_by_itself(description: str, named: list[str]) -> None:
    texts = ("Ana's phone is new.", "Ana rows.", "Leo is Ana's boss.")
    stored = [Memory(content=text, user="Ana", timestamp=START) for text in texts]
    assert [one.content for one in matching(stored, description)] == named


def test_what_a_description_names_is_shown_and_then_forgotten(memories: Memories) -> None:
    for text in ("Ana works at Orbis.", "Mia likes Orbis."):
        memories.remember(text, user="Mia")
    [found] = memories.matching("Ana's work", user="Mia")
    memories.forget(found.id)
    assert [one.content for one in memories.list(user="Mia")] == ["Mia likes Orbis."]


def test_one_half_of_a_memory_is_updated_alone_or_with_the_whole_text(memories: Memories) -> None:
    both = memories.remember("Mia has a cat, and works at Orbis.", user="Mia").memory
    memories.update(both.id, "Nimbus", part="Orbis")
    assert [one.content for one in memories.recall("Mia", user="Mia")] == [
        "Mia has a cat, and works at Nimbus."
    ]
    memories.update(both.id, "Mia works at Nimbus.")  # the cat is left out, and comes back
    memories.undo(both.id)
    assert [one.content for one in memories.list(user="Mia")] == [
        "Mia has a cat, and works at Nimbus."
    ]


def test_the_few_memories_that_pass_a_filter_are_found_among_many(memories: Memories) -> None:
    far = memories.store.new_memory("Zoe sails.", user="Mia").model_copy(update={"tags": ("b",)})
    others = [memories.store.new_memory(f"Mia rows boat {n}.", user="Mia") for n in range(300)]
    of_tom = far.model_copy(update={"id": new_memory_id(), "user": "Tom"})
    memories.store.add_batch([*others, far, of_tom])
    found = memories.recall("Which boat does Mia row?", user="Mia", tags=["b"])
    assert [one.id for one in found] == [far.id]
    assert not memories.recall("Which boat does Mia row?", user="Mia", metadata={"a": 1})


def test_both_faces_take_the_same_arguments() -> None:
    """All but `hear`, `settle` and `exchange`, which only a bot needs."""
    for name in vars(Memories):
        if not name.startswith("_") and name not in ("store", "close"):
            mine, theirs = (
                [*inspect.signature(getattr(face, name)).parameters]
                for face in (Memories, ChatMemory)
            )
            assert mine == theirs, name


def test_threads_share_it(memories: Memories) -> None:
    def tell(n: int) -> None:
        memories.remember(f"Mia has {n} red kites.", user="Mia")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(tell, range(2, 12)))
    assert len(memories.list(user="Mia")) == 10


def test_closed_it_says_so_and_the_file_keeps_all(tmp_path: Path) -> None:
    with Memories(tmp_path / "mia.db", llm_provider="offline") as memories:
        memories.remember("Mia has a cat.", user="Mia")
    memories.close()
    with pytest.raises(MemoryPipelineError, match="closed"):
        memories.list(user="Mia")
    with Memories(tmp_path / "mia.db", llm_provider="offline") as memories:
        assert [one.content for one in memories.list(user="Mia")] == ["Mia has a cat."]


def test_another_program_s_database_is_not_written_to(tmp_path: Path) -> None:
    file = tmp_path / "theirs.db"
    with contextlib.closing(sqlite3.connect(file)) as theirs, theirs:
        theirs.execute("CREATE TABLE notes (text TEXT)")
    before = file.read_bytes()
    with pytest.raises(MemoryPipelineError, match="is another program's database; name another f"):
        Memories(file, llm_provider="offline")
    assert file.read_bytes() == before


def test_an_exchange_recalls_what_was_said_before_and_hears(tmp_path: Path) -> None:
    async def talk() -> None:
        async with open_chat_memory(data_dir=str(tmp_path), llm_provider="offline") as memory:
            assert await memory.exchange("I moved to Porto in 2021.", user="Mia") == []
            await memory.settle()
            found = await memory.exchange("Where did I move to?", user="Mia")
            assert [one.content for one in found] == ["Mia moved to Porto in 2021."]
            assert await memory.waiting() == 1

    asyncio.run(talk())


def test_a_missing_memory_is_a_lookup_error_too(memories: Memories) -> None:
    with pytest.raises(LookupError):
        memories.update("mem_000000000000", "x")


@pytest.mark.parametrize("again", ["Mia has a cat.", "Mia really has a cat!"])
def test_what_was_said_again_is_found_as_of_the_first_time(
    ledger_url: str, tmp_path: Path, again: str
) -> None:
    january, march, june = (datetime(2026, month, 1, tzinfo=UTC) for month in (1, 3, 6))
    with Memories(
        ledger_url=ledger_url, llm_provider="offline", data_dir=str(tmp_path)
    ) as memories:
        for text, at in (("Mia has a cat.", january), (again, june), ("Mia rows.", june)):
            memories.remember(text, user="Mia", at=at)

        def found(**times: Any) -> list[str]:
            return [one.content for one in memories.recall("cat", user="Mia", **times)]

        assert found(as_of=january - timedelta(days=1)) == []
        assert found(as_of=march) == ["Mia has a cat."]
        assert found(as_of=june) == found()
        assert len(found(until=march)) == 1
        assert found(since=january + timedelta(days=1), until=march) == []
