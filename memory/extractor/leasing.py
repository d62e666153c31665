"""Lease conversations, so that only one process at a time extracts each of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import threading
from collections.abc import AsyncIterator

from memory.errors import LeaseLost, LedgerError
from memory.ledger import Lease, Ledger
from memory.runtime import in_thread

logger = logging.getLogger(__name__)

LEASE_S = 15.0
"""Seconds after which a lease expires if it is not renewed.

If a process is killed, other processes must wait this long before they can extract its
conversations. A lease is renewed after each third of this time, so that a short restart of the
database does not end it.
"""


@contextlib.asynccontextmanager
async def leased(
    ledger: Ledger, conversation: str, seconds: float = LEASE_S
) -> AsyncIterator[Lease | None]:
    """Hold a lease on a conversation while the block runs, and yield the lease.

    Yield None if another process holds it. A thread renews the lease, which expires `seconds` after
    its last renewal.

    Raises: LedgerError if the lease could not be claimed.
    """
    lease = Lease(conversation, secrets.token_hex(8))
    try:
        claimed = await in_thread(_claim, ledger, lease, seconds)
    except asyncio.CancelledError:  # its thread may have claimed it
        await in_thread(_release, ledger, lease)
        raise
    if not claimed:
        yield None
        return
    ended = threading.Event()
    # A thread of its own renews: a busy event loop or thread pool must not cost the lease.
    renewing = threading.Thread(
        target=_keep_renewed, args=(ledger, lease, seconds, ended), name="lease", daemon=True
    )
    renewing.start()
    try:
        yield lease
    finally:
        ended.set()
        await in_thread(renewing.join)
        await in_thread(_release, ledger, lease)


def _claim(ledger: Ledger, lease: Lease, seconds: float) -> bool:
    with ledger.reading() as reader:  # looking is cheap; writers wait for each other
        if reader.leases.is_held(lease.conversation, seconds):
            return False
    with ledger.writing() as writer:
        return writer.leases.claim(lease, seconds)


def _release(ledger: Ledger, lease: Lease) -> None:
    """Release the lease. If the ledger cannot be written, only log this: the lease will expire."""
    try:
        with ledger.writing() as writer:
            writer.leases.release(lease)
    except LedgerError as exc:
        logger.warning("a lease is not given back and will run out: %s", exc)


def _keep_renewed(ledger: Ledger, lease: Lease, seconds: float, ended: threading.Event) -> None:
    while not ended.wait(seconds / 3):
        try:
            with ledger.writing() as writer:
                writer.leases.renew(lease, seconds)
        except LeaseLost:
            return  # the next write under the lease raises it
        except LedgerError as exc:
            logger.warning("a lease is not renewed: %s", exc)
