"""What is too large is refused before anything reads it, and is not quoted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import JsonValue

from memory.errors import InputError
from memory.models import Memory, Turn
from memory.models.sizes import MAX_CHARACTERS, MAX_VALUES, too_large
from memory.store import MemoryStore, forget_user
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
    assert "10,000 values" in what or "2,000,000 characters" in what or "2000000 char" in what


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
