"""What one piece of work may wait for the model is a total, whoever spends it."""

from __future__ import annotations

import asyncio
import time

import pytest

from memory.errors import ModelUnavailable
from memory.providers.budget import Budget


async def answer(after_s: float) -> str:
    await asyncio.sleep(after_s)
    return "answered"


def test_an_answer_in_time_is_given() -> None:
    assert asyncio.run(Budget(5.0).wait_for(answer, 0.0)) == "answered"


def test_several_questions_share_it_and_what_they_do_not_wait_for_is_not_counted() -> None:
    async def ask() -> tuple[int, str]:
        budget, answered = Budget(0.5), 0
        await asyncio.sleep(0.6)
        try:
            while True:
                await budget.wait_for(answer, 0.2)
                answered += 1
        except ModelUnavailable as exc:
            return answered, str(exc)

    answered, why = asyncio.run(ask())
    assert 1 <= answered <= 2
    assert why == "no answer within 0.5 s; see llm.budget_s"


def test_once_it_is_spent_nothing_is_asked() -> None:
    asked = []

    async def note() -> None:
        asked.append(time.monotonic())
        await asyncio.sleep(9)

    async def ask() -> None:
        budget = Budget(0.01)
        for _ in range(2):
            with pytest.raises(ModelUnavailable):
                await budget.wait_for(note)

    asyncio.run(ask())
    assert len(asked) == 1


def test_a_time_out_of_another_is_passed_on() -> None:
    async def impatient() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(Budget(5.0).wait_for(impatient))
