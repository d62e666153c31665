"""Questions that a model failed at, by pair of texts, and when they are asked again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.distinct import TextPair
from memory.ledger.records import Attempt
from memory.ledger.transaction import TableGroup
from memory.models import Scope
from memory.text import text_key

MOST_ATTEMPTS = 5
"""How often a pair is asked about by itself; then only a person, or another model, asks."""
BATCH_PAUSE = timedelta(minutes=10)
"""How long a batch leaves alone what it has failed at for the first time."""
_LONGER = 6
"""How much longer each pause is than the one before it."""


class Attempts(TableGroup):
    """What waits to be asked again."""

    def waiting(self, model: str, now: datetime) -> set[TextPair]:
        """The pairs that this model failed at, and that are not due yet or will not be."""
        columns = t.attempts.c
        later = sa.or_(columns.next_at.is_(None), columns.next_at > _written(now))
        query = sa.select(columns.scope, columns.low_key, columns.high_key)
        found = self._connection.execute(query.where(columns.model == model, later))
        return {tuple(row) for row in found}

    def all(self) -> list[Attempt]:
        """Every pair that a model failed at, those that it failed at most often first."""
        columns = t.attempts.c
        query = sa.select(
            columns.low_key, columns.high_key, columns.model, columns.attempts, columns.next_at
        )
        found = self._connection.execute(query.order_by(columns.attempts.desc(), columns.low_key))
        return [Attempt(*row) for row in found]

    def exhausted(self, model: str) -> set[TextPair]:
        """Those of them that this model is not asked about any more by itself."""
        columns = t.attempts.c
        query = sa.select(columns.scope, columns.low_key, columns.high_key)
        never = query.where(columns.model == model, columns.next_at.is_(None))
        return {tuple(row) for row in self._connection.execute(never)}


class AttemptsWriter(Attempts):
    """Attempts, to be counted."""

    def count(
        self,
        scope: Scope,
        text_a: str,
        text_b: str,
        model: str,
        now: datetime,
        first_pause: timedelta,
    ) -> None:
        """The model failed at this pair once more; another model starts anew.

        It is asked again after a pause that grows from `first_pause` on with each attempt.
        """
        low, high = sorted((text_key(text_a), text_key(text_b)))
        pair = {"scope": scope.key, "low_key": low, "high_key": high}
        here = sa.and_(*(t.attempts.c[name] == value for name, value in pair.items()))
        columns = t.attempts.c
        before = self._connection.scalar(
            sa.select(columns.attempts).where(here, columns.model == model)
        )
        count = (before or 0) + 1
        values = {"model": model, "attempts": count, "next_at": _next_at(count, now, first_pause)}
        statement = self._transaction.upsert(t.attempts).values(**pair, **values)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=[*pair], set_=values)
        )


def _next_at(attempts: int, now: datetime, first_pause: timedelta) -> str | None:
    if attempts >= MOST_ATTEMPTS:
        return None
    return _written(now + first_pause * _LONGER ** (attempts - 1))


def _written(moment: datetime) -> str:
    """So that text sorts as time does."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
