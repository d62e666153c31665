"""Leases: who extracts a conversation, until when by the database's clock."""

from __future__ import annotations

import os
import platform

import sqlalchemy as sa

from memory.errors import LeaseLost
from memory.ledger import tables as t
from memory.ledger.records import Lease
from memory.ledger.transaction import TableGroup


class Leases(TableGroup):
    """Which conversations are held."""

    def is_held(self, conversation: str, seconds: float) -> bool:
        """Whether somebody holds a conversation whose leases are for so many seconds.

        A lease that ends later than one taken now is of a clock that was set back: not held.
        """
        now_s = self._transaction.now_s()
        ends = t.leases.c.expires_at
        valid = sa.and_(ends > now_s, ends <= now_s + seconds)
        return bool(
            self._transaction.count(
                t.leases, sa.and_(t.leases.c.conversation == conversation, valid)
            )
        )

    def check(self, lease: Lease) -> None:
        """Nobody else has taken the work over. One that has run out holds until then.

        Raises: LeaseLost.
        """
        if not self._transaction.count(t.leases, _is(lease)):
            raise LeaseLost(lease.conversation)


class LeasesWriter(Leases):
    """Leases, to be taken, renewed and given back."""

    def claim(self, lease: Lease, seconds: float) -> bool:
        """Take a conversation that nobody holds; whether nobody did."""
        if self.is_held(lease.conversation, seconds):
            return False
        self.free(lease.conversation)
        self._connection.execute(
            t.leases.insert().values(
                conversation=lease.conversation,
                token=lease.token,
                holder=f"{platform.node()}:{os.getpid()}",
                expires_at=self._transaction.now_s() + seconds,
            )
        )
        return True

    def renew(self, lease: Lease, seconds: float) -> None:
        """Hold it for so long from now on.

        Raises: LeaseLost.
        """
        self.check(lease)
        until = self._transaction.now_s() + seconds
        self._connection.execute(t.leases.update().where(_is(lease)).values(expires_at=until))

    def release(self, lease: Lease) -> None:
        """Give back what may have been lost already."""
        self._connection.execute(t.leases.delete().where(_is(lease)))

    def free_all(self) -> None:
        """Take every conversation from whoever holds it: what they hold may be forgotten since."""
        self._connection.execute(t.leases.delete())

    def free(self, conversation: str) -> None:
        """Take a conversation from whoever held it."""
        self._connection.execute(t.leases.delete().where(t.leases.c.conversation == conversation))


def _is(lease: Lease) -> sa.ColumnElement[bool]:
    return sa.and_(t.leases.c.conversation == lease.conversation, t.leases.c.token == lease.token)
