"""One state of the ledger to read, or one transaction to write: the table groups side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memory.ledger import tables as t
from memory.ledger.decisions import Decisions, DecisionsWriter
from memory.ledger.episodes import Episodes, EpisodesWriter
from memory.ledger.followers import Followers, FollowersWriter
from memory.ledger.items import Items, ItemsWriter
from memory.ledger.judgements import (
    Attempts,
    AttemptsWriter,
    DistinctPairs,
    DistinctPairsWriter,
    Readings,
    ReadingsWriter,
)
from memory.ledger.links import Links, LinksWriter
from memory.ledger.memories import Memories, MemoriesWriter
from memory.ledger.records import Counts
from memory.ledger.terms import Terms, TermsWriter
from memory.ledger.transaction import Transaction
from memory.ledger.turns import Leases, LeasesWriter, Turns, TurnsWriter
from memory.ledger.vectors import TextVectors, TextVectorsWriter

G = TypeVar("G")
_PAGE = 2_000


class _Group(Generic[G]):
    """A table group of a state, made when it is first asked for."""

    def __init__(self, kind: Callable[[Transaction], G]) -> None:
        self._kind = kind

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, state: Reader, _owner: type) -> G:
        """Called once of each state, which has the group itself from then on."""
        group = state.__dict__[self._name] = self._kind(state.transaction)
        return group


class Reader:
    """One committed state: every question to it gets the answer of the same moment."""

    memories = _Group(Memories)
    vectors = _Group(TextVectors)
    links = _Group(Links)
    distinct = _Group(DistinctPairs)
    attempts = _Group(Attempts)
    decisions = _Group(Decisions)
    turns = _Group(Turns)
    leases = _Group(Leases)
    episodes = _Group(Episodes)
    followers = _Group(Followers)
    items = _Group(Items)
    readings = _Group(Readings)
    terms = _Group(Terms)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.transaction = Transaction(connection)

    def revision(self) -> int:
        """The latest committed transaction's number, 0 for a new ledger."""
        return self.transaction.latest

    def meta(self, key: str) -> str | None:
        """A fact about the store itself; None where it was never set."""
        return self._connection.scalar(sa.select(t.meta.c.value).where(t.meta.c.key == key))

    def external_ids_behind(self) -> dict[str, list[str]]:
        """For each live memory, the external ids of what it stands for, oldest time first."""
        c = t.memories.c
        columns = (c.id, c.successor_id, c.external_id)
        query = (
            sa.select(*columns)
            .where(sa.not_(c.live), c.text_key != t.FORGOTTEN_KEY)
            .order_by(c.timestamp, c.seq)
        )
        retired = self._connection.execute(query).all()
        successors = {row.id: row.successor_id for row in retired}
        found: dict[str, dict[str, None]] = {}
        for row in retired:
            if row.external_id is not None:
                found.setdefault(_last_of(row.id, successors), {})[row.external_id] = None
        return {name: list(external_ids) for name, external_ids in found.items()}

    def metas(self, prefix: str) -> dict[str, str]:
        """The facts whose key begins so."""
        begins = t.meta.c.key.startswith(prefix, autoescape=True)
        rows = self._connection.execute(sa.select(t.meta.c.key, t.meta.c.value).where(begins))
        return {row.key: row.value for row in rows}

    def counts(self) -> Counts:
        count = sa.func.count()
        live = sa.select(t.memories.c.user, count).where(t.memories.c.live)
        users = live.group_by(t.memories.c.user).order_by(count.desc())
        by_user = self.transaction.counted(users)
        retired = sa.and_(sa.not_(t.memories.c.live), t.memories.c.text_key != t.FORGOTTEN_KEY)
        return Counts(
            live=sum(by_user.values()),
            retired=self.transaction.count(t.memories, retired),
            users=by_user,
            decisions=self.decisions.counts(),
            pending=self.decisions.count_pending(),
            turns=self.turns.count_waiting(),
        )

    def dump(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Every row of every table but what indexes have seen, page by page, with its table."""
        for table in t.schema.sorted_tables:
            if table is not t.index_state:
                pages = self._connection.execute(sa.select(table)).mappings().partitions(_PAGE)
                yield from ((table.name, [dict(row) for row in page]) for page in pages)


def _last_of(name: str, successors: dict[str, str | None]) -> str:
    seen: set[str] = set()
    while name not in seen and (successor := successors.get(name)) is not None:
        seen.add(name)
        name = successor
    return name


class Writer(Reader):
    """One transaction: wholly or not at all, numbered by its revision."""

    memories = _Group(MemoriesWriter)
    vectors = _Group(TextVectorsWriter)
    links = _Group(LinksWriter)
    distinct = _Group(DistinctPairsWriter)
    attempts = _Group(AttemptsWriter)
    decisions = _Group(DecisionsWriter)
    turns = _Group(TurnsWriter)
    leases = _Group(LeasesWriter)
    episodes = _Group(EpisodesWriter)
    followers = _Group(FollowersWriter)
    items = _Group(ItemsWriter)
    readings = _Group(ReadingsWriter)
    terms = _Group(TermsWriter)

    def set_meta(self, key: str, value: str) -> None:
        statement = self.transaction.upsert(t.meta).values(key=key, value=value)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["key"], set_={"value": value})
        )

    def drop_meta(self, key: str) -> None:
        self._connection.execute(t.meta.delete().where(t.meta.c.key == key))

    def drop_unused_texts(self, keys: set[str]) -> None:
        """Vectors and distinct pairs of texts that no memory has any more."""
        self.distinct.drop(self.vectors.drop_unused(keys))

    def load(self, table_name: str, rows: Sequence[dict[str, Any]]) -> None:
        """Rows as `dump` gave them, into the same tables, which are empty or hold one row."""
        table = t.schema.tables[table_name]
        if table in (t.meta, t.counter):
            self._connection.execute(table.delete())
        self._connection.execute(table.insert(), rows)
        if self.transaction.dialect == "postgresql" and "seq" in table.c:
            last = sa.select(sa.func.max(table.c.seq)).scalar_subquery()
            sequence = sa.func.pg_get_serial_sequence(table.name, "seq")
            self._connection.execute(sa.select(sa.func.setval(sequence, last)))
