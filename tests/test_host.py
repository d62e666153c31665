"""A program that uses the library, or runs a command inside itself, finds itself as it was."""

from __future__ import annotations

import ast
import asyncio
import gc
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

import orchestrator
from memory import Config, __main__, open_chat_memory, open_store
from memory.assembly import build_deduplicator, build_model
from memory.cli import main
from memory.config import LLMConfig, MemoryConfig
from memory.models import Turn
from memory.runtime import stop_event
from tests.doubles import START

MEMORY = Path(__main__.__file__).parent
SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


def state() -> dict[str, object]:
    """What Python shares between a program and the libraries in it."""
    waker = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(waker)
    return {
        **{str(one): signal.getsignal(one) for one in SIGNALS},
        "waker": waker,
        "gc": (gc.isenabled(), gc.get_threshold()),
        "warnings": list(warnings.filters),
        "interval": sys.getswitchinterval(),
    }


def use_the_library(folder: Path) -> None:
    config = Config(memory=MemoryConfig(data_dir=str(folder)), llm=LLMConfig(provider="offline"))

    async def talk() -> None:
        async with open_chat_memory(config) as memory:
            await memory.hear(Turn(speaker="Mia", text="I have a cat.", at=START))
            await memory.settle()
            assert await memory.recall("pets", user="Mia")

    asyncio.run(talk())
    with open_store(config) as store:
        told = [store.new_memory(f"Leo saw bird {n}.", user="Leo") for n in range(40)]
        assert store.add_batch(told) == 40
        deduplicator = build_deduplicator(store, config, build_model(config))
        asyncio.run(deduplicator.deduplicate_all())


def run(command: Callable[[], None], *args: str) -> int:
    """Run a command inside this process, and return its exit status."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["memory-dedup", *args])
        with pytest.raises(SystemExit) as ended:
            command()
    return int(ended.value.code or 0)


def serve_over_http(folder: Path) -> None:
    """Serve the agent's tools inside this process, until a SIGTERM."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"

    def stop_it() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                urlopen(f"http://{address}/health", timeout=30).close()
                break
            except (URLError, ConnectionError):
                time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    stopper = threading.Thread(target=stop_it)
    stopper.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MEMORY_DATA_DIR", str(folder / "data"))
        assert run(main, "serve", "--http", address) == 0
    stopper.join()


def run_commands(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MEMORY_DATA_DIR", str(folder / "data"))
        patch.setattr(sys, "stdin", None)  # of memory-chat
        patch.setattr("atexit.register", lambda *_: None)  # what follows is not this program's end
        for command in (main, __main__.dedup):
            assert run(command, "import", "none.jsonl") == 1
            assert run(command, "stats") == 0
            assert run(command, "audit", "--report", "report.html") == 0
            assert run(command, "no-such-command") == 2
        for command in (orchestrator.main, __main__.chat):
            assert run(command, "--dedup-dry-run") == 0


@pytest.mark.parametrize("use", [use_the_library, run_commands, serve_over_http])
def test_nothing_of_the_program_has_changed(use: Callable[[Path], None], tmp_path: Path) -> None:
    use_the_library(tmp_path / "data")  # what other libraries do at their first use is theirs
    before = state()
    use(tmp_path)
    assert state() == before


def test_a_signal_handler_of_the_programs_event_loop_stays() -> None:
    async def wait_twice() -> bool:
        asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
        with stop_event() as stop:
            signal.raise_signal(signal.SIGTERM)
            await stop.wait()
        asked.clear()
        signal.raise_signal(signal.SIGTERM)
        return await asyncio.wait_for(asked.wait(), 20)

    assert asyncio.run(wait_twice())


def test_no_code_switches_the_garbage_collector_or_calls_the_c_library() -> None:
    used = {
        (path.name, name)
        for path in MEMORY.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (getattr(node, "module", None), *(one.name for one in node.names))
    }
    assert not [(file, name) for file, name in used if name in ("gc", "ctypes", "faulthandler")]
