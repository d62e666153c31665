"""A Chroma folder as several programs would have filled it: four layouts in one collection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
from chromadb.config import Settings

USERS = 20
_AT_ONCE = 5_000
_START = datetime(2026, 1, 1, tzinfo=UTC)


def fill(folder: Path, count: int) -> dict[str, str | None]:
    """Make `count` rows, each fourth in one layout; gives whose each is, None where it is broken.

    Of a hundred rows, one has no time and one has no owner.
    """
    settings = Settings(anonymized_telemetry=False)
    client: Any = chromadb.PersistentClient(str(folder), settings=settings)
    collection = client.create_collection("memories", embedding_function=None)
    made = [_row(number) for number in range(count)]
    for start in range(0, count, _AT_ONCE):
        some = made[start : start + _AT_ONCE]
        collection.add(
            ids=[name for name, *_ in some],
            embeddings=np.ones((len(some), 2), dtype=np.float32),
            documents=[document for _, document, *_ in some],
            metadatas=[metadata for _, _, metadata, _ in some],
        )
    client.close()
    return {name: owner for name, _, _, owner in made}


def _row(number: int) -> tuple[str, str | None, dict[str, Any], str | None]:
    user = f"user-{number % USERS}"
    text = f"The box numbered {number} of {user} stands in room {number * 7}."
    at = _START + timedelta(minutes=number)
    document, metadata = _LAYOUTS[number // USERS % 4](text, user, at)
    if number % 100 == 42:
        metadata = {key: value for key, value in metadata.items() if value != user}
    if number % 100 == 43:
        metadata = {key: value for key, value in metadata.items() if not _is_time(key)}
    whole = number % 100 not in (42, 43)
    return f"row-{number}", document, metadata | {"number": number}, user if whole else None


def _is_time(key: str) -> bool:
    return key.endswith(("_at", "At", "stamp"))


def _mem0(text: str, user: str, at: datetime) -> tuple[str | None, dict[str, Any]]:
    when = at.isoformat()
    return None, {"data": text, "hash": "x", "user_id": user, "created_at": when}


def _documents(text: str, user: str, at: datetime) -> tuple[str | None, dict[str, Any]]:
    return text, {"user_id": user, "timestamp": at.timestamp(), "source": "chat"}


def _ours(text: str, user: str, at: datetime) -> tuple[str | None, dict[str, Any]]:
    return text, {"user": user, "created_at": at.isoformat(), "tags": "box, room"}


def _camel(text: str, user: str, at: datetime) -> tuple[str | None, dict[str, Any]]:
    millis = int(at.timestamp() * 1000)
    return "", {"text": text, "userId": user, "createdAt": millis, "importance": 0.7}


_LAYOUTS = (_mem0, _documents, _ours, _camel)
