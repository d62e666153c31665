"""Each event loop has values of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading

from memory.runtime import OfEachLoop


def test_a_value_of_a_loop_is_made_once_for_all_who_wait() -> None:
    made = list[int]()
    may_end = threading.Event()

    def make() -> int:
        assert may_end.wait(20)
        made.append(len(made))
        return made[-1]

    async def ask() -> list[int]:
        values = OfEachLoop[int]()
        with contextlib.suppress(TimeoutError):  # who gives up does not stop the others
            await asyncio.wait_for(values.made_in_thread(make), 0.001)
        waiting = [asyncio.ensure_future(values.made_in_thread(make)) for _ in range(8)]
        await asyncio.wait(waiting, timeout=0.001)
        may_end.set()
        return await asyncio.gather(*waiting)

    assert asyncio.run(ask()) == [0] * 8
    assert made == [0]
