"""Audit, import and write-back as functions: progress by a callback, reports as values."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.api import ClientAPI
from chromadb.config import Settings

from memory import (
    Reading,
    Source,
    audit,
    import_memories,
    load_config,
    open_store,
    undo_write_back,
    write_back,
)
from memory.assembly import compare
from memory.errors import InputError, LedgerMissing
from memory.models import Question, Verdict
from memory.providers import OfflineModel

pytestmark = pytest.mark.usefixtures("forked_chroma")

TEXTS = ["Mia has a cat.", "mia has a cat", "Mia sails.", "Jonas rows."]


@contextlib.contextmanager
def opened(place: Path | str) -> Iterator[ClientAPI]:
    client = chromadb.PersistentClient(str(place), Settings(anonymized_telemetry=False))
    try:
        yield client
    finally:
        client.close()  # type: ignore[attr-defined] # the class that it is has it


@pytest.fixture
def notes(tmp_path: Path) -> Source:
    owners = [{"owner": "Mia"}, {"owner": "Mia"}, {"owner": "Mia"}, {"owner": ""}]
    with opened(tmp_path / "notes") as client:
        client.create_collection("memories", embedding_function=None).add(
            ids=["a", "b", "c", "d"],
            documents=TEXTS,
            embeddings=np.array([[1, 0], [1, 0], [0, 1], [1, 1]], dtype=np.float32),
            metadatas=[
                {**one, "time": f"2026-01-0{n}T00:00:00Z"} for n, one in enumerate(owners, 1)
            ],
        )
    return Source(chroma=str(tmp_path / "notes"), reading=Reading(user_key="owner"))


def rows_of(source: Source) -> list[str]:
    assert source.chroma is not None
    with opened(source.chroma) as client:
        return sorted(client.get_collection("memories", embedding_function=None).get()["ids"])


def test_a_store_is_audited_imported_and_written_back_from_a_program(
    notes: Source, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"data_dir": str(tmp_path / "data"), "llm_provider": "offline"}
    heard: list[tuple[int, int]] = []

    found = asyncio.run(audit(notes, **settings))
    assert found.report.found == 1
    [left] = found.left_out
    assert "has no owner" in str(left)
    assert not (tmp_path / "data").exists(), "an audit leaves nothing behind"
    with pytest.raises(LedgerMissing):
        asyncio.run(audit(**settings))

    done = asyncio.run(import_memories(notes, on_progress=lambda *at: heard.append(at), **settings))
    assert (done.read, done.memories_before, done.memories) == (3, 0, 2)
    assert sum(done.actions.values()) == 3
    assert (len(done.left_out), done.without_vector) == (1, 0)
    assert heard[-1] == (3, 3)
    again = asyncio.run(import_memories(notes, **settings))
    assert again.memories == 2
    assert asyncio.run(audit(**settings)).report.found == 0

    refused = write_back(notes, approve=lambda plan: len(plan.deletions) > 1, **settings)
    assert (len(refused.plan.deletions), refused.deleted) == (1, 0)
    assert rows_of(notes) == ["a", "b", "c", "d"]
    undo_file = tmp_path / "undo.jsonl"
    written = write_back(notes, approve=lambda _plan: True, undo_file=undo_file, **settings)
    assert (written.deleted, written.undo_files) == (1, (undo_file,))
    assert len(rows_of(notes)) == 3
    assert undo_write_back(undo_file).restored >= 1
    assert rows_of(notes) == ["a", "b", "c", "d"]


def test_chromas_setting_is_restored_by_the_first_run_that_can(
    notes: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run has written every row, so the others have only the setting to restore."""
    settings: dict[str, Any] = {"data_dir": str(tmp_path / "data"), "llm_provider": "offline"}
    asyncio.run(import_memories(notes, **settings))
    path = "memory.interchange.vector_stores.ChromaRows.set_sync_threshold"
    setting = resolve_name(path)

    def restores_nothing(rows: Any, writes: int) -> None:
        if writes == 1000:
            raise InputError("notes", "is gone")
        setting(rows, writes)

    def run() -> None:
        undo_file = tmp_path / "undo.jsonl"
        write_back(notes, approve=lambda _plan: True, undo_file=undo_file, **settings)

    with monkeypatch.context() as patched:
        patched.setattr(path, restores_nothing)
        for _ in range(2):
            with pytest.raises(InputError, match="is gone"):
                run()
    assert threshold_of(notes) == 10**9
    run()
    assert threshold_of(notes) == 1000


def threshold_of(source: Source) -> int:
    assert source.chroma is not None
    with opened(source.chroma) as client:
        collection: Any = client.get_collection("memories", embedding_function=None)
        return int(collection.configuration_json["hnsw"]["sync_threshold"])


def test_memories_of_ones_own_are_imported(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        config = load_config(settings={"data_dir": "data", "llm_provider": "offline"})
        with open_store(config) as store:
            new = [store.new_memory(text, user="Mia") for text in TEXTS]
        done = asyncio.run(import_memories(new, config))
        raw = asyncio.run(import_memories(new, config, raw=True, data_dir="raw"))
    assert (done.read, done.memories) == (4, 3)
    assert (raw.actions, raw.memories) == ({"add": 4}, 4)


def test_an_import_that_was_interrupted_is_known_to_the_write_back(
    tmp_path: Path, notes: Source
) -> None:
    def interrupt(_done: int, _whole: int) -> None:
        raise KeyboardInterrupt

    settings: dict[str, Any] = {"data_dir": str(tmp_path / "data"), "llm_provider": "offline"}
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(import_memories(notes, on_progress=interrupt, **settings))
    assert compare(notes, load_config(settings=settings)).plan.left_alone == ()
    asyncio.run(import_memories(notes, **settings))
    assert len(compare(notes, load_config(settings=settings)).plan.deletions) == 1


def test_an_import_without_a_model_leaves_no_question_waiting_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time that a question was answered, another import has stored a nearer text first."""
    config = load_config(settings={"data_dir": str(tmp_path), "llm_provider": "offline"})
    nearer = iter([f"Mia has owned boat 3 in Kiel since 201{year}." for year in range(2)])
    judge = OfflineModel.judge

    async def judged_too_late(model: OfflineModel, question: Question) -> Verdict:
        if (text := next(nearer, None)) is not None:
            with open_store(config) as other:
                other.add(other.new_memory(text, user="Mia"))
        return await judge(model, question)

    with open_store(config) as store:
        store.add(store.new_memory("In the harbour of Kiel Mia owns a boat, number 3.", user="Mia"))
        new = store.new_memory("Mia owns boat 3 in the harbour of Kiel.", user="Mia")
    monkeypatch.setattr(OfflineModel, "judge", judged_too_late)
    done = asyncio.run(import_memories([new], config))
    assert next(nearer, None) is None
    assert done.waiting == 0


def test_a_source_names_one_store() -> None:
    with pytest.raises(InputError, match="exactly one store"):
        asyncio.run(audit(Source(), llm_provider="offline"))
