"""Entry points of the commands: Ctrl-C during the imports ends them without a traceback."""

from __future__ import annotations

import ctypes
import signal
from typing import Any

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""Parameters of glibc's `mallopt`."""


def dedup() -> None:
    """`memory-dedup`."""
    loading = _quietly()
    keep_heap_small()
    from memory.cli import main

    signal.signal(signal.SIGINT, loading)
    main()


def chat() -> None:
    """`memory-chat`."""
    loading = _quietly()
    keep_heap_small()
    from orchestrator import main

    signal.signal(signal.SIGINT, loading)
    main()


def _quietly() -> Any:
    """Restore the default SIGINT handler during imports and return the previous one."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return before


def keep_heap_small() -> None:
    """Make glibc return freed arrays to the system.

    By default it keeps them, scattered between live ones: the plan of 50,000 memories took 1.2 GB
    instead of 0.7.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_MMAP_THRESHOLD, 128 * 1024)
    mallopt(_ARENA_MAX, 2)
