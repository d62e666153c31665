"""The file of LangGraph's SqliteStore: each item with a text is a memory of its namespace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memory.interchange.copies import read_table
from memory.interchange.foreign import TEXT_KEYS, ForeignRow


def read_langgraph(file: Path, text_key: str | None) -> list[ForeignRow]:
    """Every item. Its namespace is whose it is, and each of its labels a key, `namespace.0` first.

    Raises: InputError.
    """
    return [_row(one, text_key) for one in read_table(file, "store")]


def _row(one: dict[str, Any], text_key: str | None) -> ForeignRow:
    try:
        value = json.loads(one["value"])
    except ValueError:
        value = None
    fields = dict(value) if isinstance(value, dict) else {}
    namespace = str(one["prefix"])
    labels = {f"namespace.{n}": label for n, label in enumerate(namespace.split("."))}
    text = None if text_key is not None else _inner_text(fields)
    known = {"namespace": namespace, **labels, "created_at": _utc(one), "key": one["key"]}
    return ForeignRow(f"{namespace}/{one['key']}", text, fields | known)


def _inner_text(fields: dict[str, Any]) -> str | None:
    """What lies one level down: langmem keeps `{"content": {"content": TEXT}}`."""
    for outer in TEXT_KEYS:
        if isinstance(fields.get(outer), str):
            return None
    inner = fields.get("content")
    if isinstance(inner, dict) and isinstance(inner.get("content"), str):
        return str(inner["content"])
    return None


def _utc(one: dict[str, Any]) -> str:
    """SQLite's clock is in UTC, and does not say so."""
    at = str(one["updated_at"] or one["created_at"])
    return at if "+" in at or at.endswith("Z") else f"{at}+00:00"
