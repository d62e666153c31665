"""Each event loop has values of its own."""

from __future__ import annotations

import asyncio
import contextlib
import time

from memory.runtime import OfEachLoop


def test_a_value_of_a_loop_is_made_once_for_all_who_wait() -> None:
    made = list[int]()

    def make() -> int:
        time.sleep(0.05)
        made.append(len(made))
        return made[-1]

    async def ask() -> list[int]:
        values = OfEachLoop[int]()
        with contextlib.suppress(TimeoutError):  # who gives up does not stop the others
            await asyncio.wait_for(values.made_in_thread(make), 0.001)
        return await asyncio.gather(*(values.made_in_thread(make) for _ in range(8)))

    assert asyncio.run(ask()) == [0] * 8
    assert made == [0]
