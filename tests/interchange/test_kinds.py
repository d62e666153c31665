"""Rows of several kinds in one store: what is no memory is never merged, and never deleted."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings

from memory import Reading, Source, audit, import_memories, undo_write_back, write_back
from memory.assembly import ImportReport, WriteBackReport, compare, open_store
from memory.config import load_config
from memory.deduplicator import MemoryDeduplicator
from memory.errors import InputError, WrongArgument
from memory.models import Memory
from memory.providers import OfflineModel
from tests.interchange.backs import replace

pytestmark = pytest.mark.usefixtures("forked_chroma")

AT = "2026-05-01 08:00:00"
Item = tuple[str, str, dict[str, Any]]
TABLE = """
    CREATE TABLE store (
        prefix text NOT NULL, key text NOT NULL, value text NOT NULL,
        created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
        updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
        expires_at TIMESTAMP, ttl_minutes REAL, PRIMARY KEY (prefix, key)
    )
"""  # as SqliteStore's migrations leave it


def langgraph(file: Path, items: Iterable[Item]) -> Source:
    with closing(sqlite3.connect(file)) as store, store:
        store.execute(TABLE)
        for prefix, key, value in items:
            row = [prefix, key, json.dumps(value), AT, AT]
            store.execute("INSERT INTO store VALUES (?, ?, ?, ?, ?, NULL, NULL)", row)
    return Source(langgraph=str(file))


def items_of(source: Source) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Every column of every item as the database keeps it."""
    with closing(sqlite3.connect(str(source.langgraph))) as store:
        rows = store.execute("SELECT prefix, key, typeof(value), * FROM store").fetchall()
    return {(row[0], row[1]): row[2:] for row in rows}


def no_memories() -> list[Item]:
    """31 items that repeat each other's texts: they differ in what they are."""
    todos = [
        ("todos.mia", f"t{n}{0 if status == 'open' else 1}", {"text": text, "status": status})
        for n, text in enumerate(("Call the bank.", "Buy oat milk.", "Mend the sail."))
        for status in ("open", "done")
    ]
    messages = [
        ("messages.mia", f"m{n}{len(role)}", {"content": text, "role": role})
        for n, text in enumerate(
            ("Yes, please.", "Thank you!", "See you on Monday.", "Good night.")
        )
        for role in ("user", "assistant")
    ]
    examples = [
        ("examples", f"{n}{len(label)}", {"text": text, "label": label})
        for n, text in enumerate(("It sails well.", "The boat leaks.", "What a day."))
        for label in ("good", "bad")
    ]
    events = [
        ("events.mia", f"e{n}", {"text": "Mia opened the app.", "type": kind})
        for n, kind in enumerate(("start", "resume", "refresh", "retry", "link"))
    ]
    scores = [
        ("scores", f"s{n}", {"content": "The answer named the right boat.", "score": n / 8})
        for n in range(6)
    ]
    return [*todos, *messages, *examples, *events, *scores]


def settings(folder: Path) -> dict[str, Any]:
    return {"data_dir": str(folder / "data"), "llm_provider": "offline"}


def brought_in(source: Source, folder: Path) -> ImportReport:
    return asyncio.run(import_memories(source, **settings(folder)))


def written(source: Source, folder: Path, **options: Any) -> WriteBackReport:
    undo = folder / "undo.jsonl"
    return write_back(
        source, approve=lambda _plan: True, undo_file=undo, **options, **settings(folder)
    )


def test_a_store_of_several_kinds_asks_which_are_memories(tmp_path: Path) -> None:
    memories: list[Item] = [
        ("memories.mia", str(n), {"text": text})
        for n, text in enumerate(["Mia sails.", "mia sails", "Mia has a cat."])
    ]
    source = langgraph(tmp_path / "store.db", [*memories, *no_memories()])
    before = items_of(source)
    with pytest.raises(InputError, match=r"several kinds; which are memories\?") as asked:
        brought_in(source, tmp_path)
    said = str(asked.value)
    assert "memories.mia (3, such as 'Mia sails.')" in said
    assert "todos.mia (6 with status, such as 'Call the bank.')" in said
    assert "--namespace NAME" in said
    with pytest.raises(InputError, match="several kinds"):
        asyncio.run(audit(source, **settings(tmp_path)))
    chosen = Source(langgraph=source.langgraph, namespaces=("memories",))
    done = brought_in(chosen, tmp_path)
    assert done.notes[0] == "namespaces read: memories.mia (3, such as 'Mia sails.')"
    assert "namespaces left alone: events.mia (5), examples (6)" in done.notes[1]
    back = written(chosen, tmp_path)
    assert (back.deleted, back.updated) == (1, 0)
    assert "namespaces read: memories.mia (3" in back.notes[0]
    assert before.items() >= items_of(source).items()


def test_items_of_one_kind_that_are_no_memories_are_left_where_they_are(tmp_path: Path) -> None:
    todos = [item for item in no_memories() if item[0] == "todos.mia"]
    done = brought_in(langgraph(tmp_path / "store.db", todos), tmp_path)
    assert done.read == 0
    assert "do not look like memories: todos.mia (6)" in done.notes[1]


