"""A reader for one state of the ledger, a writer for one transaction, a snapshot for a batch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
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
    ScopedText,
    TextPair,
)
from memory.ledger.links import Links, LinksWriter
from memory.ledger.memories import Memories, MemoriesWriter
from memory.ledger.records import Counts, Row
from memory.ledger.statements import Prepared, Transaction
from memory.ledger.terms import Terms, TermsWriter
from memory.ledger.turns import Leases, LeasesWriter, Turns, TurnsWriter
from memory.ledger.vectors import TextVectors, TextVectorsWriter, VectorTable

_PAGE = 2_000
_META = Prepared(sa.select(t.meta.c.value).where(t.meta.c.key == sa.bindparam("key")))


class Reader:
    """One committed state of the ledger. Each attribute reads one group of tables."""

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
        """Return the number of the latest committed transaction; 0 for a new ledger."""
        return self.transaction.latest

    def meta(self, key: str) -> str | None:
        """Return the value stored under a key in the table `meta`; None if there is none.

        `meta` holds facts about the store itself, such as its schema version.
        """
        found = _META.rows(self._connection, key=key)
        return found[0].value if found else None

    def external_ids_behind(self) -> dict[str, list[str]]:
        """Return, by id of a live memory, the external ids of the retired memories it replaced.

        An external id names a memory in the source that it came from. The ids are in the order of
        the retired memories' time, oldest first.
        """
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
        """Return the entries of the table `meta` whose key begins with `prefix`."""
        begins = t.meta.c.key.startswith(prefix, autoescape=True)
        rows = self._connection.execute(sa.select(t.meta.c.key, t.meta.c.value).where(begins))
        return {row.key: row.value for row in rows}

    def counts(self) -> Counts:
        """Count the memories, decisions and waiting turns in the ledger."""
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
        """Yield all tables but `index_state`, in pages: pairs of table name and list of rows.

        A row maps column names to values. A large table has several pages, an empty one has none.
        """
        for table in t.schema.sorted_tables:
            if table is not t.index_state:
                pages = self._connection.execute(sa.select(table)).mappings().partitions(_PAGE)
                yield from ((table.name, [dict(row) for row in page]) for page in pages)


class Writer(Reader):
    """One writing transaction, which commits completely or not at all."""

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
        """Store a value under a key in the table `meta`; replace the earlier one, if any."""
        statement = self.transaction.upsert(t.meta).values(key=key, value=value)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["key"], set_={"value": value})
        )

    def drop_meta(self, key: str) -> None:
        self._connection.execute(t.meta.delete().where(t.meta.c.key == key))

    def drop_unused_texts(self, keys: set[str]) -> None:
        """Delete the vectors and verdicts of texts that no memory has any more.

        `keys`: the keys of the texts to check; texts that a memory still has are left alone.
        """
        self.distinct.drop(self.vectors.drop_unused(keys))

    def load(self, table_name: str, rows: Sequence[dict[str, Any]]) -> None:
        """Insert one page of rows, as `dump` yields them, into a table of a new ledger."""
        table = t.schema.tables[table_name]
        if table in (t.meta, t.counter):
            self._connection.execute(table.delete())
        self._connection.execute(table.insert(), rows)
        if self.transaction.dialect == "postgresql" and "seq" in table.c:
            last = sa.select(sa.func.max(table.c.seq)).scalar_subquery()
            sequence = sa.func.pg_get_serial_sequence(table.name, "seq")
            self._connection.execute(sa.select(sa.func.setval(sequence, last)))


# --- a snapshot: all live memories at one revision, from which a batch plans ----------------------


class Lineage(Enum):
    """Which texts, besides its own, a snapshot lists as a memory's ancestors.

    SYNTHESISED: the texts from which the memory was merged. WHOLE: these, and also all texts that
    the memory has replaced.
    """

    SYNTHESISED = "those that it was synthesised from"
    WHOLE = "and all that it has replaced, whether or not it states them"


@dataclass(frozen=True)
class Snapshot:
    """All live memories at one revision, oldest first, with the verdicts on their texts.

    A batch is planned from a snapshot. Texts are named by their keys, and pairs of texts by their
    scope and both keys.
    """

    rows: tuple[Row, ...]
    vectors: VectorTable
    ancestors: Mapping[str, tuple[str, ...]]
    """By memory id, the keys of the texts that the memory was merged from.

    With `Lineage.WHOLE`, also the keys of all texts that it has replaced.
    """
    distinct: frozenset[TextPair]
    """Pairs that the model is not asked about.

    Either a judge called the two texts distinct (they state different things), or the model failed
    to judge the pair and is not to be asked again yet.
    """
    revision: int
    waiting: int = 0
    """Number of pairs that the model failed to judge and is not to be asked about yet."""
    judged: frozenset[TextPair] = frozenset()
    """Pairs that a judge called distinct, if the batch accepts the verdicts of this judge."""
    kept_apart: frozenset[TextPair] = frozenset()
    """Pairs that a person decided to keep as two memories."""
    stands_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By memory id, the keys of all texts that the memory has replaced or was merged from.

    Empty if `kept_apart` is empty.
    """
    read: frozenset[ScopedText] = frozenset()
    """Texts that the model has read already on a page (a question about many memories)."""


