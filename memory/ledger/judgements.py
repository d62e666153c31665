"""Stores which texts were judged distinct, which questions failed, and what models have read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, NamedTuple

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.tables import Prepared, TableGroup, among, in_scope, scope_values_of, upsert
from memory.models import JUDGES, PERSON, SCOPE_FIELDS, Judge, Memory, Scope, ScopedText, TextPair
from memory.text import dated_key, text_of


class KnownPair(NamedTuple):
    """A pair of texts in a scope, and the verdict that the two texts are distinct.

    `scope`: the key of the scope. `low_key` and `high_key`: the `dated_key` of the two texts, in
    sorted order; in decisions of schema 8, their `text_key`. `by`: the judge who called the texts
    distinct. `reason`: why. `by` and `reason` are None if there is no verdict.
    """

    scope: str
    low_key: str
    high_key: str
    reason: str | None
    by: str | None

    @property
    def pair(self) -> tuple[str, str, str]:
        return self.scope, self.low_key, self.high_key


FORGOTTEN_REASON = "forgotten"
"""The text that replaces the reason of a decision or verdict about a forgotten memory."""


class Attempt(NamedTuple):
    """How often a model failed to judge a pair of texts.

    `next_at`: the time, in UTC, from which the model may be asked again; None means never.
    """

    low_key: str
    high_key: str
    model: str
    attempts: int
    next_at: str | None


_PAIR = ("scope", "low_key", "high_key")
_DISTINCT = t.distinct_pairs.c
_ATTEMPTS = t.attempts.c
_READ = t.readings.c
_ABOUT = Prepared(
    sa.select(_DISTINCT.scope, _DISTINCT.low_key, _DISTINCT.high_key, _DISTINCT.by).where(
        sa.or_(among(t.LOW_TEXT, "keys"), among(t.HIGH_TEXT, "keys")),
        among(_DISTINCT.by, "by"),
    )
)

_DATED = Prepared(
    sa.select(t.memories.c.text_key, t.memories.c.when)
    .where(among(t.memories.c.text_key, "keys"), t.memories.c.when != "")
    .distinct()
)


@Prepared
def _mark(dialect: str) -> Any:
    statement = upsert(t.distinct_pairs, dialect)
    verdict = {"reason": statement.excluded.reason, "by": statement.excluded.by}
    lower = among(_DISTINCT.by, "lower")
    return statement.on_conflict_do_update(index_elements=_PAIR, set_=verdict, where=lower)


class DistinctPairs(TableGroup):
    def of_all(
        self, texts: Sequence[tuple[Scope, str]], by: Sequence[Judge] = JUDGES
    ) -> list[set[str]]:
        """Return, for each of `texts`, the keys of the texts that were called distinct from it.

        `texts`: pairs of a scope and a `dated_key`; so are the keys that are returned. Only
        verdicts of the judges in `by` count.

        A verdict counts in its own scope. A person's verdict also counts in another scope if the
        two scopes have equal values in every field that both of them have.

        If two memories with the same text were called distinct, the set contains the text's own
        key.
        """
        known: dict[str, set[tuple[str, str, str]]] = {}
        keys = {key for _, key in texts}
        found = _ABOUT.rows(self._connection, keys={*map(text_of, keys)}, by=by)
        for where, a, b, judge in self._on_all_days(found, keys) if found else ():
            known.setdefault(a, set()).add((b, where, judge))
            known.setdefault(b, set()).add((a, where, judge))
        return [
            {
                other
                for other, where, judge in known.get(key, ())
                if where == scope.key
                or (judge == PERSON and Scope.from_key(where).agrees_with(scope))
            }
            for scope, key in texts
        ]

    def all(self, by: Sequence[Judge] = JUDGES, scope: Scope | None = None) -> set[TextPair]:
        columns = (*(_DISTINCT[name] for name in _PAIR), _DISTINCT.by)
        query = sa.select(*columns).where(_DISTINCT.by.in_(by))
        if scope is not None:
            query = query.where(_DISTINCT.scope == scope.key)
        found = self._connection.execute(query)
        return {row[:3] for row in self._on_all_days(list(map(tuple, found)))}

    def _on_all_days(
        self, verdicts: Sequence[tuple[str, str, str, str]], keys: Collection[str] = ()
    ) -> Iterator[tuple[str, str, str, str]]:
        """Yield verdicts; also those of a person without dates, for the dates that a text means.

        A person's verdict has no dates if it was recorded by schema 8, or if one of the texts was
        said at an unknown time. `keys`: keys of texts that may not be stored.
        """
        undated = {
            key
            for _, *pair, judge in verdicts
            for key in pair
            if judge == PERSON and text_of(key) == key
        }
        dates: dict[str, set[str]] = {}
        found = _DATED.rows(self._connection, keys=undated) if undated else ()
        for key in (*keys, *(dated_key(*row) for row in found)):
            dates.setdefault(text_of(key), set()).add(key)
        for where, low, high, judge in verdicts:
            if judge != PERSON:
                yield where, low, high, judge
            else:
                both = ({key, *dates.get(key, ())} for key in (low, high))
                for a, b in product(*both):
                    yield where, min(a, b), max(a, b), judge

    def verdict(self, scope: Scope, key_a: str, key_b: str) -> KnownPair:
        low, high = sorted((key_a, key_b))
        query = sa.select(_DISTINCT.reason, _DISTINCT.by).where(
            _DISTINCT.scope == scope.key, _DISTINCT.low_key == low, _DISTINCT.high_key == high
        )
        reason, by = self._connection.execute(query).first() or (None, None)
        return KnownPair(scope.key, low, high, reason, by)

    def mark(self, scope: Scope, key_a: str, key_b: str, reason: str, by: Judge) -> None:
        self.mark_all([(scope, key_a, key_b, reason)], by)

    def mark_all(self, pairs: Iterable[tuple[Scope, str, str, str]], by: Judge) -> None:
        """Record pairs of texts that the judge `by` called distinct.

        `pairs`: the scope, the `dated_key` of each text and the reason. A verdict replaces only the
        verdict of a lower judge (offline < model < person).
        """
        lower = JUDGES[: JUDGES.index(by)]
        rows = [
            {"scope": scope.key, "low_key": min(a, b), "high_key": max(a, b)}
            | {"reason": reason, "by": by, "lower": lower}
            for scope, a, b, reason in pairs
        ]
        if rows:
            _mark.run(self._connection, rows)

    def restore(self, verdicts: Sequence[KnownPair]) -> None:
        """Restore earlier verdicts on pairs of texts.

        Each earlier verdict replaces the present verdict on the same pair. If the earlier verdict's
        `by` is None, the present one is deleted. If a pair occurs repeatedly, the first counts.
        """
        for known in reversed(verdicts):
            values = dict(zip(_PAIR, known.pair, strict=True))
            same_pair = sa.and_(*(_DISTINCT[name] == value for name, value in values.items()))
            self._connection.execute(t.distinct_pairs.delete().where(same_pair))
            if known.by is not None:
                verdict = values | {"reason": known.reason or "", "by": known.by}
                self._connection.execute(t.distinct_pairs.insert().values(verdict))

    def forget_reasons(self, reasons: Collection[str], keys: Collection[str]) -> None:
        """Erase reasons of verdicts; the pairs of texts stay distinct.

        A verdict loses its reason if the reason is in `reasons` and one of the two texts has its
        `text_key` in `keys`.
        """
        statement = t.distinct_pairs.update().where(
            sa.or_(among(t.LOW_TEXT, keys), among(t.HIGH_TEXT, keys)),
            among(_DISTINCT.reason, reasons),
        )
        self._connection.execute(statement.values(reason=FORGOTTEN_REASON))

    def drop(self, keys: Collection[str]) -> None:
        """Delete all verdicts on texts, and failures to judge them. `keys`: their `text_key`."""
        of_texts = sa.or_(among(t.LOW_TEXT, keys), among(t.HIGH_TEXT, keys))
        for table in (t.distinct_pairs, t.attempts):
            self._connection.execute(table.delete().where(of_texts))

    def drop_of(self, user: str) -> None:
        """Delete all verdicts about memories of a user, and failures to judge them."""
        for table in (t.distinct_pairs, t.attempts):
            scopes = self._connection.scalars(sa.select(table.c.scope).distinct())
            theirs = [scope for scope in scopes if Scope.from_key(scope).user == user]
            self._connection.execute(table.delete().where(among(table.c.scope, theirs)))


# --- questions that a model failed at -------------------------------------------------------------

MOST_ATTEMPTS = 5
BATCH_PAUSE = timedelta(minutes=10)
"""After a model first fails to answer a question, batches wait this long to ask it again."""
_LONGER = 6


class Attempts(TableGroup):
    def waiting(self, model: str, now: datetime | None) -> set[TextPair]:
        """Return the pairs about which this model should not be asked at the time `now`.

        If `now` is None, return only the pairs about which it is never asked again.
        """
        waits: sa.ColumnElement[bool] = _ATTEMPTS.next_at.is_(None)
        if now is not None:
            waits = sa.or_(waits, _ATTEMPTS.next_at > _sortable(now))
        query = sa.select(*(_ATTEMPTS[name] for name in _PAIR))
        found = self._connection.execute(query.where(_ATTEMPTS.model == model, waits))
        return {tuple(row) for row in found}

    def all(self) -> list[Attempt]:
        query = sa.select(*(_ATTEMPTS[name] for name in Attempt._fields))
        found = self._connection.execute(
            query.order_by(_ATTEMPTS.attempts.desc(), _ATTEMPTS.low_key)
        )
        return [Attempt(*row) for row in found]

    def count(
        self,
        scope: Scope,
        a: Memory,
        b: Memory,
        model: str,
        now: datetime,
        first_pause: timedelta,
    ) -> None:
        """Count one more failure of a model to judge two texts.

        After the first failure, the model is not asked again for the time `first_pause`; each
        further pause is six times as long. After the fifth failure, it is never asked again. A
        failure of another model starts a new count.
        """
        pair = (scope.key, *sorted((a.dated_key, b.dated_key)))
        keys = dict(zip(_PAIR, pair, strict=True))
        same_pair = (_ATTEMPTS[name] == value for name, value in keys.items())
        query = sa.select(_ATTEMPTS.attempts).where(*same_pair, _ATTEMPTS.model == model)
        count = (self._connection.scalar(query) or 0) + 1
        due = _sortable(now + first_pause * _LONGER ** (count - 1))
        next_at = due if count < MOST_ATTEMPTS else None
        values = {"model": model, "attempts": count, "next_at": next_at}
        statement = self._transaction.upsert(t.attempts).values(**keys, **values)
        self._connection.execute(statement.on_conflict_do_update(index_elements=_PAIR, set_=values))


def _sortable(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")


# --- texts that a model has read on a page --------------------------------------------------------


class Readings(TableGroup):
    """The table of texts that models have read on a page.

    A page is a question that shows a model many memories of one scope.
    """

    def all(self, model: str, *, thorough: bool = False) -> set[ScopedText]:
        """Return the texts that this model has read.

        `thorough`: only texts that it has read together with all their nearest neighbours.
        """
        query = sa.select(_READ.scope, _READ.text_key).where(_READ.model == model)
        if thorough:
            query = query.where(_READ.thorough)
        return {tuple(row) for row in self._connection.execute(query)}

    def unread(self, model: str, scope: Scope) -> dict[str, str]:
        """Map the ids of the live memories of `scope` that a model has not read to `dated_key`s.

        The last to arrive come first.
        """
        c = t.memories.c
        its = (_READ.scope == scope.key, _READ.model == model)
        is_read = sa.exists().where(*its, _READ.text_key == c.text_key)
        own = (c.metadata, *(c[name] for name in SCOPE_FIELDS)) if scope.metadata_fields else ()
        query = sa.select(c.id, c.text_key, c.when, *own).where(
            c.live, *in_scope(scope), sa.or_(c.when != "", sa.not_(is_read))
        )
        unread = {
            name: dated_key(key, when)
            for name, key, when, *values in self._connection.execute(
                query.order_by(c.seq.desc())
            ).all()
            if not values or scope.holds(scope_values_of(values[0], values[1:]))
        }
        keys = among(_READ.text_key, set(unread.values()))
        read = set(self._connection.scalars(sa.select(_READ.text_key).where(*its, keys)))
        return {name: key for name, key in unread.items() if key not in read}

    def models(self) -> list[str]:
        return sorted(self._connection.scalars(sa.select(_READ.model).distinct()))

    def count_unread(self, model: str, *, private: bool) -> int:
        c = t.memories.c
        read = {*self._connection.scalars(sa.select(_READ.text_key).where(_READ.model == model))}
        live = sa.select(c.text_key, c.when).where(c.live)
        if not private:
            live = live.where(sa.not_(c.is_private))
        return sum(dated_key(*row) not in read for row in self._connection.execute(live))

    def record(self, texts: Iterable[ScopedText], model: str, *, thorough: bool) -> None:
        """Record that a model has read these texts.

        A text is left out if no memory in its scope has it. `thorough`: whether the model read each
        text together with all its nearest neighbours.
        """
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
        c = t.memories.c
        columns = (c.text_key, c.when, c.metadata, *(c[name] for name in SCOPE_FIELDS))
        stored = among(c.text_key, {text_of(key) for _, key in texts})
        values: dict[str, list[Any]] = {}
        for row in self._connection.execute(sa.select(*columns).where(stored).distinct()):
            key, when, metadata, *scope = row
            values.setdefault(dated_key(key, when), []).append(scope_values_of(metadata, scope))
        scopes = {key: Scope.from_key(key) for key, _ in texts}
        return {
            (scope, key)
            for scope, key in texts
            if any(scopes[scope].holds(known) for known in values.get(key, ()))
        }

    def drop(self, keys: Collection[str]) -> None:
        self._connection.execute(t.readings.delete().where(among(t.READ_TEXT, sorted(keys))))

    def drop_all(self, model: str) -> None:
        self._connection.execute(t.readings.delete().where(_READ.model == model))
