"""How long one piece of work may wait for a language model, all its questions together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from memory.errors import ModelUnavailable

P = ParamSpec("P")
T = TypeVar("T")


class Budget:
    """Seconds that go by only while an answer is waited for."""

    def __init__(self, total_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is in seconds and never goes back."""
        self._clock = clock
        self._total_s = total_s
        self._left_s = total_s

    async def wait_for(
        self, ask: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The answer, if it comes while something is left; once spent, nothing is asked.

        Raises: ModelUnavailable when it is spent, and whatever `ask` raises.
        """
        if self._left_s <= 0.0:
            raise self._spent()
        started_s = self._clock()
        try:
            async with asyncio.timeout(self._left_s) as timer:
                return await ask(*args, **kwargs)
        except TimeoutError as exc:
            if not timer.expired():  # its own, not ours
                raise
            self._left_s = 0.0
            raise self._spent() from exc
        finally:
            self._left_s -= self._clock() - started_s

    def _spent(self) -> ModelUnavailable:
        return ModelUnavailable(f"no answer within {self._total_s:g} s", "see llm.budget_s")
