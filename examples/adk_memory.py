"""A Google ADK session that is added to memory twice, and adds nothing twice: adk_memory.py.

    pip install '.[adk]'

Needs no key and no agent: what a runner would hand over after each turn is written out here.

It prints:

    added for the first time: 2 memories
    added for the second time: 2 memories
    remembered: [Mon 2026-01-05] Mia teaches cello at the music school.
    remembered: [Mon 2026-01-05] Mia moved to Porto in 2021.
    after delete_memory: 1 memories
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from datetime import UTC, datetime

from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types

from memory.adapters.adk import DedupMemoryService

TOLD = datetime(2026, 1, 5, 12, tzinfo=UTC)
TALK = (
    ("user", "I moved to Porto in 2021."),
    ("guide", "How do you like it?"),
    ("user", "I moved to Porto in 2021. I teach cello at the music school."),
)


async def main() -> None:
    sessions = InMemorySessionService()
    session = await sessions.create_session(app_name="travel", user_id="Mia")
    for author, said in TALK:
        content = types.Content(role=author, parts=[types.Part(text=said)])
        await sessions.append_event(
            session, Event(author=author, content=content, timestamp=TOLD.timestamp())
        )
    mia = {"app_name": "travel", "user_id": "Mia"}
    with tempfile.TemporaryDirectory() as folder:
        service = DedupMemoryService(f"memdedup://{folder}")
        for time in ("first", "second"):
            await service.add_session_to_memory(session)
            found = await service.search_memory(**mia, query="Porto, cello")
            sys.stdout.write(f"added for the {time} time: {len(found.memories)} memories\n")
        said = types.Content(parts=[types.Part(text="mia teaches cello at the music school")])
        await service.add_memory(
            **mia, memories=[MemoryEntry(content=said, timestamp=TOLD.isoformat())]
        )
        found = await service.search_memory(**mia, query="Porto, cello, school")
        for one in found.memories:
            sys.stdout.write(f"remembered: {one.content.parts[0].text}\n")
        await service.delete_memory(**mia, memory_id=found.memories[0].id)
        left = await service.search_memory(**mia, query="Porto, cello")
        sys.stdout.write(f"after delete_memory: {len(left.memories)} memories\n")
        await service.close()


if __name__ == "__main__":
    asyncio.run(main())
