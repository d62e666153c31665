"""Who answers: the index, or exact search where that is faster or the index cannot tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memory.index.exact import ExactIndex
from memory.index.slot import IndexSlot
from memory.ledger import Ledger
from memory.models import Memory, Scope, Vector, new_memory_id
from memory.protocols import Query, Shortlist
from memory.text import text_key
from tests.doubles import START, BrokenIndex

AXES = np.eye(4, dtype=np.float32)


class Unsure(BrokenIndex):
    """An index that never rules out a nearer one; it counts what it is asked and told."""

    def __init__(self) -> None:
        super().__init__()
        self.followed = 0

    def nearest(self, queries: Sequence[Query]) -> list[Shortlist]:
        self.asked += 1
        return [Shortlist((), complete=False)] * len(queries)

    def follow(self) -> None:
        self.followed += 1


def tell(ledger: Ledger, user: str, vectors: Sequence[Vector]) -> list[str]:
    told = [
        Memory(id=new_memory_id(), content=f"{user} {n}", user=user, timestamp=START)
        for n in range(len(vectors))
    ]
    with ledger.writing() as writer:
        writer.memories.insert_all(told)
        by_key = zip((text_key(one.content) for one in told), vectors, strict=True)
        writer.vectors.put(dict(by_key))
    return [one.id for one in told]


def of(user: str) -> Scope:
    return Scope((("user", user),))


def slot_with(ledger: Ledger, index: Unsure) -> IndexSlot:
    return IndexSlot(ExactIndex(ledger), lambda: index)


def test_a_scope_of_few_is_searched_exactly_once_its_vectors_are_read(ledger: Ledger) -> None:
    mia = tell(ledger, "Mia", [*AXES[:2]])
    tell(ledger, "Jonas", [AXES[2]] * 2_001)
    index = Unsure()
    slot = slot_with(ledger, index)
    for asked in (1, 1, 1):
        [found] = slot.nearest([Query(AXES[1], of("Mia"), 1)])
        assert (found.ids, index.asked) == ((mia[1],), asked)
    for asked in (2, 3):
        found_of_both = slot.nearest([Query(AXES[2], of("Jonas"), 1), Query(AXES[0], of("Mia"), 1)])
        assert found_of_both[1].ids == (mia[0],)
        assert index.asked == asked, "many are the index's, whoever is asked about beside them"


def test_what_comes_is_found_and_the_index_hears_of_it_though_nobody_asks_it(
    ledger: Ledger,
) -> None:
    tell(ledger, "Mia", [AXES[0]])
    index = Unsure()
    slot = slot_with(ledger, index)
    slot.nearest([Query(AXES[0], of("Mia"), 1)])
    [late] = tell(ledger, "Mia's", [AXES[1]])
    [found] = slot.nearest([Query(AXES[1], of("Mia's"), 1)])
    assert found.ids == (late,)
    for _ in range(200):
        slot.nearest([Query(AXES[1], of("Mia"), 1)])
    assert (index.asked, index.followed) == (1, 1)
