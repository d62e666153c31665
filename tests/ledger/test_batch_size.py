"""Nobody who writes waits long for an import: its transactions are as large as they may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from memory.ledger import AdaptiveBatchSize, Ledger
from memory.models import Memory
from memory.store import MemoryStore
from tests.doubles import PlacedEmbedder


def clock(took: Callable[[], float]) -> Callable[[], float]:
    """Each second look at it comes as much later as the transaction between them took."""

    def read() -> Iterator[float]:
        now = 0.0
        while True:
            yield now
            now += took()
            yield now

    moments = read()
    return lambda: next(moments)


def sizes(ledger: Ledger, items: Sequence[int], row_s: float) -> list[int]:
    found: list[int] = []
    pace = AdaptiveBatchSize(first=16, most=64, clock=clock(lambda: found[-1] * row_s))
    for part in pace.parts(items):
        found.append(len(part))
        with pace.writing(ledger, len(part)):
            pass
    assert sum(found) == len(items)
    return found


def test_a_transaction_that_took_long_is_followed_by_smaller_ones(ledger: Ledger) -> None:
    found = sizes(ledger, range(40), row_s=0.012)
    assert found[:5] == [16, 8, 4, 2, 2]
    assert max(found[2:]) <= 4


def test_short_ones_are_followed_by_larger_ones_up_to_a_limit(ledger: Ledger) -> None:
    found = sizes(ledger, range(400), row_s=0.0001)
    assert found[:3] == [16, 21, 27]
    assert max(found) == 64


def test_one_row_is_always_written_however_slow_the_machine(ledger: Ledger) -> None:
    assert sizes(ledger, range(40), row_s=10.0)[-3:] == [1, 1, 1]


def test_a_batch_tells_its_pace_how_long_it_took(
    ledger: Ledger, make_memory: Callable[[str], Memory]
) -> None:
    store = MemoryStore(ledger, PlacedEmbedder())
    store.pace = AdaptiveBatchSize(clock=clock(lambda: 1.0))
    assert store.add_batch([make_memory(f"Mia has {n} cats.") for n in range(8)]) == 8
    assert store.pace.size == 4
