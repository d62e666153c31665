"""Google ADK's memory service: a session may be added again, an app and a user meet nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from memory.errors import InputError

pytest.importorskip("google.adk.memory.base_memory_service")
from google.adk.cli.service_registry import ServiceRegistry, load_services_module
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from memory.adapters.adk import DedupMemoryService
from memory.text import undated

pytestmark = pytest.mark.framework
MIA: dict[str, Any] = {"app_name": "travel", "user_id": "Mia"}
SHOP: dict[str, Any] = {"app_name": "shop", "user_id": "Mia"}
PORTO = "I moved to Porto in 2021."


def said(text: str, author: str = "user", **fields: Any) -> Event:
    parts = [types.Part(text=text)]
    fields = {"id": f"{author}-{text}", "timestamp": 1_790_000_000.0, **fields}
    return Event(author=author, content=types.Content(role=author, parts=parts), **fields)


def session(*events: Event, session_id: str = "s1", **who: str) -> Session:
    return Session(id=session_id, events=list(events), **(who or MIA))


async def texts(service: DedupMemoryService, query: str, **who: str) -> list[str]:
    found = await service.search_memory(query=query, **(who or MIA))
    shown = [str((one.content.parts or [])[0].text) for one in found.memories]
    assert all(text.startswith("[") for text in shown), "each is dated"
    return [undated(text) for text in shown]


def driven(
    folder: Path, talk: Callable[[DedupMemoryService], Awaitable[None]], **settings: Any
) -> None:
    async def run() -> None:
        service = DedupMemoryService(f"memdedup://{folder}", llm_provider="offline", **settings)
        try:
            await talk(service)
        finally:
            await service.close()

    asyncio.run(run())


def test_a_session_that_is_added_again_adds_nothing(tmp_path: Path) -> None:
    first, second = said(PORTO), said("I teach cello.")

    async def talk(service: DedupMemoryService) -> None:
        for events in ([first], [first], [first, second], [first, second]):
            await service.add_session_to_memory(session(*events))
        assert sorted(await texts(service, "Porto, cello")) == [
            "Mia moved to Porto in 2021.", "Mia teaches cello.",
        ]  # fmt: skip
        await service.add_session_to_memory(session(said(PORTO, id="e9"), session_id="s2"))
        assert len(await texts(service, "Porto, cello")) == 2

    driven(tmp_path, talk)


def test_events_are_a_part_of_a_session_and_only_what_the_user_says_is_remembered(
    tmp_path: Path,
) -> None:
    thought = types.Content(parts=[types.Part(text="I moved to Rome.", thought=True)])
    silent = types.Content(parts=[types.Part(function_call=types.FunctionCall(name="look"))])
    events = [
        said("I moved to Oslo in 2019.", "guide"),
        said("I moved to", partial=True),
        Event(author="user", content=thought),
        Event(author="user", content=silent),
        Event(author="user"),
        said(PORTO),
    ]

    async def talk(service: DedupMemoryService) -> None:
        await service.add_events_to_memory(**MIA, events=events, session_id="s1")
        await service.add_session_to_memory(session(*events))
        assert await texts(service, "moved") == ["Mia moved to Porto in 2021."]
        await service.add_events_to_memory(**MIA, events=[said("I teach cello.", id="")])
        assert len(await texts(service, "moved to Porto, cello")) == 2

    driven(tmp_path, talk)


def test_no_app_and_no_user_reads_anothers_memories(tmp_path: Path) -> None:
    tom, other = {**MIA, "user_id": "Tom"}, {**MIA, "app_name": "../travel"}

    async def talk(service: DedupMemoryService) -> None:
        await service.add_session_to_memory(session(said(PORTO)))
        await service.add_session_to_memory(session(said(PORTO), **other))
        assert await texts(service, "Porto", **tom) == []
        [kept] = (await service.search_memory(**MIA, query="Porto")).memories
        await service.delete_memory(**tom, memory_id=kept.id)
        await service.delete_memory(**other, memory_id=kept.id)
        assert await texts(service, "Porto") == ["Mia moved to Porto in 2021."]
        await service.delete_memory(**MIA, memory_id=kept.id)
        assert await texts(service, "Porto") == []
        assert await texts(service, "Porto", **other) == ["Mia moved to Porto in 2021."]

    driven(tmp_path, talk)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["%2E%2E%2Ftravel", "travel"]


def test_users_whose_names_hold_a_slash_share_no_conversation(tmp_path: Path) -> None:
    """Mia/s in session 1 is not Mia in session s/1: the same event is known to one of them only."""

    async def talk(service: DedupMemoryService) -> None:
        await service.add_session_to_memory(session(said(PORTO), session_id="s/1"))
        slash = {**MIA, "user_id": "Mia/s"}
        await service.add_session_to_memory(session(said(PORTO), session_id="1", **slash))
        assert await texts(service, "Porto", **slash) == ["Mia/s moved to Porto in 2021."]

    driven(tmp_path, talk)


def test_what_was_deleted_does_not_come_back_with_its_session(tmp_path: Path) -> None:
    async def talk(service: DedupMemoryService) -> None:
        await service.add_session_to_memory(session(said(PORTO)))
        [kept] = (await service.search_memory(**MIA, query="Porto")).memories
        for name in (kept.id, kept.id, "unknown", None):
            await service.delete_memory(**MIA, memory_id=name)
        await service.add_session_to_memory(session(said(PORTO)))
        assert await texts(service, "Porto") == []

    driven(tmp_path, talk)


def test_an_explicit_memory_goes_through_the_deduplicator(tmp_path: Path) -> None:
    def entry(text: str, **fields: Any) -> MemoryEntry:
        return MemoryEntry(content=types.Content(parts=[types.Part(text=text)]), **fields)

    async def talk(service: DedupMemoryService) -> None:
        kept = entry("Mia has a cat.", timestamp="2026-01-02T03:04:05", custom_metadata={"n": 1})
        await service.add_memory(**MIA, memories=[kept], custom_metadata={"from": "crm"})
        await service.add_memory(**MIA, memories=[entry("mia has a cat")])
        assert len(await texts(service, "cat")) == 1
        with pytest.raises(InputError, match="timestamp 'soon' is no ISO 8601 time"):
            await service.add_memory(**MIA, memories=[entry("Mia has a dog.", timestamp="soon")])
        with pytest.raises(InputError, match="not an empty one"):
            await service.add_memory(**MIA, memories=[entry(" ")])

    driven(tmp_path, talk)


def test_a_ledger_that_is_named_belongs_to_one_app(tmp_path: Path) -> None:
    async def talk(service: DedupMemoryService) -> None:
        await service.add_session_to_memory(session(said(PORTO)))
        for _ in range(3):
            with pytest.raises(InputError, match="holds the memories of app 'travel'"):
                await texts(service, "Porto", app_name="shop", user_id="Mia")
            with pytest.raises(InputError, match="holds the memories of app 'travel'"):
                await service.add_session_to_memory(session(said(PORTO), **SHOP))
        assert await texts(service, "Porto") == ["Mia moved to Porto in 2021."]

    async def another_process(service: DedupMemoryService) -> None:
        for _ in range(2):
            with pytest.raises(InputError, match="holds the memories of app 'travel'"):
                await texts(service, "Porto", **SHOP)

    url = f"sqlite:///{tmp_path / 'one.db'}"
    driven(tmp_path / "data", talk, ledger_url=url)
    driven(tmp_path / "data", another_process, ledger_url=url)


def test_an_app_that_is_refused_leaves_nothing_open(tmp_path: Path) -> None:
    """Nor does it extract what waits of the app whose ledger it is."""

    async def talk(service: DedupMemoryService) -> None:
        await service.add_session_to_memory(session(said(PORTO)))
        before = sorted(thread.name for thread in threading.enumerate())
        for _ in range(3):
            with pytest.raises(InputError, match="holds the memories of app 'travel'"):
                await texts(service, "Porto", **SHOP)
        left = [thread.name for thread in threading.enumerate() if thread.name == "memory"]
        assert len(left) == before.count("memory") == 1

    driven(tmp_path / "data", talk, ledger_url=f"sqlite:///{tmp_path / 'one.db'}")


def test_services_yaml_registers_it(tmp_path: Path) -> None:
    (tmp_path / "services.yaml").write_text(
        "services:\n  - scheme: memdedup\n    type: memory\n"
        "    class: memory.adapters.adk.DedupMemoryService\n"
    )
    load_services_module(str(tmp_path))
    from google.adk.cli.service_registry import get_service_registry

    registry: ServiceRegistry = get_service_registry()
    uri = f"memdedup://{tmp_path / 'data'}"
    service = registry.create_memory_service(uri, agents_dir=str(tmp_path))
    assert isinstance(service, DedupMemoryService)
    asyncio.run(service.add_session_to_memory(session(said("I see."))))
    asyncio.run(service.close())
    assert (tmp_path / "data" / "travel" / "ledger.db").exists()