@pytest.mark.parametrize("raw", [False, True], ids=["import", "import --raw and dedup"])
def test_31_items_that_are_no_memories_are_all_kept_even_if_all_are_read(
    tmp_path: Path, raw: bool
) -> None:
    rows = no_memories()
    source = langgraph(tmp_path / "store.db", rows)
    source = Source(langgraph=source.langgraph, namespaces=("*",))
    before = items_of(source)
    assert len(before) == 31
    done = asyncio.run(import_memories(source, raw=raw, **settings(tmp_path)))
    assert (done.read, done.memories) == (31, 31)
    assert "fields that keep rows apart: label, role, score, status, type;" in done.notes[-1]
    with open_store(load_config(None, settings=settings(tmp_path))) as store:
        report = asyncio.run(MemoryDeduplicator(store, OfflineModel()).deduplicate_all())
    assert (report.retired, report.memories_after) == (0, 31)
    back = written(source, tmp_path)
    assert (back.deleted, back.updated) == (0, 0)
    assert items_of(source) == before


def test_rows_that_were_merged_here_and_differ_in_kind_both_stay_there(tmp_path: Path) -> None:
    """An earlier version merged them, or a memory that was told here replaced both."""
    items = [("memories", status, {"text": "Call Ida.", "status": status}) for status in "ab"]
    source = langgraph(tmp_path / "store.db", items)
    brought_in(source, tmp_path)
    with open_store(load_config(None, settings=settings(tmp_path))) as store:
        older, newer = store.memories()
        replace(store, older, newer)
    plan = compare(source, load_config(None, settings=settings(tmp_path))).plan
    assert plan.deletions == ()
    assert [one.apart for one in plan.staying] == [("status",)]
    allowed = compare(
        source, load_config(None, settings=settings(tmp_path)), across=["status"]
    ).plan
    assert len(allowed.deletions) == 1
    with pytest.raises(WrongArgument, match="'colour' is none of"):
        compare(source, load_config(None, settings=settings(tmp_path)), across=["colour"])


def test_the_kind_inside_of_a_schema_of_langmem_keeps_items_apart(tmp_path: Path) -> None:
    items = [
        ("memories", n, {"kind": "Memory", "content": {"content": "Call Ida.", "status": status}})
        for n, status in (("1", "open"), ("2", "done"), ("3", "done"))
    ]
    source = langgraph(tmp_path / "store.db", items)
    source = Source(langgraph=source.langgraph, namespaces=("memories",))
    assert brought_in(source, tmp_path).memories == 2
    assert written(source, tmp_path).deleted == 1


def test_a_mixed_store_of_300_is_right_byte_for_byte_and_so_is_its_undo(tmp_path: Path) -> None:
    facts = [f"Mia keeps {n} spare ropes in locker {n * 3}." for n in range(60)]
    variants = (str, str.lower, str.upper, lambda text: text.rstrip("."))
    memories: list[Item] = [
        (
            "memories.mia",
            f"{n}-{m}",
            {"text": variant(fact), "share": 1.50, "more": {"née": [1e16]}},
        )
        for n, fact in enumerate(facts)
        for m, variant in enumerate(variants[: 4 if n < 20 else 3])
    ]
    others = [
        *no_memories(),
        *(("files", f"/{n}.md", {"text": "Mia sails.", "path": "x"}) for n in range(69)),
    ]
    source = langgraph(tmp_path / "store.db", [*memories, *others])
    before = items_of(source)
    assert len(before) == 300
    source = Source(langgraph=source.langgraph, namespaces=("memories",))
    brought_in(source, tmp_path)
    back = written(source, tmp_path)
    assert (back.deleted, back.updated) == (140, 0)
    after = items_of(source)
    assert before.items() >= after.items()
    assert Counter(key.partition("-")[0] for prefix, key in after if prefix == "memories.mia") == (
        Counter(map(str, range(60)))
    )
    assert undo_write_back(tmp_path / "undo.jsonl").restored == 140
    assert items_of(source) == before


# --- Chroma and Qdrant ----------------------------------------------------------------------------


def chroma(folder: Path, texts: list[str], metadatas: list[dict[str, Any]]) -> Source:
    client = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
    client.create_collection("memories", embedding_function=None).add(
        ids=[f"row-{n}" for n in range(len(texts))],
        embeddings=np.ones((len(texts), 2), dtype=np.float32),
        documents=texts,
        metadatas=metadatas,  # type: ignore[arg-type] # chromadb's own aliases
    )
    client.close()  # type: ignore[attr-defined] # the class that it is has it
    return Source(chroma=str(folder))


def rows_of(source: Source) -> dict[str, tuple[str, Any]]:
    client = chromadb.PersistentClient(str(source.chroma), Settings(anonymized_telemetry=False))
    page = client.get_collection("memories", embedding_function=None).get()
    client.close()  # type: ignore[attr-defined] # the class that it is has it
    rows = zip(page["ids"], page["documents"] or [], page["metadatas"] or [], strict=True)
    return {name: (document, dict(metadata)) for name, document, metadata in rows}


