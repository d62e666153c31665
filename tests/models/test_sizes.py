"""What is too large is refused before anything reads it, and is not quoted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from memory.errors import InputError
from memory.interchange import read_memories, to_memory
from memory.models import Memory, Turn, from_json
from memory.models.arguments import MAX_CHARACTERS, MAX_VALUES, too_large
from memory.store import MemoryStore, forget_user
from memory.upkeep import read_decisions
from tests.doubles import START

MANY: dict[str, JsonValue] = {f"key {n}": n for n in range(MAX_VALUES + 1)}
LONG = "x" * (MAX_CHARACTERS + 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Memory(content="Mia sails.", timestamp=START, metadata=MANY),
        lambda: Memory(content="Mia sails.", timestamp=START, metadata={"a": [{"b": [MANY]}]}),
        lambda: Memory(content=LONG, timestamp=START),
        lambda: Memory(content="Mia sails.", timestamp=START, user=LONG),
        lambda: Memory(content="Mia sails.", timestamp=START, tags=(LONG,)),
        lambda: Turn(speaker="Mia", text=LONG, at=START),
    ],
)
def test_the_size_is_what_is_wrong(make: Callable[[], object]) -> None:
    with pytest.raises(InputError) as caught:
        make()
    what = caught.value.problem
    assert re.search(r"10,000 values|1(00)?,000 characters", what)
    assert len(what) < 200


class Endless(Mapping[str, Any]):
    """A mapping that says how long it is, and cannot be read."""

    def __len__(self) -> int:
        return 10**9

    def __iter__(self) -> Any:
        raise AssertionError("it was read")

    def __getitem__(self, name: str) -> Any:
        raise AssertionError("it was read")


def test_no_more_is_looked_at_than_is_allowed() -> None:
    assert too_large({"metadata": Endless()}) == "has more than 10,000 values"
    assert too_large({"a": ["b", ("c", {"d": 1})], "e": None, "f": b"g"}) == ""
    assert too_large("x" * MAX_CHARACTERS) == ""


@pytest.mark.parametrize(
    "read",
    [
        lambda value: from_json(Memory, value),
        lambda value: to_memory(value, keep_id=True, assume_utc=False),
    ],
)
def test_a_row_is_refused_by_its_size_before_it_is_cleaned(
    read: Callable[[dict[str, Any]], object],
) -> None:
    row = {"user": "Mia", "content": "Mia sails.", "timestamp": START.isoformat()}
    with pytest.raises(ValueError, match="more than 10,000 values"):
        read(row | {"topic": Endless()})


def test_a_line_of_50_mb_is_refused_in_one_short_line(tmp_path: Path) -> None:
    long = {"content": "x" * 50_000_000, "timestamp": START.isoformat()}
    (tmp_path / "in.jsonl").write_text(json.dumps(long) + "\n", encoding="utf-8")
    [memory] = read_memories(tmp_path / "in.jsonl")
    assert isinstance(memory, InputError)
    assert "has more than 2,000,000 characters in all" in str(memory)
    (tmp_path / "in.jsonl").write_text(json.dumps(long | {"timestamp": "x" * 3_000_000}))
    [memory] = read_memories(tmp_path / "in.jsonl")
    assert len(str(memory)) < 400
    answer = {"key": "k", "members": [], "answer": "apply", "text": long["content"]}
    lines = (json.dumps(line) + "\n" for line in ({"decisions": 1}, answer))
    (tmp_path / "decisions.jsonl").write_text("".join(lines), encoding="utf-8")
    [(line, problem)] = read_decisions(tmp_path / "decisions.jsonl")
    assert (line, isinstance(problem, InputError)) == (2, True)
    assert "has more than 2,000,000 characters in all" in str(problem)


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.search("x" * 100_001, user="Mia"),
        lambda store: store.search("x", user="M" * 1_001),
        lambda store: forget_user(store.ledger, store.index, "M" * 1_001, START),
    ],
)
def test_a_question_to_the_store_has_a_size_too(
    store: MemoryStore, ask: Callable[[MemoryStore], object]
) -> None:
    with pytest.raises(InputError, match="more than"):
        ask(store)
