"""One state of the ledger to read, or one transaction to write: the table groups side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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

_PAGE = 2_000


class Reader:
    """One committed state of the ledger, by table groups."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.transaction = Transaction(connection)
        self.memories = Memories(self.transaction)
        self.vectors = TextVectors(self.transaction)
        self.links = Links(self.transaction)
        self.distinct = DistinctPairs(self.transaction)
        self.attempts = Attempts(self.transaction)
        self.decisions = Decisions(self.transaction)
        self.turns = Turns(self.transaction)
        self.leases = Leases(self.transaction)
        self.episodes = Episodes(self.transaction)
        self.followers = Followers(self.transaction)
        self.items = Items(self.transaction)
        self.readings = Readings(self.transaction)
        self.terms = Terms(self.transaction)

    def revision(self) -> int:
        """Return the number of the latest committed transaction, 0 for a new ledger."""
        return self.transaction.latest

    def meta(self, key: str) -> str | None:
        """Return a fact about the store itself; None if it was never set."""
        return self._connection.scalar(sa.select(t.meta.c.value).where(t.meta.c.key == key))

    def external_ids_behind(self) -> dict[str, list[str]]:
        """Return the external ids that each live memory stands for, oldest time first."""
        c = t.memories.c
        query = (
            sa.select(c.id, c.external_id)
            .where(sa.not_(c.live), c.text_key != t.FORGOTTEN_KEY, c.external_id.is_not(None))
            .order_by(c.timestamp, c.seq)
        )
        retired = self._connection.execute(query).all()
        successors = self.memories.living_ids(row.id for row in retired)
        found: dict[str, dict[str, None]] = {}
        for row in retired:
            if row.id in successors:
                found.setdefault(successors[row.id], {})[row.external_id] = None
        return {name: list(external_ids) for name, external_ids in found.items()}

    def metas(self, prefix: str) -> dict[str, str]:
        """Return the facts whose key begins with a prefix."""
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
        """Yield the rows of every table but `index_state`, in pages, with the table's name."""
        for table in t.schema.sorted_tables:
            if table is not t.index_state:
                pages = self._connection.execute(sa.select(table)).mappings().partitions(_PAGE)
                yield from ((table.name, [dict(row) for row in page]) for page in pages)


class Writer(Reader):
    """One transaction, which commits wholly or not at all."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.memories: MemoriesWriter = MemoriesWriter(self.transaction)
        self.vectors: TextVectorsWriter = TextVectorsWriter(self.transaction)
        self.links: LinksWriter = LinksWriter(self.transaction)
        self.distinct: DistinctPairsWriter = DistinctPairsWriter(self.transaction)
        self.attempts: AttemptsWriter = AttemptsWriter(self.transaction)
        self.decisions: DecisionsWriter = DecisionsWriter(self.transaction)
        self.turns: TurnsWriter = TurnsWriter(self.transaction)
        self.leases: LeasesWriter = LeasesWriter(self.transaction)
        self.episodes: EpisodesWriter = EpisodesWriter(self.transaction)
        self.followers: FollowersWriter = FollowersWriter(self.transaction)
        self.items: ItemsWriter = ItemsWriter(self.transaction)
        self.readings: ReadingsWriter = ReadingsWriter(self.transaction)
        self.terms: TermsWriter = TermsWriter(self.transaction)

    def set_meta(self, key: str, value: str) -> None:
        statement = self.transaction.upsert(t.meta).values(key=key, value=value)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["key"], set_={"value": value})
        )

    def drop_meta(self, key: str) -> None:
        self._connection.execute(t.meta.delete().where(t.meta.c.key == key))

    def drop_unused_texts(self, keys: set[str]) -> None:
        """Drop vectors and distinct pairs of texts that no memory has any more."""
        self.distinct.drop(self.vectors.drop_unused(keys))

    def load(self, table_name: str, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows that `dump` yielded into a table of a new ledger."""
        table = t.schema.tables[table_name]
        if table in (t.meta, t.counter):
            self._connection.execute(table.delete())
        self._connection.execute(table.insert(), rows)
        if self.transaction.dialect == "postgresql" and "seq" in table.c:
            last = sa.select(sa.func.max(table.c.seq)).scalar_subquery()
            sequence = sa.func.pg_get_serial_sequence(table.name, "seq")
            self._connection.execute(sa.select(sa.func.setval(sequence, last)))
