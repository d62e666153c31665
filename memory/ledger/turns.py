"""Turns of conversations that wait for extraction, and the leases of who extracts them."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa
from pydantic import TypeAdapter

from memory.errors import LeaseLost
from memory.ledger import tables as t
from memory.ledger.records import Lease, PendingTurn, Waiting
from memory.ledger.statements import among
from memory.ledger.transaction import TableGroup
from memory.models import KeptCandidate, Turn

_CANDIDATES = TypeAdapter(tuple[KeptCandidate | None, ...])
_DONE = sa.and_(sa.not_(t.turns.c.pending), t.turns.c.turn.is_not(None))
"""Extracted, with its text still kept."""
SHARED = "default"
"""The conversation of turns without one in versions before schema 7."""


class Turns(TableGroup):
    """Turns that wait for extraction, and the last extracted ones as their context."""

    def waiting(self) -> list[PendingTurn]:
        """Return the turns that wait, in the order in which they were kept."""
        return self._found(t.turns.c.pending)

    def to_extract(
        self, conversation: str, most_attempts: int, after: int, limit: int
    ) -> list[PendingTurn]:
        """Return the first turns that wait in a conversation after `after`, failed less often."""
        mine = t.turns.c.conversation == conversation
        return self._found(_worth_a_try(most_attempts), mine, t.turns.c.seq > after, limit=limit)

    def conversations(self, most_attempts: int) -> list[Waiting]:
        """Return the conversations in which turns wait, the longest wait first."""
        first = sa.func.min(t.turns.c.heard_at)
        query = (
            sa.select(t.turns.c.conversation, sa.func.count(), first)
            .where(_worth_a_try(most_attempts))
            .group_by(t.turns.c.conversation)
            .order_by(first, sa.func.min(t.turns.c.seq))
        )
        now_s = self._transaction.now_s()
        return [
            Waiting(conversation, count, abs(now_s - heard_at))  # also where the clock was set back
            for conversation, count, heard_at in self._connection.execute(query)
        ]

    def extracted_before(self, conversation: str, seq: int, limit: int) -> list[Turn]:
        """Return the last extracted turns before this one whose text is kept."""
        query = sa.select(t.turns.c.turn).where(
            _DONE, t.turns.c.conversation == conversation, t.turns.c.seq < seq
        )
        last = self._connection.scalars(query.order_by(t.turns.c.seq.desc()).limit(limit)).all()
        return [_turn(column) for column in reversed(last)]

    def with_text(self) -> list[Turn]:
        """Return every turn whose text is kept: waiting ones and the last extracted ones."""
        query = sa.select(t.turns.c.turn).where(t.turns.c.turn.is_not(None))
        return [_turn(one) for one in self._connection.scalars(query)]

    def last_before_upgrade(self) -> int:
        """Return the number of the last turn that was kept before schema 7, 0 if there is none."""
        key = t.meta.c.key == "last_turn_with_defaults"
        return int(self._connection.scalar(sa.select(t.meta.c.value).where(key)) or 0)

    def count_waiting(self) -> int:
        return self._transaction.count(t.turns, t.turns.c.pending)

    def count_waiting_of(self, speaker: str) -> int:
        return sum(waiting.turn.speaker == speaker for waiting in self.waiting())

    def _found(self, *where: sa.ColumnElement[bool], limit: int | None = None) -> list[PendingTurn]:
        query = sa.select(t.turns).where(*where).order_by(t.turns.c.seq).limit(limit)
        return [_pending_turn(row) for row in self._connection.execute(query)]


class TurnsWriter(Turns):
    """Keep, finish and erase turns."""

    def keep(self, turn: Turn, name: str) -> bool:
        """Keep a turn until it is extracted; False if it was known before."""
        statement = self._transaction.upsert(t.turns).values(
            conversation=turn.conversation,
            name=name,
            digest=_digest(turn.text),
            pending=True,
            turn=turn.model_dump_json(),
            heard_at=self._transaction.now_s(),
        )
        fresh = statement.on_conflict_do_nothing().returning(t.turns.c.seq)
        return self._connection.scalar(fresh) is not None

    def keep_candidates(self, seq: int, candidates: Sequence[KeptCandidate | None]) -> None:
        """Keep what a model found in a turn, so that it is not asked again after a crash."""
        found = _CANDIDATES.dump_json(tuple(candidates)).decode()
        self._update(t.turns.c.seq == seq, candidates=found)

    def count_attempt(self, seq: int) -> None:
        """Count a failed extraction of a turn."""
        self._update(t.turns.c.seq == seq, attempts=t.turns.c.attempts + 1)

    def finish(self, seq: int) -> None:
        """Mark a turn as extracted; its text stays as context until it is cleared."""
        self._update(t.turns.c.seq == seq, pending=False, candidates=None)

    def clear(self, conversation: str, but: int, older_than_s: float) -> None:
        """Erase the texts of extracted turns: all but the last here, old ones everywhere.

        Their digests stay, by which they are recognised.
        """
        done = sa.select(t.turns.c.seq).where(_DONE, t.turns.c.conversation == conversation)
        earlier = done.order_by(t.turns.c.seq.desc()).offset(but)
        self._update(t.turns.c.seq.in_(earlier), turn=None)
        old = t.turns.c.heard_at < self._transaction.now_s() - older_than_s
        self._update(sa.and_(_DONE, old), turn=None)

    def reword(self, seq: int, turn: Turn) -> None:
        """Change the text of a waiting turn, which is still recognised by the first one."""
        self._update(t.turns.c.seq == seq, turn=turn.model_dump_json())

    def drop(self, seq: int) -> None:
        """Erase a turn but for its digest; it will not be extracted."""
        self._update(t.turns.c.seq == seq, pending=False, turn=None, candidates=None)

    def clear_extracted(self, conversations: Collection[str] | None = None) -> None:
        """Erase the texts of extracted turns, in these conversations or everywhere."""
        where = _DONE
        if conversations is not None:
            where = sa.and_(_DONE, among(t.turns.c.conversation, conversations))
        self._update(where, turn=None)

    def _update(self, where: sa.ColumnElement[bool], **values: Any) -> None:
        self._connection.execute(t.turns.update().where(where).values(**values))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _worth_a_try(most_attempts: int) -> sa.ColumnElement[bool]:
    return sa.and_(t.turns.c.pending, t.turns.c.attempts < most_attempts)


def _pending_turn(row: sa.Row[Any]) -> PendingTurn:
    with t.naming_damage(f"turn {row.seq}"):
        return PendingTurn(
            seq=row.seq,
            name=row.name,
            turn=Turn.model_validate_json(row.turn),
            attempts=row.attempts,
            candidates=_CANDIDATES.validate_json(row.candidates) if row.candidates else None,
        )


def _turn(column: str) -> Turn:
    with t.naming_damage("a turn"):
        return Turn.model_validate_json(column)


# --- leases: who extracts a conversation, until when by the database's clock ----------------------


class Leases(TableGroup):
    """The conversations that a process is extracting."""

    def is_held(self, conversation: str, seconds: float) -> bool:
        """Whether a process holds a conversation, if leases last this many seconds.

        A lease that ends later than one taken now is from a clock that was set back: not held.
        """
        now_s = self._transaction.now_s()
        ends = t.leases.c.expires_at
        valid = sa.and_(ends > now_s, ends <= now_s + seconds)
        here = t.leases.c.conversation == conversation
        return self._transaction.count(t.leases, sa.and_(here, valid)) > 0

    def check(self, lease: Lease) -> None:
        """Check that no other process has taken over; an expired lease holds until one does.

        Raises: LeaseLost.
        """
        if not self._transaction.count(t.leases, _is(lease)):
            raise LeaseLost(lease.conversation)


class LeasesWriter(Leases):
    """Take, renew and release leases."""

    def claim(self, lease: Lease, seconds: float) -> bool:
        """Take the lease of a conversation; False if another process holds it."""
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
        """Hold the lease for this many seconds from now on.

        Raises: LeaseLost.
        """
        self.check(lease)
        until = self._transaction.now_s() + seconds
        self._connection.execute(t.leases.update().where(_is(lease)).values(expires_at=until))

    def release(self, lease: Lease) -> None:
        """Give the lease back; nothing happens if it was lost."""
        self._connection.execute(t.leases.delete().where(_is(lease)))

    def free(self, conversation: str) -> None:
        """Take a conversation from its holder."""
        self._connection.execute(t.leases.delete().where(t.leases.c.conversation == conversation))

    def free_all(self) -> None:
        """Take every conversation from its holder: what they read may be forgotten since."""
        self._connection.execute(t.leases.delete())


def _is(lease: Lease) -> sa.ColumnElement[bool]:
    return sa.and_(t.leases.c.conversation == lease.conversation, t.leases.c.token == lease.token)
