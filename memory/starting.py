"""How the commands begin: while they are being loaded, Ctrl-C ends them without a word."""

from __future__ import annotations

import signal
from typing import Any


def dedup() -> None:
    """`memory-dedup`."""
    loading = _quietly()
    from memory.cli import main

    signal.signal(signal.SIGINT, loading)
    main()


def chat() -> None:
    """`memory-chat`."""
    loading = _quietly()
    from orchestrator import main

    signal.signal(signal.SIGINT, loading)
    main()


def _quietly() -> Any:
    """Nothing is open yet; gives what an interrupt meant before."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return before
