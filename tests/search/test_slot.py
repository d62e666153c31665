"""Who answers: the index, or exact search where that is faster or the index cannot tell."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest

from memory.ledger import Ledger
from memory.models import Memory, Scope, Vector, new_memory_id
from memory.protocols import Query, Shortlist
from memory.search.exact import ExactIndex
from memory.search.slot import IndexSlot
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


class Sure(Unsure):
    """An index that always names the same."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._named = Shortlist((name,))

    def nearest(self, queries: Sequence[Query]) -> list[Shortlist]:
        self.asked += 1
        return [self._named] * len(queries)


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


def slot_with(ledger: Ledger, index: BrokenIndex) -> IndexSlot:
    return IndexSlot(ExactIndex(ledger), lambda: index)


def opened(ledger: Ledger, index: BrokenIndex) -> IndexSlot:
    """One whose index was needed already."""
    slot = slot_with(ledger, index)
    assert slot.serving is index
    return slot


@pytest.mark.parametrize("in_background", [False, True])
def test_an_index_that_is_not_needed_is_never_opened(ledger: Ledger, in_background: bool) -> None:
    def fail() -> BrokenIndex:
        raise AssertionError("it was opened")

    [mia] = tell(ledger, "Mia", [AXES[0]])
    slot, ready = IndexSlot(ExactIndex(ledger), fail), threading.Event()
    if in_background:
        slot.postpone()
        slot.open_in_background(ready.set)
        assert ready.wait(30.0)
    for _ in range(50):
        assert slot.nearest([Query(AXES[0], of("Mia"), 1)])[0].ids == (mia,)
    slot.wait_until_open()
    slot.close()


def test_an_index_that_is_needed_later_is_opened_though_it_was_not_in_the_background(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    mia = tell(ledger, "Mia", [*AXES])
    index, ready = Sure(mia[0]), threading.Event()
    slot = slot_with(ledger, index)
    slot.postpone()
    slot.open_in_background(ready.set)
    assert ready.wait(30.0)
    slot.nearest([Query(AXES[1], of("Mia"), 1)])
    monkeypatch.setattr("memory.search.exact._MOST", 8)
    assert slot.nearest([Query(AXES[1], of("Mia"), 1)])[0].ids == (mia[0],)
    assert index.asked == 1


def test_few_are_searched_exactly_from_the_first_query_on(ledger: Ledger) -> None:
    mia = tell(ledger, "Mia", [*AXES[:2]])
    index = Unsure()
    slot = slot_with(ledger, index)
    [found] = slot.nearest([Query(AXES[1], of("Mia"), 1)])
    assert (found.ids, index.asked, index.followed) == ((mia[1],), 0, 0)


def test_many_are_the_indexs_until_their_vectors_are_read_beside(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.search.exact._READ_AT_ONCE", 4)
    monkeypatch.setattr("memory.search.exact._PAGE", 2)
    mia = [*tell(ledger, "Mia", [AXES[0]]), *tell(ledger, "Mia's", [*AXES[1:]])]
    index = Sure(mia[0])
    slot = slot_with(ledger, index)
    query = Query(AXES[0], Scope(()), 1)
    for asked in range(1, 21):
        assert (slot.nearest([query])[0].ids, index.asked) == ((mia[0],), asked)
    other = Query(AXES[2], Scope(()), 1)
    until = time.monotonic() + 30.0
    while slot.nearest([other])[0].ids != (mia[2],):  # the index names another
        assert time.monotonic() < until
        time.sleep(0.01)
    asked = index.asked
    assert slot.nearest([query, other])[1].ids == (mia[2],)
    assert index.asked == asked
    slot.close()


def test_an_index_that_fails_unasked_is_given_up_and_said_once(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    [mia] = tell(ledger, "Mia", [AXES[0]])
    index = BrokenIndex()
    slot = opened(ledger, index)
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            assert slot.nearest([Query(AXES[0], of("Mia"), 1)])[0].ids == (mia,)
    assert caplog.messages == [
        "the index fails, searching exactly from here on: the index is broken"
    ]
    assert slot.serving.name == "exact search"


def test_a_scope_of_too_many_is_the_indexs(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    mia = tell(ledger, "Mia", [*AXES[:2]])
    jonas = tell(ledger, "Jonas", [*AXES[1:]])
    index = Sure(jonas[0])
    slot = slot_with(ledger, index)
    slot.nearest([Query(AXES[1], of("Mia"), 1)])
    monkeypatch.setattr("memory.search.exact._MOST", 8)
    for asked in (1, 2):
        both = slot.nearest([Query(AXES[2], of("Jonas"), 1), Query(AXES[0], of("Mia"), 1)])
        assert [one.ids for one in both] == [(jonas[0],), (mia[0],)]
        assert index.asked == asked


def test_what_comes_is_found_and_the_index_hears_of_it_though_nobody_asks_it(
    ledger: Ledger,
) -> None:
    tell(ledger, "Mia", [AXES[0]])
    index = Unsure()
    slot = opened(ledger, index)
    slot.nearest([Query(AXES[0], of("Mia"), 1)])
    [late] = tell(ledger, "Mia's", [AXES[1]])
    [found] = slot.nearest([Query(AXES[1], of("Mia's"), 1)])
    assert found.ids == (late,)
    for _ in range(40):
        slot.nearest([Query(AXES[1], of("Mia"), 1)])
    assert (index.asked, index.followed) == (0, 2)
