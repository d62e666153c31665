"""What one piece of work may wait for the model is a total, whoever spends it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from memory.errors import ModelUnavailable
from memory.models import Reply
from memory.providers.asking import Asking, CallBudget

ANSWERED = Reply(text="answered")


def limited(seconds: float, clock: Callable[[], float] = time.monotonic) -> Asking:
    return Asking(CallBudget(9), seconds, clock)


class HandClock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    async def answer(self, after_s: float) -> Reply:
        self.now_s += after_s
        return ANSWERED


def test_several_questions_share_it() -> None:
    async def ask() -> None:
        clock = HandClock()
        asking = limited(0.5, clock)
        for _ in range(3):
            assert await asking.ask(clock.answer, 0.2) == ANSWERED
        with pytest.raises(
            ModelUnavailable, match=r"no answer within 0\.5 s; raise llm\.timeout_s"
        ):
            await asking.ask(clock.answer, 0.0)

    asyncio.run(ask())


def test_time_that_is_not_waited_is_not_counted() -> None:
    async def ask() -> Reply:
        clock = HandClock()
        asking = limited(0.5, clock)
        await asking.ask(clock.answer, 0.4)
        clock.now_s += 3_600.0
        return await asking.ask(clock.answer, 0.4)

    assert asyncio.run(ask()) == ANSWERED


def test_an_answer_that_does_not_come_spends_it_and_then_nothing_is_asked() -> None:
    asked = []

    async def never() -> Reply:
        asked.append("a question")
        await asyncio.Event().wait()
        return ANSWERED

    async def ask() -> None:
        asking = limited(0.01)
        for _ in range(2):
            with pytest.raises(ModelUnavailable):
                await asking.ask(never)

    asyncio.run(ask())
    assert len(asked) == 1


def test_a_time_out_of_another_is_passed_on() -> None:
    async def impatient() -> Reply:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(limited(5.0).ask(impatient))


def test_calls_of_the_last_hour_are_limited_and_a_free_answer_counts_none() -> None:
    clock = HandClock()
    calls = CallBudget(2, window_s=3_600.0, clock=clock)
    assert [calls.take(), calls.take(), calls.take()] == [True, True, False]
    calls.settle(1, 0)
    assert (calls.left, calls.take(), calls.left) == (1, True, 0)
    clock.now_s += 3_600.0
    assert calls.left == 2
    calls.take()
    calls.settle(1, 3)
    assert calls.left == 0


def test_a_part_takes_of_the_whole_once_its_own_is_spent_and_gives_back_what_is_left() -> None:
    whole = CallBudget(5)
    part, other = whole.part(2), whole.part(9)
    assert (part.left, other.left, whole.left) == (2, 3, 0)
    assert [part.take(), part.take(), part.take()] == [True, True, False]
    other.close()
    assert whole.left == 3
    assert (part.take(), whole.left) == (True, 2)
    part.close()
    assert whole.left == 2
