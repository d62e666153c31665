"""The schema step from version 5 to 6, which computes all text keys by a new rule.

Like every schema step, it has its own table definitions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memory.text import text_key

_PAGE = 1_000
_OLD = sa.MetaData()
_MEMORIES = sa.Table(
    "memories", _OLD, sa.Column("seq", sa.Integer), sa.Column("id", sa.Text),
    sa.Column("text_key", sa.Text), sa.Column("content", sa.Text),
)  # fmt: skip
_VECTORS = sa.Table(
    "vectors", _OLD, sa.Column("text_key", sa.Text), sa.Column("vector", sa.LargeBinary)
)
_DECISIONS = sa.Table(
    "decisions", _OLD, sa.Column("seq", sa.Integer), sa.Column("action", sa.Text),
    sa.Column("model", sa.Text), sa.Column("survivors", sa.Text), sa.Column("before", sa.Text),
    sa.Column("pending", sa.Boolean), sa.Column("undone", sa.Boolean),
)  # fmt: skip
_DISTINCT = sa.Table(
    "distinct_pairs", _OLD, sa.Column("scope", sa.Text), sa.Column("low_key", sa.Text),
    sa.Column("high_key", sa.Text), sa.Column("reason", sa.Text), sa.Column("by", sa.Text),
)  # fmt: skip
_READINGS = sa.Table("readings", _OLD, sa.Column("text_key", sa.Text))
_ATTEMPTS = sa.Table(
    "attempts", _OLD, sa.Column("low_key", sa.Text), sa.Column("high_key", sa.Text)
)


def replace_text_keys(connection: Connection) -> None:
    """Replace every text key by one that also distinguishes signs, codes and capitals.

    Texts with the same old key may get different new keys. Changed keys have these effects:

    - Each new key gets a copy of the old key's vector.
    - A pair of texts that was judged distinct may become several pairs. The verdict is then kept
      for all of them if a person gave it, and otherwise deleted.
    - Models will read the texts with changed keys again.
    - If a memory replaced another memory, and their old keys were the same but the new keys differ,
      the decision becomes pending, unless a person made it.
    """
    keys = _Rekeyed(connection)
    if keys.changed:
        keys.copy_vectors()
        keys.rename_distinct()
        keys.drop_readings_and_attempts()
        keys.rename_in_images()
        keys.reopen()


class _Rekeyed:
    """The memories whose text keys change, and methods that update all other rows with such keys.

    Creating the object already stores the memories' new keys.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._was: dict[str, str] = {}
        self._is: dict[str, str] = {}
        self.changed: dict[str, dict[str, int]] = {}
        """For each changed old key, its new keys, with the number of memories that have each."""
        for row in self._pages(_MEMORIES, _MEMORIES.c.text_key != ""):
            new = text_key(row.content)
            if new != row.text_key:
                self._was[row.id], self._is[row.id] = row.text_key, new
                of_old = self.changed.setdefault(row.text_key, {})
                of_old[new] = of_old.get(new, 0) + 1
        named = _MEMORIES.update().where(_MEMORIES.c.id == sa.bindparam("name"))
        if self._is:
            self._connection.execute(
                named.values({"text_key": sa.bindparam("new")}),
                [{"name": name, "new": new} for name, new in self._is.items()],
            )
        for old, instead in self.changed.items():  # memories that keep a key which others lost
            query = sa.select(_MEMORIES.c.id).where(_MEMORIES.c.text_key == old)
            for name in self._connection.scalars(query):
                self._was[name] = self._is[name] = old
                instead[old] = instead.get(old, 0) + 1

    def _pages(self, table: sa.Table, *where: sa.ColumnElement[bool]) -> Iterator[Any]:
        last = 0
        while True:
            query = sa.select(table).where(table.c.seq > last, *where).order_by(table.c.seq)
            page = self._connection.execute(query.limit(_PAGE)).all()
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1].seq

    def copy_vectors(self) -> None:
        """Store the vector of each changed key under all its new keys."""
        for old, instead in self.changed.items():
            vector = self._connection.scalar(
                sa.select(_VECTORS.c.vector).where(_VECTORS.c.text_key == old)
            )
            old_and_new = _VECTORS.delete().where(_VECTORS.c.text_key.in_([old, *instead]))
            self._connection.execute(old_and_new)
            if vector is not None:
                rows = [{"text_key": new, "vector": vector} for new in instead]
                self._connection.execute(_VECTORS.insert(), rows)

    def rename_distinct(self) -> None:
        """Replace the changed keys in pairs of texts that were judged distinct.

        If a pair becomes several pairs, only a person's verdict is kept.
        """
        pairs = _DISTINCT.c
        for row in self._connection.execute(sa.select(_DISTINCT)).all():
            if row.low_key not in self.changed and row.high_key not in self.changed:
                continue
            same_pair = sa.and_(
                pairs.scope == row.scope,
                pairs.low_key == row.low_key,
                pairs.high_key == row.high_key,
            )
            self._connection.execute(_DISTINCT.delete().where(same_pair))
            new = self._pairs(row.low_key, row.high_key)
            if row.by == "person" or len(new) == 1:
                for low, high in new:
                    keys = {"low_key": low, "high_key": high}
                    self._connection.execute(_DISTINCT.insert().values({**row._asdict(), **keys}))

    def _pairs(self, low: str, high: str) -> list[tuple[str, str]]:
        """Return the pairs of new keys that replace a pair of old keys.

        A pair of a key with itself means that a person keeps two memories with this text. If such a
        key becomes several keys, a new key is paired with itself only if several memories have it.
        """
        first, second = (self.changed.get(old, {old: 1}) for old in (low, high))
        found = {(min(a, b), max(a, b)) for a in first for b in second}
        return sorted(
            (a, b) for a, b in found if low != high or a != b or first[a] > 1 or len(first) == 1
        )

    def drop_readings_and_attempts(self) -> None:
        """Delete the records of texts that models read or failed to judge, if their key changed."""
        for old in self.changed:
            self._connection.execute(_READINGS.delete().where(_READINGS.c.text_key == old))
            either = sa.or_(_ATTEMPTS.c.low_key == old, _ATTEMPTS.c.high_key == old)
            self._connection.execute(_ATTEMPTS.delete().where(either))

    def rename_in_images(self) -> None:
        """Replace changed keys in the states, saved with decisions, that undo restores."""
        for row in self._pages(_DECISIONS):
            before = json.loads(row.before)
            for columns in before["rows"].values():
                if columns and columns["text_key"]:
                    columns["text_key"] = text_key(columns["content"])
            if before.get("distinct"):
                before["distinct"] = [
                    [scope, *pair, *verdict]
                    for scope, low, high, *verdict in before["distinct"]
                    for pair in self._pairs(low, high)
                ]
            if before != json.loads(row.before):
                self._change(row.seq, before=json.dumps(before))

    def reopen(self) -> None:
        """Mark replacements as pending if their two texts no longer have the same key.

        Replacements that a person made stay as they are.
        """
        replaced = (_DECISIONS.c.action == "replace", sa.not_(_DECISIONS.c.undone))
        for row in self._pages(_DECISIONS, *replaced):
            if row.model != "person" and any(
                self._differ_now(survivor["id"], name)
                for survivor in json.loads(row.survivors)
                for name in survivor["stands_for"]
            ):
                self._change(row.seq, pending=True)

    def _differ_now(self, a: str, b: str) -> bool:
        """Return whether two memories had the same old text key, but have different new keys.

        `a` and `b` are the ids of the memories.
        """
        return self._was.get(a, "") == self._was.get(b) and self._is[a] != self._is[b]

    def _change(self, seq: int, **values: object) -> None:
        self._connection.execute(_DECISIONS.update().where(_DECISIONS.c.seq == seq).values(values))
