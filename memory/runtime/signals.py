"""How a process is asked to stop: Ctrl-C and SIGTERM, while it works and while it waits."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

_STOP = (signal.SIGINT, signal.SIGTERM)


def terminate_as_interrupt() -> Callable[[], bool]:
    """From here on SIGTERM ends what runs as Ctrl-C does; unhandled it would be a kill.

    What it gives tells, at the end, whether a SIGTERM came.
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
    """All is closed: from here on another Ctrl-C ends this process without a word."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def stop_event() -> Iterator[asyncio.Event]:
    """An event that Ctrl-C and SIGTERM set, instead of what they did before."""
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
