"""Entry points of the two commands. Ctrl-C during the imports ends them without a traceback."""

from __future__ import annotations

import ctypes
import importlib
import signal

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""Numbers of two parameters of glibc's `mallopt`."""


def dedup() -> None:
    """Run the command `memory-dedup`."""
    _run("memory.cli")


def chat() -> None:
    """Run the command `memory-chat`."""
    _run("orchestrator")


def _run(module: str) -> None:
    """Import a module and run its `main`; Ctrl-C during the import ends the process quietly."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    keep_heap_small()
    main = importlib.import_module(module).main
    signal.signal(signal.SIGINT, handler)
    main()


def keep_heap_small() -> None:
    """Make glibc return the memory of freed arrays to the operating system.

    By default glibc keeps this memory, because it lies between arrays that are still in use:
    planning 50,000 memories then took 1.2 GB instead of 0.7. Do nothing on systems without glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_MMAP_THRESHOLD, 128 * 1024)
    mallopt(_ARENA_MAX, 2)
