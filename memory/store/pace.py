"""How many go into one transaction: as many as let others who write wait for a moment only."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from memory.ledger import Ledger, Writer

_LONG_S = 0.03
"""A transaction that took longer was too large."""
_SHORT_S = 0.015
"""After one that took less, the next may be larger."""

T = TypeVar("T")


class Pace:
    """The size of the next transaction, by how long the last one took on this machine."""

    def __init__(
        self, first: int = 24, most: int = 256, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` is in seconds and never goes back."""
        self.size = first
        self._most = most
        self._clock = clock

    def parts(self, items: Sequence[T]) -> Iterator[Sequence[T]]:
        """All in order, each part as large as it may be once the one before it is written."""
        start = 0
        while start < len(items):
            part = items[start : start + self.size]
            yield part
            start += len(part)

    @contextmanager
    def writing(self, ledger: Ledger, count: int) -> Iterator[Writer]:
        """A transaction that writes so many; what counts is from its beginning to its commit.

        Raises: LedgerError.
        """
        with Uncollected() as garbage, ledger.writing() as writer:
            garbage.leave()
            began = self._clock()
            yield writer
        self._learn(count, self._clock() - began)

    def _learn(self, count: int, seconds: float) -> None:
        if seconds > _LONG_S:
            self.size = max(1, min(self.size, count) // 2)
        elif seconds < _SHORT_S and count >= self.size:
            self.size = min(self._most, self.size + self.size // 4 + 1)


class Uncollected:
    """From `leave` to the end of the block garbage is not looked for: that looks at all there is.

    A tenth of a second of it, while others wait to write. Several threads may be in here: whoever
    found it allowed allows it again.
    """

    def __init__(self) -> None:
        self._allows_again = False

    def __enter__(self) -> Uncollected:
        return self

    def leave(self) -> None:
        """From here on; whoever has waited for a lock in the block has let others collect it."""
        self._allows_again = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._allows_again:
            gc.enable()
