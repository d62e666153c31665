"""Turns of a conversation, handed to an extractor, and what lives after it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from memory.extractor import MemoryExtractor
from memory.models import ExtractionResult, Turn
from memory.store import MemoryStore
from tests.doubles import START

CAT, SAILS = "Mia adopted a cat.", "Jonas sails on the lake."


def turn(text: str, n: int = 0, speaker: str = "Mia", **fields: object) -> Turn:
    known = {"id": str(n), "conversation": "c", "at": START + timedelta(minutes=n)}
    return Turn.model_validate({"speaker": speaker, "text": text, **known, **fields})


def hook(extractor: MemoryExtractor, *turns: Turn) -> ExtractionResult:
    return asyncio.run(extractor.extract_and_store(turns))


def live(store: MemoryStore) -> list[tuple[str | None, str]]:
    return [(memory.user, memory.content) for memory in store.memories()]
