"""What was said about texts: pairs judged distinct, questions that failed, texts read on pages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.records import FORGOTTEN_REASON, Attempt, KnownPair
from memory.ledger.statements import Prepared, among
from memory.ledger.transaction import TableGroup
from memory.models import JUDGES, SCOPE_FIELDS, Judge, Scope
from memory.text import text_key

TextPair = tuple[str, str, str]
"""(scope key, lower text key, higher text key)."""
ScopedText = tuple[str, str]
"""(scope key, text key)."""
_PAIR = ("scope", "low_key", "high_key")
_DISTINCT = t.distinct_pairs.c
_ATTEMPTS = t.attempts.c
_READ = t.readings.c
_ABOUT = Prepared(
    sa.select(_DISTINCT.scope, _DISTINCT.low_key, _DISTINCT.high_key, _DISTINCT.by).where(
        sa.or_(among(_DISTINCT.low_key, "keys"), among(_DISTINCT.high_key, "keys")),
        among(_DISTINCT.by, "by"),
    )
)


class DistinctPairs(TableGroup):
    """Pairs of texts that were judged different, by scope and text keys."""

    def of(self, scope: Scope, key: str, by: Sequence[Judge] = JUDGES) -> set[str]:
        """Return the keys of the texts that one of these judges called distinct from this one.

        Its own key is among them if a person keeps the text twice. A person's verdict also counts
        if the memories were compared in other scopes at the time.
        """
        return self.of_all([(scope, key)], by)[0]

    def of_all(
        self, texts: Sequence[tuple[Scope, str]], by: Sequence[Judge] = JUDGES
    ) -> list[set[str]]:
        """Return the same for several texts, each in its scope."""
        known: dict[str, set[tuple[str, str, str]]] = {}
        keys = {key for _, key in texts}
        for where, a, b, judge in _ABOUT.rows(self._connection, keys=keys, by=by):
            known.setdefault(a, set()).add((b, where, judge))
            known.setdefault(b, set()).add((a, where, judge))
        return [
            {other for other, where, judge in known.get(key, ()) if _holds(scope, where, judge)}
            for scope, key in texts
        ]

    def all(self, by: Sequence[Judge] = JUDGES) -> set[TextPair]:
        """Return every pair that one of these judges called distinct."""
        query = sa.select(*(_DISTINCT[name] for name in _PAIR)).where(_DISTINCT.by.in_(by))
        return {tuple(row) for row in self._connection.execute(query)}

    def verdict(self, scope: Scope, key_a: str, key_b: str) -> KnownPair:
        """Return what is known of a pair of texts, given by their keys."""
        low, high = sorted((key_a, key_b))
        query = sa.select(_DISTINCT.reason, _DISTINCT.by).where(
            _DISTINCT.scope == scope.key, _DISTINCT.low_key == low, _DISTINCT.high_key == high
        )
        reason, by = self._connection.execute(query).first() or (None, None)
        return KnownPair(scope.key, low, high, reason, by)


class DistinctPairsWriter(DistinctPairs):
    """Record and delete distinct pairs."""

    def mark(self, scope: Scope, text_a: str, text_b: str, reason: str, by: Judge) -> None:
        """Record that two texts are distinct in this scope."""
        self.mark_all([(scope, text_key(text_a), text_key(text_b), reason)], by)

    def mark_all(self, pairs: Iterable[tuple[Scope, str, str, str]], by: Judge) -> None:
        """Record distinct pairs: the scope, both text keys and the reason of each.

        A verdict replaces that of a lower judge, and gives way to that of a higher one.
        """
        rows = [
            {"scope": scope.key, "low_key": min(a, b), "high_key": max(a, b)}
            | {"reason": reason, "by": by}
            for scope, a, b, reason in pairs
        ]
        if rows:
            self._connection.execute(self._marking(by), rows)

    def _marking(self, by: Judge) -> Any:
        statement = self._transaction.upsert(t.distinct_pairs)
        # IN does not go with many rows
        lower = sa.or_(sa.false(), *(_DISTINCT.by == one for one in JUDGES[: JUDGES.index(by)]))
        verdict = {"reason": statement.excluded.reason, "by": statement.excluded.by}
        return statement.on_conflict_do_update(index_elements=_PAIR, set_=verdict, where=lower)

    def restore(self, verdicts: Sequence[KnownPair]) -> None:
        """Bring back earlier verdicts about these pairs, the last one first."""
        for one in reversed(verdicts):
            values = dict(zip(_PAIR, one.pair, strict=True))
            here = sa.and_(*(_DISTINCT[name] == value for name, value in values.items()))
            self._connection.execute(t.distinct_pairs.delete().where(here))
            if one.by is not None:
                said = values | {"reason": one.reason or "", "by": one.by}
                self._connection.execute(t.distinct_pairs.insert().values(said))

    def forget_reasons(self, reasons: Collection[str], keys: Collection[str]) -> None:
        """Erase these reasons from pairs with one of these texts, which stay distinct."""
        statement = t.distinct_pairs.update().where(
            _in_pair(_DISTINCT, keys), among(_DISTINCT.reason, reasons)
        )
        self._connection.execute(statement.values(reason=FORGOTTEN_REASON))

    def drop(self, keys: Collection[str]) -> None:
        """Delete the verdicts and attempts about pairs with one of these texts."""
        for table in (t.distinct_pairs, t.attempts):
            self._connection.execute(table.delete().where(_in_pair(table.c, keys)))


def _in_pair(columns: Any, keys: Collection[str]) -> sa.ColumnElement[bool]:
    return sa.or_(among(columns.low_key, keys), among(columns.high_key, keys))


def _holds(scope: Scope, where: str, judge: str) -> bool:
    """Whether a verdict given in the scope with the key `where` counts in `scope`."""
    return where == scope.key or (judge == "person" and Scope.from_key(where).agrees_with(scope))


# --- questions that a model failed at -------------------------------------------------------------

MOST_ATTEMPTS = 5
"""After so many failures only a person or another model is asked."""
BATCH_PAUSE = timedelta(minutes=10)
"""How long a batch waits after the first failure of a question."""
_LONGER = 6
"""By which factor each pause is longer than the one before it."""


class Attempts(TableGroup):
    """Pairs of texts whose question a model failed to answer."""

    def waiting(self, model: str, now: datetime) -> set[TextPair]:
        """Return the pairs that this model failed at and that are not due yet, or never will be."""
        due_later = _ATTEMPTS.next_at > _sortable(now)
        return self._pairs(model, sa.or_(_ATTEMPTS.next_at.is_(None), due_later))

    def exhausted(self, model: str) -> set[TextPair]:
        """Return the pairs that this model failed at too often to be asked again by itself."""
        return self._pairs(model, _ATTEMPTS.next_at.is_(None))

    def _pairs(self, model: str, where: sa.ColumnElement[bool]) -> set[TextPair]:
        query = sa.select(*(_ATTEMPTS[name] for name in _PAIR))
        found = self._connection.execute(query.where(_ATTEMPTS.model == model, where))
        return {tuple(row) for row in found}

    def all(self) -> list[Attempt]:
        """Return every pair that a model failed at, most failures first."""
        query = sa.select(*(_ATTEMPTS[name] for name in Attempt._fields))
        found = self._connection.execute(
            query.order_by(_ATTEMPTS.attempts.desc(), _ATTEMPTS.low_key)
        )
        return [Attempt(*row) for row in found]


class AttemptsWriter(Attempts):
    """Count failed attempts."""

    def count(
        self,
        scope: Scope,
        text_a: str,
        text_b: str,
        model: str,
        now: datetime,
        first_pause: timedelta,
    ) -> None:
        """Count one more failure of a model at this pair; another model starts at one.

        Each pause before it is asked again is six times the one before; the first is `first_pause`.
        """
        pair = (scope.key, *sorted((text_key(text_a), text_key(text_b))))
        keys = dict(zip(_PAIR, pair, strict=True))
        here = (_ATTEMPTS[name] == value for name, value in keys.items())
        query = sa.select(_ATTEMPTS.attempts).where(*here, _ATTEMPTS.model == model)
        count = (self._connection.scalar(query) or 0) + 1
        due = _sortable(now + first_pause * _LONGER ** (count - 1))
        next_at = due if count < MOST_ATTEMPTS else None
        values = {"model": model, "attempts": count, "next_at": next_at}
        statement = self._transaction.upsert(t.attempts).values(**keys, **values)
        self._connection.execute(statement.on_conflict_do_update(index_elements=_PAIR, set_=values))


def _sortable(moment: datetime) -> str:
    """Return the UTC time as a text that sorts as time does."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")