def take_snapshot(
    reader: Reader,
    distinct: Collection[TextPair],
    waiting: Collection[TextPair] = (),
    lineage: Lineage = Lineage.SYNTHESISED,
    before: Snapshot | None = None,
    kept_apart: Collection[TextPair] = (),
    read: Collection[ScopedText] = (),
) -> Snapshot:
    """Take a snapshot of all live memories, from which a batch can plan.

    The model will not be asked about two kinds of pairs: `distinct`, which judges called distinct,
    and `waiting`, which it failed to judge recently. `lineage`: which texts count as a memory's
    ancestors. `before`: an earlier snapshot; if it is given, only rows written after it are read.
    `kept_apart`: pairs that a person keeps as two memories. `read`: texts that the model has read.
    """
    rows, ancestors = _all_rows(reader) if before is None else _rows_since(reader, before)
    if lineage is Lineage.WHOLE:
        ancestors |= _keys_stood_for(reader, rows)
    keys = [row.text_key for row in rows]
    keys += [key for of_one in ancestors.values() for key in of_one]
    stands_for = _keys_stood_for(reader, rows) if kept_apart else {}
    return Snapshot(
        rows=rows,
        vectors=reader.vectors.table(keys, None if before is None else before.vectors),
        ancestors=ancestors,
        distinct=frozenset(distinct) | frozenset(waiting),
        revision=reader.revision(),
        waiting=len(waiting),
        judged=frozenset(distinct),
        kept_apart=frozenset(kept_apart),
        stands_for=stands_for,
        read=frozenset(read),
    )


def snapshot_of(reader: Reader, ids: Sequence[str]) -> Snapshot:
    """Take a snapshot of only the memories with these ids, live or retired.

    The snapshot contains no verdicts and no ancestors (texts that a memory was merged from).
    """
    found = reader.memories.rows(ids).values()
    rows = tuple(sorted(found, key=lambda row: (row.memory.timestamp, row.seq)))
    return Snapshot(
        rows=rows,
        vectors=reader.vectors.table(row.text_key for row in rows),
        ancestors={},
        distinct=frozenset(),
        revision=reader.revision(),
    )


_Rows = tuple[tuple[Row, ...], dict[str, tuple[str, ...]]]
"""Live rows, oldest first, and by memory id the keys of the texts that each was merged from."""


def _all_rows(reader: Reader) -> _Rows:
    """Return all live rows, oldest first, and by memory id the texts that each was merged from.

    The texts are given by their keys.
    """
    rows = tuple(sorted(reader.memories.live(), key=lambda row: (row.memory.timestamp, row.seq)))
    return rows, {row.memory.id: _ancestor_keys(reader, row) for row in rows}


def _rows_since(reader: Reader, before: Snapshot) -> _Rows:
    """Return all live rows, oldest first, and by memory id the texts that each was merged from.

    The texts are given by their keys. Only rows written after the snapshot `before` are read; the
    other rows are taken from that snapshot.
    """
    written = reader.memories.rows([one.id for one in reader.followers.changes(before.revision)])
    rows = [row for row in before.rows if row.memory.id not in written]
    rows += [row for row in written.values() if row.live]
    rows.sort(key=lambda row: (row.memory.timestamp, row.seq))
    ancestors = {
        row.memory.id: _ancestor_keys(reader, row)
        if row.memory.id in written
        else before.ancestors[row.memory.id]
        for row in rows
    }
    return tuple(rows), ancestors


def _keys_stood_for(reader: Reader, rows: Sequence[Row]) -> dict[str, tuple[str, ...]]:
    """Return, by memory id, the keys of all texts that each of these live memories has replaced.

    Memories that have replaced none are left out.
    """
    retired = reader.memories.rows(list(reader.memories.successions()))
    alive = reader.memories.living_ids(retired)
    found: dict[str, list[str]] = {row.memory.id: [] for row in rows}
    for name, end in alive.items():
        found[end].append(retired[name].text_key)
    return {name: tuple(dict.fromkeys(keys)) for name, keys in found.items() if keys}


def _ancestor_keys(reader: Reader, row: Row) -> tuple[str, ...]:
    """Return the keys of the texts that a memory was merged from, directly or in several steps."""
    keys: dict[str, None] = {}
    todo = list(row.memory.merged_from)
    seen = set(todo)
    while todo:
        rows = reader.memories.rows(todo)
        keys.update((found.text_key, None) for found in rows.values())
        todo = [name for found in rows.values() for name in found.memory.merged_from]
        todo = [name for name in dict.fromkeys(todo) if name not in seen]
        seen.update(todo)
    return tuple(keys)
