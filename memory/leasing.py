"""Who works at a conversation: one at a time, whichever process it lives in."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Iterator

from memory.errors import LeaseLost, LedgerError
from memory.ledger import Lease, Ledger
from memory.threads import in_thread

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def worker(ledger: Ledger) -> Iterator[str]:
    """The name of somebody who may hold leases; when the block or the process ends, all see it.

    Raises: LedgerError.
    """
    name = "worker-" + secrets.token_hex(6)
    with ledger.present(name):
        yield name


@contextlib.asynccontextmanager
async def leased(
    ledger: Ledger, conversation: str, holder: str, seconds: float
) -> AsyncIterator[Lease | None]:
    """A lease on the conversation, renewed while the block runs; None where another has one.

    It passes to others when its holder is dead, or has not renewed it for so many seconds.

    Raises: LedgerError.
    """
    lease = Lease(conversation, secrets.token_hex(8))
    try:
        if not await in_thread(_claim, ledger, lease, holder, seconds):
            yield None
            return
        renewing = asyncio.create_task(_keep_renewed(ledger, lease, seconds))
        try:
            yield lease
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])
    finally:
        await in_thread(_release, ledger, lease)


def _claim(ledger: Ledger, lease: Lease, holder: str, seconds: float) -> bool:
    with ledger.reading() as reader:
        other = reader.leases.holder(lease.conversation)
    alive = other is not None and ledger.is_present(other)
    if alive:
        return False
    with ledger.writing() as writer:
        if other is not None and writer.leases.holder(lease.conversation) == other:
            writer.leases.free(lease.conversation)
        return writer.leases.claim(lease, holder, seconds)


def _release(ledger: Ledger, lease: Lease) -> None:
    with ledger.writing() as writer:
        writer.leases.release(lease)


async def _keep_renewed(ledger: Ledger, lease: Lease, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds / 3)
        try:
            await in_thread(_renew, ledger, lease, seconds)
        except LeaseLost as exc:
            logger.warning("%s", exc)
            return
        except LedgerError as exc:
            logger.warning("a lease is not renewed: %s", exc)


def _renew(ledger: Ledger, lease: Lease, seconds: float) -> None:
    with ledger.writing() as writer:
        writer.leases.renew(lease, seconds)
