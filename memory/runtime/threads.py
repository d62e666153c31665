"""Run blocking calls in threads, limit concurrency, keep values per event loop, handle signals."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

P = ParamSpec("P")
T = TypeVar("T")
Of = TypeVar("Of")


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking call in a thread and return its result.

    If the calling task is cancelled, CancelledError is raised only after the call has ended, so
    that the caller can then close what the call used.
    """
    work = asyncio.create_task(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():  # a task group may cancel twice
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        work.exception()  # mark it as retrieved
        raise


async def in_thread_if_long(
    texts: Iterable[str], call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Run a call and return its result; if `texts` are long in total, run it in a thread.

    `texts`: the texts that the call works on. The call receives only `args` and `kwargs`.
    """
    if sum(map(len, texts)) <= _SHORT:
        return call(*args, **kwargs)
    return await in_thread(call, *args, **kwargs)


_SHORT = 2_000  # characters of all texts; for fewer, a thread costs more time than it saves


async def side_by_side(
    call: Callable[[T], Awaitable[object]], items: Sequence[T], at_once: int
) -> None:
    """Await `call(item)` for every item, at most `at_once` at a time.

    If a call fails, its exception is raised, and the other calls are cancelled.
    """
    left = iter(items)

    async def work() -> None:
        for item in left:
            await call(item)

    workers = [asyncio.create_task(work()) for _ in range(min(at_once, len(items)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


class OfEachLoop(WeakKeyDictionary[asyncio.AbstractEventLoop, Of]):
    """One value for each event loop, since a process may run several loops in its threads.

    Use it for objects that work only in the loop in which they were made, such as semaphores.
    """

    def __init__(self) -> None:
        super().__init__()
        self._making: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}

    def mine(self, make: Callable[[], Of]) -> Of:
        """Return the running loop's value; `make` creates it at first use."""
        loop = asyncio.get_running_loop()
        if loop not in self:
            self[loop] = make()
        return self[loop]

    async def made_in_thread(self, make: Callable[[], Of]) -> Of:
        """Return the value for the running event loop; at first use, a thread calls `make` for it.

        Use this method if `make` is slow. Callers that arrive while `make` runs get the same value.
        """
        loop = asyncio.get_running_loop()
        if loop not in self:
            making = self._making.get(loop)
            if making is None:
                making = self._making[loop] = loop.create_task(self._keep(make))
                making.add_done_callback(lambda _: self._making.pop(loop, None))
            await asyncio.shield(making)  # who stops waiting does not stop the others
        return self[loop]

    async def _keep(self, make: Callable[[], Of]) -> None:
        self[asyncio.get_running_loop()] = await in_thread(make)


class LoopThread:
    """An event loop that runs in a daemon thread of its own."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(self.start(work))

    def soon(self, call: Callable[[], object]) -> None:
        """Schedule a call in the loop's thread; do nothing if the loop is closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    def stop(self) -> None:
        """Cancel all tasks of the loop, wait until they end, and end the thread."""
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


# --- signals: Ctrl-C and SIGTERM ------------------------------------------------------------------


@contextlib.contextmanager
def _handler(number: signal.Signals, handler: Any) -> Iterator[None]:
    """Handle a signal with `handler`; restore the earlier handler after the block."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextlib.contextmanager
def terminate_as_interrupt() -> Iterator[Callable[[], bool]]:
    """Make SIGTERM raise KeyboardInterrupt inside the block, as Ctrl-C does.

    Yield a function that says whether a SIGTERM was received.
    """
    terminated = False

    def terminate(*_: object) -> None:
        nonlocal terminated
        terminated = True
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a script's background job
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    with _handler(signal.SIGTERM, terminate):
        yield lambda: terminated


@contextlib.contextmanager
def stop_event() -> Iterator[asyncio.Event]:
    """Yield an event that Ctrl-C and SIGTERM set; restore the earlier handlers after the block."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def set_stop(*_: object) -> None:
        # `loop.add_signal_handler` would drop a handler that the host gave the same loop.
        loop.call_soon_threadsafe(stop.set)

    with _handler(signal.SIGINT, set_stop), _handler(signal.SIGTERM, set_stop):
        yield stop
