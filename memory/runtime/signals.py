"""How Ctrl-C and SIGTERM stop a process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

_STOP = (signal.SIGINT, signal.SIGTERM)


def terminate_as_interrupt() -> Callable[[], bool]:
    """Make SIGTERM raise KeyboardInterrupt, as Ctrl-C does.

    Return a function that says whether a SIGTERM came.
    """
    terminated = False

    def terminate(*_: object) -> None:
        nonlocal terminated
        terminated = True
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a script's background job
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, terminate)
    return lambda: terminated


def end_quietly() -> None:
    """Let another Ctrl-C end the process without a traceback; call it when all is closed."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def stop_event() -> Iterator[asyncio.Event]:
    """Yield an event that Ctrl-C and SIGTERM set; restore their handlers afterwards."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    before = {one: signal.getsignal(one) for one in _STOP}
    for one in _STOP:
        try:
            loop.add_signal_handler(one, stop.set)
        except NotImplementedError:  # Windows
            signal.signal(one, lambda *_: loop.call_soon_threadsafe(stop.set))
    try:
        yield stop
    finally:
        for one, handler in before.items():
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(one)
            signal.signal(one, handler)