# --- texts that a model has read on a page --------------------------------------------------------


class Readings(TableGroup):
    """Texts that models have read on a page, so that a later batch reads only what is new."""

    def all(self, model: str, *, thorough: bool = False) -> set[ScopedText]:
        """Return the texts that this model has read, with `thorough` only those read so."""
        query = sa.select(_READ.scope, _READ.text_key).where(_READ.model == model)
        if thorough:
            query = query.where(_READ.thorough)
        return {tuple(row) for row in self._connection.execute(query)}

    def models(self) -> list[str]:
        """Return the names of the models that have read anything."""
        return sorted(self._connection.scalars(sa.select(_READ.model).distinct()))

    def count_unread(self, model: str, *, private: bool) -> int:
        """Count live memories whose text this model has not read; without private ones if False."""
        memories = t.memories.c
        read = sa.exists().where(_READ.text_key == memories.text_key, _READ.model == model)
        unread = sa.and_(memories.live, sa.not_(read))
        if not private:
            unread = sa.and_(unread, sa.not_(memories.is_private))
        return self._transaction.count(t.memories, unread)


class ReadingsWriter(Readings):
    """Record and delete readings."""

    def record(self, texts: Iterable[ScopedText], model: str, *, thorough: bool) -> None:
        """Record that this model has read these texts, without those forgotten in the meantime."""
        rows = [
            {"scope": scope, "text_key": key, "model": model, "thorough": thorough}
            for scope, key in sorted(self._held(set(texts)))
        ]
        if rows:
            statement = self._transaction.upsert(t.readings)
            update = statement.on_conflict_do_update(
                index_elements=["scope", "text_key", "model"],
                set_={"thorough": sa.or_(_READ.thorough, statement.excluded.thorough)},
            )
            self._connection.execute(update, rows)

    def _held(self, texts: set[ScopedText]) -> set[ScopedText]:
        """Return those that a memory of their scope, live or retired, has."""
        c = t.memories.c
        columns = (c.text_key, c.metadata, *(c[name] for name in SCOPE_FIELDS))
        query = sa.select(*columns).where(among(c.text_key, {key for _, key in texts})).distinct()
        values: dict[str, list[Any]] = {}
        for key, metadata, *scope in self._connection.execute(query):
            values.setdefault(key, []).append(t.scope_values_of(metadata, scope))
        scopes = {key: Scope.from_key(key) for key, _ in texts}
        return {
            (scope, key)
            for scope, key in texts
            if any(scopes[scope].holds(one) for one in values.get(key, ()))
        }

    def drop(self, keys: Collection[str]) -> None:
        """Delete the readings of these texts, in whatever scope."""
        self._connection.execute(t.readings.delete().where(among(_READ.text_key, sorted(keys))))

    def drop_all(self, model: str) -> None:
        """Delete all readings of this model."""
        self._connection.execute(t.readings.delete().where(_READ.model == model))
