"""Entry points of the commands `memory-dedup` (also `python -m memory`) and `memory-chat`.

Ctrl-C ends a command without a traceback, also while Python still imports the command's code.
"""

from __future__ import annotations

import ctypes
import importlib
import signal
import sys
from pathlib import Path

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8  # numbers of two parameters of glibc's `mallopt`


def dedup() -> None:
    _run("memory.cli")


def chat() -> None:
    _run("orchestrator")


def _run(module: str) -> None:
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    keep_heap_small()
    main = importlib.import_module(module).main
    signal.signal(signal.SIGINT, handler)
    main()


def keep_heap_small() -> None:
    """Make glibc return the memory of freed arrays to the operating system.

    By default, glibc keeps freed memory that lies between arrays in use. Planning 50,000 memories
    took 1.2 GB by default, and 0.7 GB after this call. Without glibc, this does nothing.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_MMAP_THRESHOLD, 128 * 1024)
    mallopt(_ARENA_MAX, 2)


def leave_out_current_folder(path: list[str]) -> None:
    """Remove the current folder, which `python -m` puts first on the module search path.

    A `config.yaml` of that folder may name a factory: it must not find its code there too. The
    folder that holds this package stays.
    """
    if Path(path[0]).absolute() == Path.cwd() != Path(__file__).parents[1]:
        del path[0]


if __name__ == "__main__":
    leave_out_current_folder(sys.path)
    dedup()
