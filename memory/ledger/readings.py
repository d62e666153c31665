"""Which texts a model has read on a page, so that a later batch reads only what is new."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.transaction import TableGroup, among, upsert

ScopedText = tuple[str, str]
"""(scope key, text key)."""
_READ = t.readings.c


class Readings(TableGroup):
    """What models have read."""

    def all(self, model: str, *, thorough: bool = False) -> set[ScopedText]:
        """The texts that this model has read; with `thorough`, those that it has read so."""
        query = sa.select(_READ.scope, _READ.text_key).where(_READ.model == model)
        if thorough:
            query = query.where(_READ.thorough)
        return {tuple(row) for row in self._connection.execute(query)}

    def models(self) -> list[str]:
        """Those that have read anything."""
        return sorted(self._connection.scalars(sa.select(_READ.model).distinct()))

    def count_unread(self, model: str, *, private: bool) -> int:
        """Live memories whose text this model has read nowhere; private ones only if asked for."""
        memories = t.memories.c
        read = sa.exists().where(_READ.text_key == memories.text_key, _READ.model == model)
        unread = sa.and_(memories.live, sa.not_(read))
        if not private:
            unread = sa.and_(unread, sa.not_(memories.is_private))
        return self._transaction.count(t.memories, unread)


class ReadingsWriter(Readings):
    """Readings, to be recorded and dropped."""

    def record(self, texts: Iterable[ScopedText], model: str, *, thorough: bool) -> None:
        """Record that this model has read these texts, without those forgotten meanwhile."""
        texts = set(texts)
        keys = sorted({key for _, key in texts})
        column = t.memories.c.text_key
        known = set(self._connection.scalars(sa.select(column).where(among(column, keys))))
        rows = [
            {"scope": scope, "text_key": key, "model": model, "thorough": thorough}
            for scope, key in sorted(texts)
            if key in known
        ]
        if rows:
            statement = upsert(self._transaction.dialect, t.readings)
            told = {"thorough": sa.or_(_READ.thorough, statement.excluded.thorough)}
            keys = ["scope", "text_key", "model"]
            update = statement.on_conflict_do_update(index_elements=keys, set_=told)
            self._connection.execute(update, rows)

    def drop(self, keys: Collection[str]) -> None:
        """Whoever read one of these texts, in whatever scope, has not."""
        self._connection.execute(t.readings.delete().where(among(_READ.text_key, sorted(keys))))

    def drop_all(self, model: str) -> None:
        """This model has read nothing."""
        self._connection.execute(t.readings.delete().where(_READ.model == model))
