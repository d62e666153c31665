"""How many rows go into one transaction: as many as make other writers wait only a moment."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from memory.ledger import Ledger, Writer

_LONG_S = 0.03
"""A transaction that took longer was too large."""
_SHORT_S = 0.015
"""After one that took less, the next may be larger."""

T = TypeVar("T")


class AdaptiveBatchSize:
    """The size of the next transaction, by how long the last one took on this machine."""

    def __init__(
        self, first: int = 24, most: int = 256, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` is in seconds and never goes back."""
        self.size = first
        self._most = most
        self._clock = clock

    def parts(self, items: Sequence[T]) -> Iterator[Sequence[T]]:
        """Yield all items in order; each part's size is set once the one before it is written."""
        start = 0
        while start < len(items):
            part = items[start : start + self.size]
            yield part
            start += len(part)

    @contextlib.contextmanager
    def writing(self, ledger: Ledger, count: int) -> Iterator[Writer]:
        """Open a transaction that writes `count` rows, and learn from how long it takes.

        Garbage is collected after it: a collection looks at all that the process holds, which takes
        a tenth of a second while others wait to write.

        Raises: LedgerError.
        """
        with contextlib.ExitStack() as afterwards, ledger.writing() as writer:
            if gc.isenabled():  # else another thread is in here and allows it again
                gc.disable()
                afterwards.callback(gc.enable)
            began = self._clock()
            yield writer
        self._learn(count, self._clock() - began)

    def _learn(self, count: int, seconds: float) -> None:
        if seconds > _LONG_S:
            self.size = max(1, min(self.size, count) // 2)
        elif seconds < _SHORT_S and count >= self.size:
            self.size = min(self._most, self.size + self.size // 4 + 1)
