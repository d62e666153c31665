"""Chooses how many rows go into one transaction, so that other writers need not wait long."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from memory.ledger import Ledger, Writer

_LONG_S = 0.03
_SHORT_S = 0.015

T = TypeVar("T")


class AdaptiveBatchSize:
    """The number of rows for the next transaction, adapted to how long the last one took."""

    def __init__(
        self, first: int = 24, most: int = 256, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.size = first
        self._most = most
        self._clock = clock

    def parts(self, items: Sequence[T]) -> Iterator[Sequence[T]]:
        """Yield all items in order, in parts; `size` is read again before each part."""
        start = 0
        while start < len(items):
            part = items[start : start + self.size]
            yield part
            start += len(part)

    @contextlib.contextmanager
    def writing(self, ledger: Ledger, count: int, texts: Iterable[str] = ()) -> Iterator[Writer]:
        """Open a transaction for `count` rows; afterwards, adapt `size` to the time it took.

        `texts`: as for `Ledger.writing`.
        """
        with ledger.writing(texts) as writer:
            began = self._clock()
            yield writer
        seconds = self._clock() - began
        if seconds > _LONG_S:
            self.size = max(1, min(self.size, count) // 2)
        elif seconds < _SHORT_S and count >= self.size:
            self.size = min(self._most, self.size + self.size // 4 + 1)
