"""Where code that waits meets the store, which does not; and work that is done side by side."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

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
        while not work.done():  # who cancels a group may cancel twice
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        work.exception()  # nobody waits for it any more
        raise


async def in_thread_if_long(
    texts: Iterable[str], call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """The call's answer; from a thread of its own where it reads texts that take a while."""
    if sum(map(len, texts)) <= _SHORT:
        return call(*args, **kwargs)
    return await in_thread(call, *args, **kwargs)


_SHORT = 2_000
"""Characters that are read within a few milliseconds, less than a thread is worth."""


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


class LoopThread:
    """An event loop of its own in a thread of its own, which does not keep a process alive."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin some work there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The answer of some work there, waited for here."""
        return await asyncio.wrap_future(self.start(work))

    def soon(self, call: Callable[[], object]) -> None:
        """Call it there; not at all where the thread has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    def stop(self) -> None:
        """Cancel what is left, wait until it has ended, and end the thread."""
        self.start(self._end_all()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_default_executor()