@pytest.mark.drill
def test_messages_about_70_facts_become_70_rows_whatever_their_ids_and_channels(
    tmp_path: Path,
) -> None:
    facts = [
        f"{who} keeps {n} spare ropes in locker {n * 3}." for n in range(14) for who in "MJIBL"
    ]
    texts = [facts[n % 70] if n < 140 else facts[n % 70].lower() for n in range(300)]
    metadatas = [
        {
            "msg_id": f"m-{n}", "channel": ("boats", "general", "help")[n % 3],
            "username": facts[n % 70][0], "ts": 1_777_000_000 + n,
        }
        for n in range(300)
    ]  # fmt: skip
    source = chroma(tmp_path / "theirs", texts, metadatas)
    reading = Reading(user_key="username", time_key="ts")
    source = Source(chroma=source.chroma, reading=reading)
    done = brought_in(source, tmp_path)
    assert (
        "do not keep rows apart: channel (names a place), msg_id (nearly unique)" in done.notes[0]
    )
    before = rows_of(source)
    back = written(source, tmp_path)
    assert {name for one in back.plan.deletions for name in one.differs_in} == {
        "msg_id", "channel", "ts",
    }  # fmt: skip
    after = rows_of(source)
    assert (len(after), back.updated) == (70, 0)
    assert len({text.lower() for text, _ in after.values()}) == 70
    assert before.items() >= after.items()
    undo_write_back(tmp_path / "undo.jsonl")
    assert rows_of(source) == before


@pytest.mark.parametrize(
    ("options", "left"),
    [({}, 4), ({"kind_keys": ("channel",)}, 6), ({"across": ("role",)}, 2)],
    ids=["as it is", "--kind-key channel", "--across role"],
)
def test_rows_of_chroma_differ_in_kind_as_options_say(
    tmp_path: Path, options: dict[str, Any], left: int
) -> None:
    rows = [
        (text, role, channel)
        for text, channel in (("Mia sails.", "a"), ("Mia sails.", "b"), ("Mia has a cat.", "a"))
        for role in ("user", "assistant")
    ]
    metadatas = [
        {"user": "Mia", "created_at": 1_777_000_000, "messageRole": role, "channel": channel}
        for _, role, channel in rows
    ]
    if "across" in options:
        options = {"across": ("messageRole",)}
    source = chroma(tmp_path / "theirs", [text for text, *_ in rows], metadatas)
    source = Source(chroma=source.chroma, reading=Reading(**options))
    assert brought_in(source, tmp_path).memories == left
    written(source, tmp_path)
    assert len(rows_of(source)) == left


def test_a_field_that_no_row_has_is_named(tmp_path: Path) -> None:
    source = langgraph(tmp_path / "store.db", [("memories", "1", {"text": "Mia sails."})])
    for reading in (Reading(kind_keys=("colour",)), Reading(across=("colour",))):
        wrong = Source(langgraph=source.langgraph, reading=reading)
        with pytest.raises(InputError, match="no memory has the field 'colour'; there are: "):
            brought_in(wrong, tmp_path)
    assert not (tmp_path / "data").exists()


@pytest.mark.framework
def test_points_of_qdrant_that_differ_in_kind_all_stay(tmp_path: Path) -> None:
    qdrant = pytest.importorskip("qdrant_client")
    from qdrant_client import models

    client = qdrant.QdrantClient(path=str(tmp_path / "theirs"))
    client.create_collection(
        "memories", vectors_config=models.VectorParams(size=2, distance=models.Distance.COSINE)
    )
    told = [("open", 1), ("done", 1), ("done", 2)]
    payloads = [
        {"text": "Call Ida.", "user": "Mia", "created_at": AT + "+00:00", "status": status}
        for status, _ in told
    ]
    client.upsert(
        "memories",
        [
            models.PointStruct(id=str(UUID(int=n + 1)), vector=[1.0, 0.0], payload=payload)
            for n, payload in enumerate(payloads)
        ],
    )
    client.close()
    source = Source(qdrant=str(tmp_path / "theirs"), trust=True)
    assert brought_in(source, tmp_path).memories == 2
    assert written(source, tmp_path).deleted == 1


# --- memories that are told here ------------------------------------------------------------------


def test_what_keeps_rows_apart_keeps_later_memories_apart_too(tmp_path: Path) -> None:
    """A todo is compared with todos of its status only, and with nothing that has none."""
    items = [("memories", status, {"text": "Call Ida.", "status": status}) for status in "ab"]
    brought_in(langgraph(tmp_path / "store.db", items), tmp_path)
    told = Memory(user="memories", content="Call Ida.", timestamp=datetime(2026, 6, 1, tzinfo=UTC))
    done = asyncio.run(import_memories([told], **settings(tmp_path)))
    assert done.memories == 3
