"""Turns of conversations that wait to be extracted, and how those that were are known again."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

import sqlalchemy as sa
from pydantic import TypeAdapter

from memory.ledger import tables as t
from memory.ledger.records import PendingTurn
from memory.ledger.transaction import TableGroup
from memory.models import Candidate, Turn

_CANDIDATES = TypeAdapter(tuple[Candidate, ...])


class Turns(TableGroup):
    """What was said and is not extracted yet."""

    def waiting(self) -> list[PendingTurn]:
        """In the order in which they were kept."""
        query = sa.select(t.turns).where(t.turns.c.pending).order_by(t.turns.c.seq)
        return [
            PendingTurn(
                seq=row.seq,
                name=row.name,
                turn=Turn.model_validate_json(row.turn),
                attempts=row.attempts,
                candidates=_CANDIDATES.validate_json(row.candidates) if row.candidates else None,
            )
            for row in self._connection.execute(query)
        ]

    def count_waiting(self) -> int:
        return self._transaction.count(t.turns, t.turns.c.pending)


class TurnsWriter(Turns):
    """Turns, to be kept and finished."""

    def keep(self, turn: Turn, name: str) -> bool:
        """Keep a turn until it is extracted; whether it was not known before."""
        digest = hashlib.sha256(turn.text.encode()).hexdigest()[:32]
        statement = self._transaction.upsert(t.turns).values(
            conversation=turn.conversation,
            name=name,
            digest=digest,
            pending=True,
            turn=turn.model_dump_json(),
        )
        fresh = statement.on_conflict_do_nothing().returning(t.turns.c.seq)
        return self._connection.scalar(fresh) is not None

    def keep_candidates(self, seq: int, candidates: Sequence[Candidate]) -> None:
        """What a model found in a turn: after a crash it need not be asked again."""
        found = _CANDIDATES.dump_json(tuple(candidates)).decode()
        self._update(seq, candidates=found)

    def count_attempt(self, seq: int) -> None:
        """A turn could not be extracted this time."""
        self._update(seq, attempts=t.turns.c.attempts + 1)

    def finish(self, seq: int) -> None:
        """A turn is extracted: all that stays of it is how it is known again."""
        self._update(seq, pending=False, turn=None, candidates=None)

    def forget(self, contents: Collection[str]) -> None:
        """Turns that wait neither keep these texts nor bring them back."""
        for waiting in self.waiting():
            found = waiting.candidates or ()
            left = [one for one in found if one.content not in contents]
            said = any(content in waiting.turn.text for content in contents)
            if said or len(left) < len(found):
                self.keep_candidates(waiting.seq, left)
                silent = waiting.turn.model_copy(update={"text": ""})
                self._update(waiting.seq, turn=silent.model_dump_json())

    def _update(self, seq: int, **values: object) -> None:
        self._connection.execute(t.turns.update().where(t.turns.c.seq == seq).values(**values))
