"""What happens when the disk is full, a server goes away, or several processes share a store."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from memory.assembly import build_deduplicator, build_extractor, open_store
from memory.config import Config, LLMConfig, MemoryConfig
from memory.deduplicator import MemoryDeduplicator
from memory.errors import LedgerError
from memory.ledger import Ledger
from memory.models import Turn
from memory.providers import OfflineModel
from memory.store import MemoryStore
from memory.upkeep import examine
from tests import servers
from tests.conftest import MakeMemory
from tests.doubles import START, PlacedEmbedder, ScriptedModel

ROOT = Path(__file__).parent.parent


class Disk:
    """How many pages a database may have; SQLite's own limit stands in for a full disk."""

    def __init__(self) -> None:
        self.pages = 2**30


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()

    def limit(connection: sa.Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count={disk.pages}")

    sa.event.listen(sa.Engine, "begin", limit)
    yield disk
    sa.event.remove(sa.Engine, "begin", limit)


def test_a_full_disk_is_said_nothing_is_half_written_and_it_goes_on_when_there_is_room(
    store: MemoryStore, model: ScriptedModel, disk: Disk, make_memory: MakeMemory
) -> None:
    deduplicator = MemoryDeduplicator(store, model)
    kept = asyncio.run(deduplicator.check_and_merge(make_memory("Mia sails.")))
    disk.pages = 1  # SQLite takes it as "no more than there are"
    long = make_memory("Mia " + "reads " * 2_000)
    with pytest.raises(LedgerError, match="no room left on its disk; make room and try again"):
        asyncio.run(deduplicator.check_and_merge(long))
    assert list(store.memories()) == [kept]
    assert examine(store) == []
    disk.pages = 2**30
    asyncio.run(deduplicator.check_and_merge(long))
    assert [memory.id for memory in store.memories()] == [kept.id, long.id]
    assert examine(store) == []


def test_turns_that_found_no_room_are_extracted_later(
    store: MemoryStore, disk: Disk, embedder: PlacedEmbedder
) -> None:
    offline = OfflineModel()
    config = Config()
    extractor = build_extractor(store, config, offline)
    turn = Turn(speaker="Mia", text="I adopted a cat. " + "Lovely! " * 1_000, at=START)
    disk.pages = 1
    with pytest.raises(LedgerError, match="no room"):
        asyncio.run(extractor.extract_and_store([turn]))
    disk.pages = 2**30
    asyncio.run(extractor.extract_and_store([turn]))
    assert [memory.content for memory in store.memories()] == ["Mia adopted a cat."]


# --- servers that go away -------------------------------------------------------------------------


def test_postgresql_that_is_not_there_is_one_clear_error() -> None:
    with pytest.raises(LedgerError, match=r"cannot be reached .*memory\.ledger_url"):
        Ledger.create("postgresql+psycopg://bob:s3cret@127.0.0.1:9/db")


def test_connections_that_postgresql_closed_are_made_again(
    postgres_url: str, embedder: PlacedEmbedder, make_memory: MakeMemory
) -> None:
    with MemoryStore(Ledger.create(postgres_url), embedder) as store:
        store.add(make_memory("Mia sails."))
        other = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT")
        with other.connect() as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        other.dispose()
        store.add(make_memory("Mia dives."))
        assert store.counts().live == 2


def test_a_chroma_server_that_goes_away_is_searched_around_and_nothing_is_lost(
    tmp_path: Path, make_memory: MakeMemory, caplog: pytest.LogCaptureFixture
) -> None:
    with servers.chroma_server() as port:
        search = {"vectors_mb": 0, "chroma_url": f"http://127.0.0.1:{port}"}
        config = _config(tmp_path, search=search)
        store = open_store(config)
        store.index.rebuild()
        assert store.index.name == "Chroma server"
        store.add(make_memory("Mia keeps a parrot.", user="Mia"))
    with store:
        deduplicator = build_deduplicator(store, config, OfflineModel())
        asyncio.run(deduplicator.check_and_merge(make_memory("mia keeps a parrot!", user="Mia")))
        asyncio.run(deduplicator.check_and_merge(make_memory("Mia keeps a horse.", user="Mia")))
        assert {memory.content for memory in store.memories()} == {
            "Mia keeps a parrot.", "Mia keeps a horse.",
        }  # fmt: skip
    assert "similarity query failed, searching exactly from here on" in caplog.text


def test_two_processes_on_one_chroma_server_find_what_the_other_wrote(
    tmp_path: Path, postgres_url: str, chroma_port: int, make_memory: MakeMemory
) -> None:
    search = {"vectors_mb": 0, "chroma_url": f"http://127.0.0.1:{chroma_port}"}
    config = _config(tmp_path, ledger_url=postgres_url, search=search)
    with open_store(config) as one, open_store(config) as two:
        memory = one.add(make_memory("Mia keeps a parrot.", user="Mia"))
        for store in (one, two):
            store.index.rebuild()
            assert store.index.disagreement() == ""
        found = two.find_similar("Mia keeps a parrot. Yes.", 0.5, user="Mia")
        assert found is not None
        assert found.memory.id == memory.id
        one.forget(memory.id)
        assert two.find_similar("Mia keeps a parrot. Yes.", 0.5, user="Mia") is None
        assert one.scrub()


# --- several processes ----------------------------------------------------------------------------


def test_a_second_process_searches_exactly_and_both_see_all_writes_at_once(
    tmp_path: Path, make_memory: MakeMemory, caplog: pytest.LogCaptureFixture
) -> None:
    config = _config(tmp_path, search={"vectors_mb": 0})
    with open_store(config) as owner:
        owner.index.rebuild()
        assert owner.index.name == "Chroma"
        with open_store(config) as guest:
            for writer, reader, text in (
                (owner, guest, "Mia keeps a parrot."),
                (guest, owner, "Jonas bakes bread."),
            ):
                written = writer.add(make_memory(text, user="Mia"))
                found = reader.find_similar(text + " Yes.", 0.5, user="Mia")
                assert found is not None
                assert found.memory.id == written.id
            assert guest.index.name == "exact search"
            assert caplog.text.count("is in use by another process") == 1
    with open_store(config) as next_owner:
        assert next_owner.index.disagreement() == ""
        assert next_owner.index.name == "Chroma"


@pytest.mark.drill
def test_a_chat_a_batch_and_imports_side_by_side_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("memory:\n  data_dir: data\nllm:\n  provider: offline\n")
    facts = [f"Mia {verb} the {thing}." for verb in ("sold", "painted") for thing in THINGS]
    for number in range(2):
        told = (
            f'{{"content": "{fact}", "user": "Mia", "timestamp": "2026-05-0{number + 1}T08:00Z"}}\n'
            for fact in facts
        )
        (tmp_path / f"{number}.jsonl").write_text("".join(told))
    commands = [
        ["memory", "import", "0.jsonl"],
        ["memory", "import", "1.jsonl"],
        ["orchestrator", "--deduplicate-memories", "--user", "Mia"],
        ["orchestrator", "--user", "Mia"],
    ]
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-m", *command],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    said = [process.communicate("I adopted a parrot.\n", timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0] * len(commands), said
    with open_store(_config(tmp_path)) as store:
        kept = sorted(memory.content for memory in store.memories())
        assert kept == sorted([*facts, "Mia adopted a parrot."])
        assert [finding for finding in examine(store) if finding.kind != "yours"] == []


THINGS = ["accordion", "bicycle", "canoe", "drum", "easel", "flute", "globe", "hammock"]


def test_two_extractors_at_the_same_pending_turns_ask_the_model_once(
    store: MemoryStore, tmp_path: Path, embedder: PlacedEmbedder, model: ScriptedModel
) -> None:
    config = Config()
    turn = Turn(speaker="Mia", text="I adopted a cat.", at=START, id="1")
    first = build_extractor(store, config, OfflineModel())
    with MemoryStore(Ledger.create(f"sqlite:///{store.ledger.name}"), embedder) as again:
        second = build_extractor(again, config, OfflineModel())

        async def both() -> list[int]:
            results = await asyncio.gather(
                first.extract_and_store([turn]), second.extract_and_store([turn])
            )
            return [result.extracted for result in results]

        assert sorted(asyncio.run(both())) == [0, 1]
    assert [memory.content for memory in store.memories()] == ["Mia adopted a cat."]


def _config(folder: Path, **memory: object) -> Config:
    section = {"data_dir": str(folder / "data"), **memory}
    return Config(memory=MemoryConfig.model_validate(section), llm=LLMConfig(provider="offline"))
