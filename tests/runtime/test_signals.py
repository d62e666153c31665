"""A signal stops what runs and what waits, and afterwards means what it meant before."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.runtime.threads import stop_event, terminate_as_interrupt

ROOT = Path(__file__).parent.parent


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
    before = signal.getsignal(signal.SIGTERM)
    with terminate_as_interrupt() as terminated:
        assert not terminated()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert terminated()
    assert signal.getsignal(signal.SIGTERM) is before


def ended(code: str) -> tuple[int, str]:
    """How a process ends that runs this, and what it says."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    return done.returncode, done.stderr


WHILE_IT_LOADS = """
import signal, sys

class Hook:
    def find_spec(self, name, *_):
        if name == "{loaded}":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Hook())
from memory.__main__ import {command}
{command}()
"""


@pytest.mark.parametrize(
    ("command", "loaded"), [("dedup", "memory.cli.commands"), ("chat", "memory.cli.shell")]
)
def test_while_a_command_loads_ctrl_c_ends_it_without_a_word(command: str, loaded: str) -> None:
    code = WHILE_IT_LOADS.format(command=command, loaded=loaded)
    assert ended(code) == (-signal.SIGINT, "")


@pytest.mark.parametrize("first", ["KeyboardInterrupt", "SystemExit(0)"])
def test_ctrl_c_while_a_command_ends_says_nothing_more(first: str) -> None:
    code = f"""
import atexit, signal, sys, types
from memory.__main__ import chat
from memory.cli import run_shell

def main():
    atexit.register(signal.raise_signal, signal.SIGINT)
    raise {first}

sys.modules["orchestrator"] = types.SimpleNamespace(main=lambda: run_shell(main))
chat()
"""
    said = "interrupted\n" if first == "KeyboardInterrupt" else ""
    assert ended(code) == (-signal.SIGINT, said)
