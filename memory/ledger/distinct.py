"""Pairs of texts that are known to say different things, so that nobody asks about them again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.records import FORGOTTEN_REASON, KnownPair
from memory.ledger.transaction import TableGroup, among, upsert
from memory.models import JUDGES, Judge, Scope
from memory.text import text_key

TextPair = tuple[str, str, str]
"""(scope key, lower text key, higher text key)."""


_PAIRS = t.distinct_pairs.c
_ABOUT = sa.select(_PAIRS.scope, _PAIRS.low_key, _PAIRS.high_key, _PAIRS.by).where(
    sa.or_(among(_PAIRS.low_key, "keys"), among(_PAIRS.high_key, "keys")),
    among(_PAIRS.by, "by"),
)


class DistinctPairs(TableGroup):
    """What was judged different, by scope and the keys of the texts."""

    def of(self, scope: Scope, key: str, by: Sequence[Judge] = JUDGES) -> set[str]:
        """Keys of the texts that one of these judges told from this one.

        Its own is among them where a person keeps it twice. A person's word holds as well where
        memories were compared in other scopes when it was given.
        """
        return self.of_all([(scope, key)], by)[0]

    def of_all(
        self, texts: Sequence[tuple[Scope, str]], by: Sequence[Judge] = JUDGES
    ) -> list[set[str]]:
        """The same of several texts, each in its scope."""
        known: dict[str, set[tuple[str, str, str]]] = {}
        keys = {key for _, key in texts}
        for where, a, b, who in self._connection.execute(_ABOUT, {"keys": keys, "by": by}):
            known.setdefault(a, set()).add((b, where, who))
            known.setdefault(b, set()).add((a, where, who))
        return [
            {other for other, where, who in known.get(key, ()) if _holds(scope, where, who)}
            for scope, key in texts
        ]

    def all(self, by: Sequence[Judge] = JUDGES) -> set[TextPair]:
        """Every pair that one of these judges told apart."""
        pairs = t.distinct_pairs.c
        query = sa.select(pairs.scope, pairs.low_key, pairs.high_key).where(pairs.by.in_(by))
        return {tuple(row) for row in self._connection.execute(query)}

    def verdict(self, scope: Scope, key_a: str, key_b: str) -> KnownPair:
        """What is known of a pair of texts, given by their keys."""
        low, high = sorted((key_a, key_b))
        query = sa.select(_PAIRS.reason, _PAIRS.by).where(
            _PAIRS.scope == scope.key, _PAIRS.low_key == low, _PAIRS.high_key == high
        )
        reason, by = self._connection.execute(query).first() or (None, None)
        return KnownPair(scope.key, low, high, reason, by)


class DistinctPairsWriter(DistinctPairs):
    """Pairs, to be remembered and dropped."""

    def mark(self, scope: Scope, text_a: str, text_b: str, reason: str, by: Judge) -> None:
        """Two texts say different things in this scope; a lower judge's word gives way."""
        low, high = sorted((text_key(text_a), text_key(text_b)))
        pair = {"scope": scope.key, "low_key": low, "high_key": high}
        verdict = {"reason": reason, "by": by}
        statement = self._transaction.upsert(t.distinct_pairs).values(**pair, **verdict)
        lower = t.distinct_pairs.c.by.in_(JUDGES[: JUDGES.index(by)])
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=[*pair], set_=verdict, where=lower)
        )

    def mark_all(self, pairs: Iterable[tuple[Scope, str, str, str]], by: Judge) -> None:
        """The same of many, each its scope, the keys of the texts, and why, in one statement."""
        rows = [
            {"scope": scope.key, "low_key": min(a, b), "high_key": max(a, b)}
            | {"reason": reason, "by": by}
            for scope, a, b, reason in pairs
        ]
        if rows:
            self._connection.execute(_marking(self._transaction.dialect, by), rows)

    def restore(self, verdicts: Sequence[KnownPair]) -> None:
        """Pairs are again what was said of them before, by whom; the last one first."""
        table = t.distinct_pairs
        for one in reversed(verdicts):
            pair = {"scope": one.scope, "low_key": one.low_key, "high_key": one.high_key}
            here = sa.and_(*(table.c[name] == value for name, value in pair.items()))
            self._connection.execute(table.delete().where(here))
            if one.by is not None:
                values = {**pair, "reason": one.reason, "by": one.by}
                self._connection.execute(table.insert().values(values))

    def forget_reasons(self, reasons: Collection[str], keys: Collection[str]) -> None:
        """Pairs with one of these texts stay told apart, but for none of these reasons."""
        pairs = t.distinct_pairs.c
        either = sa.or_(among(pairs.low_key, keys), among(pairs.high_key, keys))
        statement = t.distinct_pairs.update().where(either, among(pairs.reason, reasons))
        self._connection.execute(statement.values(reason=FORGOTTEN_REASON))

    def drop(self, keys: Collection[str]) -> None:
        """All that is known of these texts in pairs."""
        for table in (t.distinct_pairs, t.attempts):
            either = sa.or_(among(table.c.low_key, keys), among(table.c.high_key, keys))
            self._connection.execute(table.delete().where(either))


@cache
def _marking(dialect: str, by: Judge) -> Any:
    """Insert pairs; what a lower judge said of one gives way."""
    statement = upsert(dialect, t.distinct_pairs)
    column = t.distinct_pairs.c.by  # IN does not go with many rows
    lower = sa.or_(sa.false(), *(column == one for one in JUDGES[: JUDGES.index(by)]))
    verdict = {"reason": statement.excluded.reason, "by": statement.excluded.by}
    keys = ["scope", "low_key", "high_key"]
    return statement.on_conflict_do_update(index_elements=keys, set_=verdict, where=lower)


def _holds(scope: Scope, where: str, who: str) -> bool:
    """Whether what somebody said in the scope of this key counts in another one."""
    return where == scope.key or (who == "person" and Scope.from_key(where).agrees_with(scope))
