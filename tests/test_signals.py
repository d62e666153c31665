"""A signal stops what runs and what waits, and afterwards means what it meant before."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from memory.signals import stop_event, terminate_as_interrupt


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.parametrize("one", [signal.SIGINT, signal.SIGTERM])
def test_while_something_waits_a_signal_sets_the_event(one: signal.Signals) -> None:
    async def wait() -> None:
        with stop_event() as stop:
            signal.raise_signal(one)
            await stop.wait()

    before = signal.getsignal(one)
    asyncio.run(wait())
    assert signal.getsignal(one) is before


@pytest.mark.parametrize("ctrl_c", [signal.default_int_handler, signal.SIG_IGN])
def test_sigterm_interrupts_also_where_ctrl_c_is_ignored(ctrl_c: signal.Handlers) -> None:
    signal.signal(signal.SIGINT, ctrl_c)
    terminated = terminate_as_interrupt()
    assert not terminated()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert terminated()
