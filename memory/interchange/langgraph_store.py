"""What LangGraph's stores keep: each item with a text is a memory of its namespace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from memory.interchange.foreign import TEXT_KEYS, ForeignRow, Reading
from memory.interchange.json_splice import spliced
from memory.interchange.plan_back import Update, rewritten

_INNER = ("content", "content")


def as_row(item: Mapping[str, Any]) -> ForeignRow:
    """An item by its columns. Its namespace is whose it is, and each label of it a key.

    `namespace.0` is the first.
    """
    try:
        value = json.loads(item["value"])
    except (ValueError, RecursionError):
        value = None
    fields = dict(value) if isinstance(value, dict) else {}
    namespace = str(item["prefix"])
    labels = {f"namespace.{n}": label for n, label in enumerate(namespace.split("."))}
    known = {"namespace": namespace, **labels, "created_at": _utc(item), "key": item["key"]}
    return ForeignRow(
        f"{namespace}/{item['key']}",
        _inner_text(fields),
        fields | known,
        expires=_expiry(item.get("expires_at")),
    )


def unexpired_items(rows: Sequence[ForeignRow], now: datetime) -> Iterator[ForeignRow]:
    """Without the items that LangGraph may sweep away at any moment."""
    return (row for row in rows if row.expires is None or row.expires > now)


def rewritten_value(
    item: Mapping[str, Any], update: Update, reading: Reading, now: datetime
) -> str | bytes:
    """The item's value after an update, and not a character of it changed otherwise."""
    row, value = as_row(item), item["value"]
    whole: str = value.decode() if isinstance(value, bytes) else value
    becomes = rewritten(row, update, reading, now)
    if becomes.document is not None:
        whole = spliced(whole, _INNER, becomes.document)
    for key, new in (becomes.metadata | dict.fromkeys(becomes.gone)).items():
        whole = spliced(whole, (key,), new)
    return whole.encode() if isinstance(value, bytes) else whole


def _inner_text(fields: dict[str, Any]) -> str | None:
    """What lies one level down: langmem keeps `{"content": {"content": TEXT}}`."""
    for outer in TEXT_KEYS:
        if isinstance(fields.get(outer), str):
            return None
    inner = fields.get("content")
    if isinstance(inner, dict) and isinstance(inner.get("content"), str):
        return str(inner["content"])
    return None


def _utc(item: Mapping[str, Any]) -> str:
    """SQLite's clock is in UTC, and does not say so."""
    at = str(item["updated_at"] or item["created_at"])
    return at if "+" in at or at.endswith("Z") else f"{at}+00:00"


def _expiry(at: object) -> datetime | None:
    try:
        read = datetime.fromisoformat(str(at))
    except ValueError:
        return None
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)
