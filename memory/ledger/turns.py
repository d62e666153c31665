"""Turns that wait for extraction, and leases: which process extracts a conversation now."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Collection, Sequence
from typing import Any

import sqlalchemy as sa
from pydantic import TypeAdapter

from memory.errors import LeaseLost
from memory.ledger import tables as t
from memory.ledger.records import Lease, PendingTurn, Waiting
from memory.ledger.statements import TableGroup, among, naming_damage
from memory.models import KeptCandidate, Turn

_CANDIDATES = TypeAdapter(tuple[KeptCandidate | None, ...])
_DONE = sa.and_(sa.not_(t.turns.c.pending), t.turns.c.turn.is_not(None))


def turn_of(column: str) -> Turn:
    with naming_damage("a turn"):
        return Turn.model_validate_json(column)


class Turns(TableGroup):
    def waiting(self, read: Callable[[str], Turn] = turn_of) -> list[PendingTurn]:
        """Return all waiting turns, oldest first. `read` parses a turn's column."""
        return self._found(t.turns.c.pending, read=read)

    def to_extract(
        self, conversation: str, most_attempts: int, after: int, limit: int
    ) -> list[PendingTurn]:
        """Return the first `limit` waiting turns of a conversation.

        Only turns with a number above `after` are returned. Turns whose extraction failed
        `most_attempts` times are left out.
        """
        return self._found(
            _worth_a_try(most_attempts),
            t.turns.c.conversation == conversation,
            t.turns.c.seq > after,
            limit=limit,
        )

    def conversations(self, most_attempts: int) -> list[Waiting]:
        """Return the conversations with waiting turns, the one that has waited longest first.

        Turns whose extraction failed `most_attempts` times do not count.
        """
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
        """Return the last `limit` extracted turns before turn number `seq`, oldest first.

        Turns whose text was erased are left out.
        """
        query = sa.select(t.turns.c.turn).where(
            _DONE, t.turns.c.conversation == conversation, t.turns.c.seq < seq
        )
        last = self._connection.scalars(query.order_by(t.turns.c.seq.desc()).limit(limit)).all()
        return [turn_of(column) for column in reversed(last)]

    def extracted(self) -> list[Turn]:
        """Return the extracted turns whose text is still stored, in no order."""
        query = sa.select(t.turns.c.turn).where(_DONE)
        return [turn_of(column) for column in self._connection.scalars(query)]

    def count_waiting(self) -> int:
        return self._transaction.count(t.turns, t.turns.c.pending)

    def _found(
        self,
        *where: sa.ColumnElement[bool],
        limit: int | None = None,
        read: Callable[[str], Turn] = turn_of,
    ) -> list[PendingTurn]:
        query = sa.select(t.turns).where(*where).order_by(t.turns.c.seq).limit(limit)
        return [_pending_turn(row, read) for row in self._connection.execute(query)]

    def keep(self, turn: Turn, name: str) -> bool:
        """Store a turn for later extraction; return False if the same turn was stored before.

        Two turns are the same if their conversations, texts and names are equal. `name` is the
        turn's id. If the turn has no id, `name` is made from the turn's position or time.
        """
        statement = self._transaction.upsert(t.turns).values(
            conversation=turn.conversation,
            name=name,
            digest=hashlib.sha256(turn.text.encode()).hexdigest()[:32],
            pending=True,
            turn=turn.model_dump_json(),
            heard_at=self._transaction.now_s(),
        )
        fresh = statement.on_conflict_do_nothing().returning(t.turns.c.seq)
        return self._connection.scalar(fresh) is not None

    def keep_candidates(self, seq: int, candidates: Sequence[KeptCandidate | None]) -> None:
        """Store the facts that a model found in a turn, so that a crash does not lose them.

        `seq`: the turn's number. None takes the place of a fact that was forgotten, so that the
        other facts keep their positions.
        """
        found = _CANDIDATES.dump_json(tuple(candidates)).decode()
        self._update(t.turns.c.seq == seq, candidates=found)

    def count_attempt(self, seq: int) -> None:
        self._update(t.turns.c.seq == seq, attempts=t.turns.c.attempts + 1)

    def finish(self, seq: int) -> None:
        self._update(t.turns.c.seq == seq, pending=False, candidates=None)

    def clear(self, conversation: str, but: int, older_than_s: float) -> None:
        """Erase the texts of extracted turns that are no longer needed as context.

        Two kinds of extracted turns lose their texts: all turns of `conversation` except the last
        `but`, and the turns of any conversation that were stored more than `older_than_s` seconds
        ago. The hash of each text stays, so that a turn is recognised if it is sent again.
        """
        done = sa.select(t.turns.c.seq).where(_DONE, t.turns.c.conversation == conversation)
        earlier = done.order_by(t.turns.c.seq.desc()).offset(but)
        self._update(t.turns.c.seq.in_(earlier), turn=None)
        old = t.turns.c.heard_at < self._transaction.now_s() - older_than_s
        self._update(sa.and_(_DONE, old), turn=None)

    def reword(self, seq: int, turn: Turn) -> None:
        """Replace a waiting turn by `turn`, which has another text.

        If the turn is sent again with its old text, it is still recognised.
        """
        self._update(t.turns.c.seq == seq, turn=turn.model_dump_json())

    def drop(self, seq: int) -> None:
        """Erase a waiting turn without extracting it. It is recognised if it is sent again."""
        self._update(t.turns.c.seq == seq, pending=False, turn=None, candidates=None)

    def clear_extracted(self, conversations: Collection[str] | None = None) -> None:
        where = _DONE
        if conversations is not None:
            where = sa.and_(_DONE, among(t.turns.c.conversation, conversations))
        self._update(where, turn=None)

    def _update(self, where: sa.ColumnElement[bool], **values: Any) -> None:
        self._connection.execute(t.turns.update().where(where).values(**values))


