"""How long a piece of work may wait for a language model, and how many calls it may cost."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from memory.errors import ModelTooSlow
from memory.models import Usage

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Spent:
    """What one question has cost so far, whatever comes of it."""

    usage: Usage = field(default_factory=Usage)


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

        Raises: ModelTooSlow when it is spent, and whatever `ask` raises.
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
            too_slow = self._spent()
            Usage(calls=1).put_upon(too_slow)  # at least: what was answered before, nobody told
            raise too_slow from exc
        finally:
            self._left_s -= self._clock() - started_s

    def _spent(self) -> ModelTooSlow:
        return ModelTooSlow(f"no answer within {self._total_s:g} s", "see llm.budget_s")


class CallBudget:
    """Calls of a model that a run may make; a question that is under way is always finished."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.answered = False
        """Whether any call has been answered: until then no fallback replaces anything."""
        self._spent = 0

    def take(self) -> bool:
        """Whether one more question may be asked; it counts as one call until it is settled."""
        if self._spent >= self.most:
            return False
        self._spent += 1
        return True

    def spend(self, calls: int) -> None:
        """So many calls were made for questions that were taken before."""
        self.settle(calls + 1)

    def settle(self, calls: int) -> None:
        """The question that was taken has cost so many calls; an offline judge's cost none."""
        self._spent += calls - 1


class HourlyCalls(CallBudget):
    """Calls within the last hour, whoever asks."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is in seconds and never goes back."""
        super().__init__(most)
        self.answered = True  # a single failed merge falls back at once
        self._clock = clock
        self._settled: deque[tuple[float, int]] = deque()

    def take(self) -> bool:
        while self._settled and self._settled[0][0] <= self._clock() - _HOUR_S:
            self._spent -= self._settled.popleft()[1]
        return super().take()

    def settle(self, calls: int) -> None:
        super().settle(calls)
        self._settled.append((self._clock(), calls))


_HOUR_S = 3600.0
