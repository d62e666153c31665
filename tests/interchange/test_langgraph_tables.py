"""LangGraph's table in SQLite, of an early version, as it lies: written back to and taken back."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memory.errors import InputError
from memory.interchange.databases import without_password
from memory.interchange.foreign import Reading
from memory.interchange.tables import langgraph_at
from memory.store import MemoryStore
from tests.interchange.backs import (
    MERGED,
    TEXTS,
    bring_in,
    cleaned_of,
    replace,
    taken_back,
    written,
)

BY_NAMESPACE = Reading(user_key="namespace")
AT = "2026-05-01 08:00:00"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Without the columns that came later; values as text and, as LangGraph writes them, bytes."""
    with closing(sqlite3.connect(tmp_path / "store.db")) as made, made:
        made.execute("CREATE TABLE store (prefix, key, value, created_at, updated_at)")
        for key, text in TEXTS.items():
            value = json.dumps({"content": {"content": text}, "n": 1.0}, indent=1)
            row = ["mia", key, value.encode() if key in "cd" else value, AT, None]
            made.execute("INSERT INTO store VALUES (?, ?, ?, ?, ?)", row)
    return tmp_path / "store.db"


def held(file: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(file)) as theirs:
        return sorted(theirs.execute("SELECT typeof(value), * FROM store").fetchall(), key=str)


def test_items_keep_their_type_and_other_values_and_are_taken_back_to_the_bit(
    store: MemoryStore, file: Path, tmp_path: Path
) -> None:
    theirs = langgraph_at(str(file))
    cleaned_of(store, theirs, {key: f"mia/{key}" for key in TEXTS}, BY_NAMESPACE)
    before = held(file)
    written(store, theirs, tmp_path / "undo.jsonl", BY_NAMESPACE)
    after = {row[2]: row for row in held(file)}
    assert set(after) == set("bde")
    old = next(row for row in before if row[2] == "d")
    assert isinstance(after["d"][3], bytes)
    assert json.loads(after["d"][3]) == {"content": {"content": MERGED}, "n": 1.0}
    assert json.loads(old[3])["content"] == {"content": TEXTS["d"]}
    assert after["d"][4:] == (AT, "2026-11-01 00:00:00")
    assert taken_back(theirs, tmp_path / "undo.jsonl").restored == 3
    assert held(file) == before


def test_what_is_no_file_of_a_store_is_one_clear_line(file: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other, other:
        other.execute("CREATE TABLE other (a)")
    for place, said in {
        tmp_path: "is a folder; give the SQLite file",
        tmp_path / "none.db": "is not there; give the SQLite file",
        tmp_path / "other.db": "has no table 'store'; name the file",
    }.items():
        with pytest.raises(InputError, match=said):
            langgraph_at(str(place)).found()


def test_what_may_only_be_read_is_read_and_not_written_to(
    store: MemoryStore, file: Path, tmp_path: Path
) -> None:
    """Whoever may write all the same, as root may, is not refused."""
    theirs = langgraph_at(str(file))
    known = bring_in(store, theirs, BY_NAMESPACE)
    replace(store, known["mia/a"], known["mia/b"])
    file.chmod(0o444)
    before = held(file)
    if os.access(file, os.W_OK):
        written(store, theirs, tmp_path / "undo.jsonl", BY_NAMESPACE)
        assert len(held(file)) == 4
        return
    with pytest.raises(InputError, match="cannot be written"):
        written(store, theirs, tmp_path / "undo.jsonl", BY_NAMESPACE)
    assert not (tmp_path / "undo.jsonl").exists(), "nothing was begun"
    assert held(file) == before


def test_a_password_is_in_no_message() -> None:
    for url, told in {
        "postgresql://mia:secret@host:5432/db?sslmode=require": "postgresql://mia@host:5432/db?sslmode=require",
        "postgres://host/db?user=mia&password=secret": "postgres://host/db?user=mia",
        "postgresql://host/db": "postgresql://host/db",
        "postgresql://mia:secret@/db?host=%2Ftmp": "postgresql://mia@/db?host=%2Ftmp",
        "postgresql://": "postgresql://",
    }.items():
        assert without_password(url) == told
        assert langgraph_at(url).address == told
    with pytest.raises(InputError, match="the address cannot be read") as told_of:
        langgraph_at("postgresql://mia:secret@[::1/db").found()
    assert "secret" not in str(told_of.value)
