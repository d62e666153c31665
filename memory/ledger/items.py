"""The table of items: values, each stored under a namespace and a key.

The text in a value may be stored as a memory too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.records import StoredItem
from memory.ledger.statements import TableGroup, among

Namespace = tuple[str, ...]
"""The path of a namespace: labels without a period, the outermost first."""
_BETWEEN = "."


class ItemPlace(NamedTuple):
    """A stored item without its value: its id, and the id and the text key of its memory.

    `memory_id` is None if no memory was made from the item's text.
    """

    id: str
    memory_id: str | None
    text_key: str | None
    """The key of the memory's text; None if the item has no memory, or the memory is not live."""


class Items(TableGroup):
    """Read access to items: values, each stored under a namespace and a key."""

    def get(self, namespace: Namespace, key: str) -> StoredItem | None:
        return next(self._found(t.items.c.id == _id(namespace, key)), None)

    def under(self, prefix: Namespace) -> list[ItemPlace]:
        """Return the items of a namespace and of all namespaces inside it, last stored first.

        An empty `prefix` means all items.
        """
        query = (
            sa.select(
                t.items.c.id,
                t.items.c.memory_id,
                sa.case((t.memories.c.live, t.memories.c.text_key)).label("text_key"),
            )
            .outerjoin(t.memories, t.memories.c.id == t.items.c.memory_id)
            .where(_inside(prefix))
            .order_by(t.items.c.updated_at.desc(), t.items.c.namespace, t.items.c.key)
        )
        return [ItemPlace(*row) for row in self._connection.execute(query)]

    def at(self, ids: Collection[str]) -> dict[str, StoredItem]:
        """Return a mapping from id to item for these ids; unknown ids are left out."""
        query = sa.select(t.items).where(among(t.items.c.id, ids))
        return {row.id: _as_item(row) for row in self._connection.execute(query)}

    def namespaces(self) -> list[Namespace]:
        """Return the namespaces that contain an item, sorted."""
        query = sa.select(t.items.c.namespace).distinct()
        return sorted(_labels(name) for name in self._connection.scalars(query))

    def of_memories(self, ids: Sequence[str]) -> list[StoredItem]:
        """Return the items whose text was stored as one of these memories."""
        return list(self._found(among(t.items.c.memory_id, ids)))

    def unplaced(self) -> list[StoredItem]:
        """Return the items whose text should be stored as a memory but is not.

        An item is stored first, and its text as a memory after that. Such an item is left over if
        the process ended between the two steps.
        """
        arrived = sa.select(t.memories.c.id).where(t.memories.c.id == t.items.c.memory_id)
        return list(self._found(sa.and_(t.items.c.memory_id.is_not(None), ~arrived.exists())))

    def _found(self, condition: sa.ColumnElement[bool]) -> Iterator[StoredItem]:
        rows = self._connection.execute(sa.select(t.items).where(condition))
        return map(_as_item, rows)


class ItemsWriter(Items):
    def put(
        self, namespace: Namespace, key: str, value: str, memory_id: str | None, at: datetime
    ) -> None:
        """Store a value under a namespace and a key; replace the earlier value there, if any.

        `value`: JSON. `memory_id`: the id of the memory that is made from the value's text, or None
        if none is made. `at`: the time of storing.
        """
        new = {"value": value, "memory_id": memory_id, "updated_at": at.isoformat()}
        statement = self._transaction.upsert(t.items).values(
            id=_id(namespace, key),
            namespace=_escaped(_BETWEEN.join(namespace)),
            key=_escaped(key),
            created_at=at.isoformat(),
            **new,
        )
        self._connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=new))

    def delete(self, namespace: Namespace, key: str) -> None:
        self._connection.execute(t.items.delete().where(t.items.c.id == _id(namespace, key)))

    def forget(self, memory_ids: Collection[str]) -> None:
        """Delete the items whose text was stored as one of these memories."""
        self._connection.execute(t.items.delete().where(among(t.items.c.memory_id, memory_ids)))


def _as_item(row: sa.Row[Any]) -> StoredItem:
    with t.naming_damage(f"item {row.key!r}"):
        return StoredItem(
            namespace=_labels(row.namespace),
            key=_unescaped(row.key),
            value=row.value,
            memory_id=row.memory_id,
            created_at=datetime.fromisoformat(row.created_at),
            updated_at=datetime.fromisoformat(row.updated_at),
        )


def _id(namespace: Namespace, key: str) -> str:
    """Return the id of the item with this namespace and key: a hash of both, 64 characters long.

    A hash is used because it is short enough for any database's index.
    """
    return hashlib.sha256(json.dumps([_BETWEEN.join(namespace), key]).encode()).hexdigest()


def _inside(prefix: Namespace) -> sa.ColumnElement[bool]:
    """Return the SQL condition that an item is in a namespace or in a namespace inside it."""
    if not prefix:
        return sa.true()
    name = _escaped(_BETWEEN.join(prefix))
    below = name + _BETWEEN
    return sa.or_(
        t.items.c.namespace == name, sa.func.substr(t.items.c.namespace, 1, len(below)) == below
    )


def _labels(name: str) -> Namespace:
    return tuple(_unescaped(name).split(_BETWEEN))


def _escaped(text: str) -> str:
    """Escape a text as JSON does, because no database stores NUL or a lone surrogate."""
    return json.dumps(text)[1:-1]


def _unescaped(text: str) -> str:
    return str(json.loads(f'"{text}"'))
