"""Work beside others: small steps in a thread of its own, each followed by a pause."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing


class Beside:
    """Some work that nobody waits for; it is under way once at a time, and stopped between steps.

    A step may hold the interpreter all the while, as Chroma's writes do: in the pause after it
    those who were held up come first.
    """

    def __init__(
        self, name: str, work: Callable[[], Generator[None, None, None]], pause: float = 1.0
    ) -> None:
        """`work` makes what is done step by step; a thread that has ended it is not kept.

        A pause is so many times as long as the step before it.
        """
        self._name = name
        self._pause = pause
        self._work = work
        self._stopped = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def is_under_way(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Begin, unless it is under way or was stopped for good."""
        with self._starting:
            if not self._stopped.is_set() and not self.is_under_way:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Until what is under way has come to its end."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """End after the step that is under way, for good."""
        with self._starting:
            self._stopped.set()
        self.wait()

    def _run(self) -> None:
        with closing(self._work()) as steps:
            began = time.monotonic()
            for _ in steps:
                if self._stopped.wait(self._pause * (time.monotonic() - began)):
                    return
                began = time.monotonic()
