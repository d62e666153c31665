"""A crowded store, made by a seeded generator: one group of near-copies for each user."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta

from memory.models import Memory, new_memory_id
from tests.doubles import START

_DOES = ("plays", "teaches", "repairs", "collects", "sells", "photographs", "paints", "studies")
_WHAT = (
    "violins",
    "old maps",
    "bicycles",
    "sea shells",
    "wooden clocks",
    "tulips",
    "kites",
    "bees",
)
_WHERE = ("in Porto", "near the harbour", "at the market", "in a small garage", "by the lake")
_WHEN = ("on Sundays", "every spring", "before breakfast", "after work", "twice a week")


def crowd(groups: int, seed: int = 15) -> Iterator[Memory]:
    """Make two or three memories for each user: a copy, one that says more, another number."""
    chance = random.Random(seed)
    told = 0
    for number in range(groups):
        user = f"Person {number}"
        for text in _family(chance, user):
            told += 1
            at = START + timedelta(minutes=told)
            yield Memory(id=new_memory_id(), content=text, user=user, timestamp=at)


def _family(chance: random.Random, user: str) -> list[str]:
    base = " ".join([user, *map(chance.choice, (_DOES, _WHAT, _WHERE, _WHEN))])
    count = chance.randrange(2, 60)
    same = [f"{base}.", f"{base.upper()}!"]
    more = [f"{base}.", f"{base} with friends."]
    differs = [f"{base} for {count} hours.", f"{base} for {count + 1} hours."]
    kind = chance.choice((same, more, differs, [*more, f"{base} for {count} hours."]))
    return list(kind)
