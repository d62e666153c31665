"""Where code that waits meets the store, which does not; and work that is done side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The call's answer, given by a thread of its own.

    A thread cannot be stopped: a cancelled task ends when its thread has, so that whoever
    cancelled it may close the store, or write the same again.
    """
    work = asyncio.create_task(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


async def side_by_side(
    call: Callable[[T], Awaitable[object]],
    items: Sequence[T],
    at_once: int,
    on_progress: Progress | None = None,
) -> None:
    """Await the call for every item, at most `at_once` under way; the first failure ends them."""
    left = iter(items)
    done = 0

    async def work() -> None:
        nonlocal done
        for item in left:
            await call(item)
            done += 1
            if on_progress is not None:
                on_progress(done, len(items))

    workers = [asyncio.create_task(work()) for _ in range(min(at_once, len(items)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