def _worth_a_try(most_attempts: int) -> sa.ColumnElement[bool]:
    return sa.and_(t.turns.c.pending, t.turns.c.attempts < most_attempts)


def _pending_turn(row: sa.Row[Any], read: Callable[[str], Turn]) -> PendingTurn:
    with naming_damage(f"turn {row.seq}"):
        return PendingTurn(
            seq=row.seq,
            name=row.name,
            turn=read(row.turn),
            attempts=row.attempts,
            candidates=_CANDIDATES.validate_json(row.candidates) if row.candidates else None,
        )


# --- leases: who extracts a conversation, until when by the database's clock ----------------------


class Leases(TableGroup):
    """The leases. Only the holder of a conversation's lease may extract memories from it."""

    def is_held(self, conversation: str, seconds: float) -> bool:
        """Return whether a process holds the lease of a conversation.

        `seconds`: the normal length of a lease. A lease does not count if it ends more than
        `seconds` from now, because the database's clock must then have been set back.
        """
        now_s = self._transaction.now_s()
        ends = t.leases.c.expires_at
        valid = sa.and_(ends > now_s, ends <= now_s + seconds)
        in_conversation = t.leases.c.conversation == conversation
        return self._transaction.count(t.leases, sa.and_(in_conversation, valid)) > 0

    def check(self, lease: Lease) -> None:
        """Check that no other process has taken over the conversation of this lease.

        An expired lease stays valid until another process takes it.

        Raises: LeaseLost.
        """
        if not self._transaction.count(t.leases, _is(lease)):
            raise LeaseLost(lease.conversation)

    def claim(self, lease: Lease, seconds: float) -> bool:
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
        self.check(lease)
        until = self._transaction.now_s() + seconds
        self._connection.execute(t.leases.update().where(_is(lease)).values(expires_at=until))

    def release(self, lease: Lease) -> None:
        self._connection.execute(t.leases.delete().where(_is(lease)))

    def free(self, conversation: str) -> None:
        self._connection.execute(t.leases.delete().where(t.leases.c.conversation == conversation))

    def free_all(self) -> None:
        """End all leases, so that extractions under way cannot store their results.

        Call this when turns are erased: an extraction may have read them before.
        """
        self._connection.execute(t.leases.delete())


def _is(lease: Lease) -> sa.ColumnElement[bool]:
    return sa.and_(t.leases.c.conversation == lease.conversation, t.leases.c.token == lease.token)
