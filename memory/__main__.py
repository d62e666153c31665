"""Entry points of the commands `memory-dedup` (also `python -m memory`) and `memory-chat`.

Ctrl-C ends a command without a traceback, also while Python imports the command's code or exits.
"""

from __future__ import annotations

import atexit
import importlib
import signal


def dedup() -> None:
    _run("memory.cli")


def chat() -> None:
    _run("orchestrator")


def _run(module: str) -> None:
    handler = signal.getsignal(signal.SIGINT)
    if is_pythons := handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        main = importlib.import_module(module).main
    finally:
        signal.signal(signal.SIGINT, handler)
    try:
        main()
    finally:
        if is_pythons:
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    dedup()
