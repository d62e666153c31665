"""The ledger, and its readers and writers.

A revision is the number of a transaction that changed memories or recorded decisions. Later commits
have higher revisions. Each memory stores the revision of its last change; a change of its links or
its vector counts, too. An index that follows the ledger reads only the memories with a higher
revision than the last revision that the index contains.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy.engine import Connection, make_url

from memory.errors import LedgerError, LedgerMissing, LedgerOutdated
from memory.ledger import migrations
from memory.ledger import tables as t
from memory.ledger.attachments import Episodes, Items, Leases, Turns
from memory.ledger.database import Database, PostgresDatabase, SqliteDatabase
from memory.ledger.decisions import NOTHING_BEFORE, Decisions, Refusals
from memory.ledger.judgements import Attempts, DistinctPairs, Readings
from memory.ledger.links import Links
from memory.ledger.memories import MemoryRows, Superseded
from memory.ledger.search_data import (
    TERM_STATES,
    Followers,
    Terms,
    TextVectors,
    terms_of,
    update_index,
)
from memory.ledger.tables import Prepared, Transaction, among, by_time
from memory.models import Action, Decision, Row, ScopedText, Snapshot, TextPair


@dataclass(frozen=True)
class Counts:
    """Numbers of rows. `users`: live memories of each user. `decisions`: decisions by action.

    `pending`: decisions whose question is still open. `refused`: decisions that refused a merged
    text. `turns`: turns that wait for extraction.
    """

    live: int
    retired: int
    users: dict[str | None, int]
    decisions: dict[str, int]
    pending: int
    refused: int
    turns: int


_LONG_S, _SHORT_S = 0.03, 0.015
"""Transactions that take longer than the first get fewer rows, shorter than the second more."""
T = TypeVar("T")

_RAISE = Prepared(t.counter.update().values(value=sa.bindparam("latest")))
_TOUCH = Prepared(
    t.memories.update().where(among(t.memories.c.id, "ids")).values(revision=sa.bindparam("latest"))
)


class Ledger:
    """An open ledger. It is safe to share between threads; a `with` statement closes it.

    >>> with Ledger.create("sqlite:///own.db") as ledger, ledger.reading() as reader:
    ...     ledger.read_only, reader.counts().live
    (False, 0)
    >>> with Ledger.open("sqlite:///own.db") as ledger:
    ...     ledger.read_only
    True
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.name = database.name

    @classmethod
    def open(cls, url: str, *, untouched: bool = False) -> Ledger:
        """Open an existing ledger for reading only.

        SQLite makes two files next to an open ledger. `untouched` prevents this, unless the ledger
        already has a write-ahead log.

        Raises: LedgerMissing, LedgerOutdated, LedgerError.
        """
        with (
            cls(open_database(url, create=False, untouched=untouched))._closed_on_fault() as ledger,
            ledger.database.reading() as connection,
        ):
            ledger._check_version(migrations.version_of(connection))
        return ledger

    @classmethod
    def create(cls, url: str) -> Ledger:
        """Open a ledger for reading and writing, and create it if there is none at this URL.

        Raises: LedgerOutdated, LedgerError.
        """
        with (
            cls(open_database(url, create=True))._closed_on_fault() as ledger,
            ledger.database.writing() as connection,
        ):
            migrations.make_schema(connection)
            ledger._check_version(migrations.stored_version(connection))
        return ledger

    @classmethod
    def upgrade(cls, url: str, folder: Path) -> Path | None:
        """Upgrade an existing ledger to the current schema, after copying it.

        Return the path of the copy; None if the schema was current. The copy of a SQLite ledger
        lies next to it. The copy of a PostgreSQL ledger is a SQLite ledger in `folder`.

        Raises: LedgerMissing, LedgerError.
        """
        try:
            cls.open(url).close()
        except LedgerOutdated:
            with closing(open_database(url, create=True)) as database:
                return migrations.upgrade(
                    database, lambda: migrations.copy_before_upgrade(database, folder)
                )
        return None

    @classmethod
    def upgraded_copy(cls, url: str, file: Path, *, untouched: bool = False) -> Ledger:
        """Copy an older ledger into a new file, upgrade the copy and open it for reading.

        The older ledger does not change. With `untouched`, SQLite also makes no files next to it,
        unless it already has a write-ahead log.

        Raises: LedgerMissing, LedgerError.
        """
        with closing(open_database(url, create=False, untouched=untouched)) as database:
            migrations.copy_as_it_is(database, file)
        with closing(open_database(f"sqlite:///{file}", create=True)) as copy:
            migrations.upgrade(copy, lambda: Path(database.name))
        return cls.open(f"sqlite:///{file}")

    @contextmanager
    def _closed_on_fault(self) -> Iterator[Ledger]:
        try:
            yield self
        except BaseException:  # also after Ctrl-C
            self.close()
            raise

    def _check_version(self, stored: str | None) -> None:
        """Check that `stored`, the version of the ledger's schema, is the current one.

        Raises: LedgerMissing if `stored` is None (no tables), LedgerOutdated if it can be
        upgraded, LedgerError if it is newer, or too old to be upgraded.
        """
        if stored is None:
            problem = f"there are no memories in {self.name} yet"
            raise LedgerMissing(problem, "remember or import some")
        if stored in migrations.OLDER:
            raise LedgerOutdated(self.name, stored, t.SCHEMA_VERSION)
        if stored.isdecimal() and int(stored) < int(migrations.PREVIOUS):
            raise LedgerError(
                f"{self.name} has schema {stored}, which is too old for this version",
                "run `memory-dedup store upgrade` of commit e64dc8b, then use this version again",
            )
        if stored != t.SCHEMA_VERSION:
            raise LedgerError(
                f"{self.name} has schema {stored}, this version knows {t.SCHEMA_VERSION} at most",
                "use the version of memory-dedup that wrote it",
            )

    @property
    def read_only(self) -> bool:
        """Whether the ledger was opened for reading only."""
        return self.database.read_only

    @contextmanager
    def reading(self, now: datetime | None = None) -> Iterator[Reader]:
        """Yield a reader of one committed state.

        `now`: the memories that expired by then are retired first. A ledger that was opened for
        reading only stays as it is, so its readers must leave these memories out.
        """
        with self.database.reading() as connection:
            reader = Reader(connection)
            if now is None or self.database.read_only or not reader.superseded.due(now):
                yield reader
                return
        with self.writing() as writer:
            rows = writer.superseded.due(now)
            writer.superseded.expire(rows)
            over = [Decision(Action.EXPIRE, "its time is over", (row.memory,)) for row in rows]
            writer.decisions.record([(one, NOTHING_BEFORE) for one in over], now, None)
        with self.reading() as reader:
            yield reader

    @contextmanager
    def writing(self, texts: Iterable[str] = ()) -> Iterator[Writer]:
        """Yield a writer whose changes are committed together at the end of the block.

        `texts`: what the block may store as memories. Their words are read before the transaction
        begins, since no other process can write during it.

        Raises: LedgerError, for example if a newer version of the program has upgraded the ledger
        since it was opened.
        """
        read = terms_of(texts)
        with self.database.writing() as connection:
            writer = Writer(connection)
            if (stored := writer.meta("schema_version")) != t.SCHEMA_VERSION:
                self._check_version(stored)
            yield writer
            done = writer.transaction
            if done.reworded:
                update_index(connection, TERM_STATES.rows(connection, ids=done.reworded), read)
            if done.numbered or done.touched:
                _RAISE.run(connection, [{"latest": done.revision}])
            if done.touched:
                _TOUCH.run(connection, [{"ids": sorted(done.touched), "latest": done.revision}])

    def store_id(self) -> str:
        with self.writing() as writer:
            known = writer.meta("store_id")
            if known is None:
                known = uuid4().hex[:12]
                writer.set_meta("store_id", known)
        return known

    def set_aside_files(self) -> list[str]:
        """Return the paths of older copies of this ledger that still exist.

        These are damaged ledgers that a restore renamed, and copies made before an upgrade.
        """
        with self.database.reading() as connection:
            noted = migrations.noted_copies(connection)
        existing = {name for name in noted if Path(name).exists()}
        return sorted(existing.union(self.database.set_aside_files()))

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AdaptiveBatchSize:
    """The number of rows for the next transaction, adapted to how long the last one took."""

    def __init__(
        self, first: int = 24, most: int = 256, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.size = first
        self._most = most
        self._clock = clock

    def parts(self, items: Sequence[T]) -> Iterator[Sequence[T]]:
        """Yield all items in order, in parts; `size` is read again before each part."""
        start = 0
        while start < len(items):
            part = items[start : start + self.size]
            yield part
            start += len(part)

    @contextmanager
    def writing(self, ledger: Ledger, count: int, texts: Iterable[str] = ()) -> Iterator[Writer]:
        """Open a transaction for `count` rows; afterwards, adapt `size` to the time it took.

        A single row changes nothing, unless `size` is 1. `texts`: as for `Ledger.writing`.
        """
        with ledger.writing(texts) as writer:
            began = self._clock()
            yield writer
        seconds = self._clock() - began
        if count == 1 < self.size:
            return
        if seconds > _LONG_S:
            self.size = max(1, min(self.size, count) // 2)
        elif seconds < _SHORT_S and count >= self.size:
            self.size = min(self._most, self.size + self.size // 4 + 1)


def open_database(url: str, *, create: bool, untouched: bool = False) -> Database:
    try:
        parsed = make_url(url)
    except sa.exc.ArgumentError as exc:
        raise LedgerError(
            "memory.ledger_url is not a valid URL",
            "write sqlite:///FILE or postgresql+psycopg://...",
        ) from exc
    if parsed.get_backend_name() == "postgresql":
        return PostgresDatabase(parsed, create=create)
    file = Path(url.partition(":///")[2])
    if parsed.get_backend_name() == "sqlite" and file.name not in ("", ":memory:"):
        return SqliteDatabase(file, create=create, untouched=untouched)
    shown = parsed.render_as_string(hide_password=True)
    raise LedgerError(
        f"ledger URL {shown} is neither sqlite:///FILE nor postgresql+psycopg://...",
        "set memory.ledger_url",
    )


# --- reader and writer ----------------------------------------------------------------------------

_META = Prepared(sa.select(t.meta.c.value).where(t.meta.c.key == sa.bindparam("key")))


class Reader:
    """One committed state of the ledger. Each attribute reads one group of tables.

    >>> outcome = memories.remember("Gil rows.", user="Gil")
    >>> with store.ledger.reading() as reader:
    ...     reader.memories.rows([outcome.memory.id])[outcome.memory.id].memory.content
    'Gil rows.'
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.transaction = Transaction(connection)
        self.links = Links(self.transaction, connection)
        self.memories = MemoryRows(self.transaction, connection, self.links)
        self.superseded = Superseded(self.transaction, connection, self.links)
        self.vectors = TextVectors(self.transaction, connection)
        self.distinct = DistinctPairs(self.transaction, connection)
        self.attempts = Attempts(self.transaction, connection)
        self.decisions = Decisions(self.transaction, connection)
        self.refusals = Refusals(self.transaction, connection)
        self.turns = Turns(self.transaction, connection)
        self.leases = Leases(self.transaction, connection)
        self.episodes = Episodes(self.transaction, connection)
        self.followers = Followers(self.transaction, connection)
        self.items = Items(self.transaction, connection)
        self.readings = Readings(self.transaction, connection)
        self.terms = Terms(self.transaction, connection)

    def revision(self) -> int:
        return self.transaction.revision - 1

    def meta(self, key: str) -> str | None:
        """Return a value about the ledger itself, such as its schema version; None if unknown."""
        found = _META.rows(self._connection, key=key)
        return found[0].value if found else None

    def external_ids_behind(self) -> dict[str, list[str]]:
        """Map the id of each live memory to the external ids of the memories that it replaced.

        An external id is the id that another program gave to a memory. The external ids of the
        oldest replaced memories come first. A live memory is left out if its list would be empty.
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
        begins = t.meta.c.key.startswith(prefix, autoescape=True)
        rows = self._connection.execute(sa.select(t.meta.c.key, t.meta.c.value).where(begins))
        return {row.key: row.value for row in rows}

    def counts(self, now: datetime | None = None) -> Counts:
        """Return the numbers of rows; what expired by `now` counts as retired already."""
        count = sa.func.count()
        live: sa.ColumnElement[bool] = t.memories.c.live
        if now is not None:
            ends = t.memories.c.expires_at
            lasting = by_time(ends) > now.astimezone(UTC).isoformat()
            live = sa.and_(live, sa.or_(ends.is_(None), lasting))
        users = sa.select(t.memories.c.user, count).where(live)
        by_user = self.transaction.counted(users.group_by(t.memories.c.user).order_by(count.desc()))
        actions = sa.select(t.decisions.c.action, count).group_by(t.decisions.c.action)
        retired = sa.and_(sa.not_(live), t.memories.c.text_key != t.FORGOTTEN_KEY)
        return Counts(
            live=sum(by_user.values()),
            retired=self.transaction.count(t.memories, retired),
            users=by_user,
            decisions=self.transaction.counted(actions),
            pending=self.decisions.count_pending(),
            refused=self.refusals.count(),
            turns=self.turns.count_waiting(),
        )

    def dump(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Yield the rows of all tables but `index_state`, as pairs (table name, list of rows).

        A row maps column names to values. A large table comes in several lists, an empty one in
        none.
        """
        for table in t.schema.sorted_tables:
            if table is not t.index_state:
                pages = self._connection.execute(sa.select(table)).mappings().partitions(2_000)
                yield from ((table.name, [dict(row) for row in page]) for page in pages)


class Writer(Reader):
    """One writing transaction, which commits completely or not at all.

    >>> with store.ledger.writing() as writer:
    ...     writer.set_meta("own.key", "value")
    >>> with store.ledger.reading() as reader:
    ...     reader.meta("own.key")
    'value'
    """

    def set_meta(self, key: str, value: str) -> None:
        statement = self.transaction.upsert(t.meta).values(key=key, value=value)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["key"], set_={"value": value})
        )

    def drop_meta(self, key: str) -> None:
        self._connection.execute(t.meta.delete().where(t.meta.c.key == key))

    def drop_unused_texts(self, keys: set[str]) -> None:
        """Delete the vectors and verdicts of those texts in `keys` that no memory has any more.

        `keys`: text keys. Records of failed questions about these texts are deleted, too.
        """
        self.distinct.drop(self.vectors.drop_unused(keys))

    def load(self, table_name: str, rows: Sequence[dict[str, Any]]) -> None:
        """Insert a list of rows from `dump` into a table of a new ledger."""
        table = t.schema.tables[table_name]
        if table in (t.meta, t.counter):
            self._connection.execute(table.delete())
        self._connection.execute(table.insert(), rows)
        if self.transaction.dialect == "postgresql" and "seq" in table.c:
            last = sa.select(sa.func.max(table.c.seq)).scalar_subquery()
            sequence = sa.func.pg_get_serial_sequence(table.name, "seq")
            self._connection.execute(sa.select(sa.func.setval(sequence, last)))


# --- a snapshot, from which a batch plans ---------------------------------------------------------


def take_snapshot(
    reader: Reader,
    distinct: Collection[TextPair],
    waiting: Collection[TextPair] = (),
    before: Snapshot | None = None,
    kept_apart: Collection[TextPair] = (),
    read: Collection[ScopedText] = (),
    *,
    whole_lineage: bool = False,
    only: Sequence[Row] | None = None,
) -> Snapshot:
    """Take a snapshot of all live memories, or of those whose rows are `only`.

    `distinct`: pairs of texts that a judge called distinct; they are stored in `Snapshot.judged`.
    `waiting`: pairs that the model failed to judge recently or too often. `Snapshot.distinct` is
    the union of `distinct` and `waiting`. `before`: an earlier snapshot, from which unchanged
    memories are taken. `kept_apart`, `read` and `whole_lineage`: see `Snapshot`.
    """
    rows, ancestors = _live_rows(reader, before, only)
    if whole_lineage:
        ancestors |= {name: _text_keys(its) for name, its in _stood_for(reader, rows).items()}
    keys = [row.text_key for row in rows]
    keys += [key for of_one in ancestors.values() for key in of_one]
    stands_for = _stood_for(reader, rows) if kept_apart else {}
    return Snapshot(
        rows=rows,
        vectors=reader.vectors.table(keys, None if before is None else before.vectors),
        ancestors=ancestors,
        distinct=frozenset(distinct) | frozenset(waiting),
        revision=reader.revision(),
        waiting=len(waiting),
        judged=frozenset(distinct),
        kept_apart=frozenset(kept_apart),
        stands_for={
            name: tuple({row.dated_key: None for row in its}) for name, its in stands_for.items()
        },
        read=frozenset(read),
    )


def snapshot_of(reader: Reader, ids: Sequence[str]) -> Snapshot:
    """Take a snapshot of only the memories with these ids.

    The snapshot's fields for verdicts and ancestors are empty.

    >>> outcome = memories.remember("Hob rows.", user="Hob")
    >>> with store.ledger.reading() as reader:
    ...     [row.memory.content for row in snapshot_of(reader, [outcome.memory.id]).rows]
    ['Hob rows.']
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


def _live_rows(
    reader: Reader, before: Snapshot | None, only: Sequence[Row] | None
) -> tuple[tuple[Row, ...], dict[str, tuple[str, ...]]]:
    if before is None:
        found = reader.memories.live() if only is None else only
        rows, ancestors = list(found), dict[str, tuple[str, ...]]()
    else:
        changed = [change.id for change in reader.followers.changes(before.revision)]
        written = reader.memories.rows(changed)
        rows = [row for row in before.rows if row.memory.id not in written]
        rows += [row for row in written.values() if row.live]
        ancestors = {name: of for name, of in before.ancestors.items() if name not in written}
    rows.sort(key=lambda row: (row.memory.timestamp, row.seq))
    for row in rows:
        if row.memory.id not in ancestors:
            ancestors[row.memory.id] = _ancestor_keys(reader, row)
    return tuple(rows), ancestors


def _stood_for(reader: Reader, rows: Sequence[Row]) -> dict[str, list[Row]]:
    retired = reader.memories.rows(list(reader.memories.successions()))
    alive = reader.memories.living_ids(retired)
    found: dict[str, list[Row]] = {row.memory.id: [] for row in rows}
    for name, end in alive.items():
        if end in found:
            found[end].append(retired[name])
    return {name: its for name, its in found.items() if its}


def _ancestor_keys(reader: Reader, row: Row) -> tuple[str, ...]:
    found: dict[str, Row] = {}
    todo = row.memory.merged_from
    while todo:
        rows = reader.memories.rows(todo)
        found |= rows
        merged = dict.fromkeys(name for row in rows.values() for name in row.memory.merged_from)
        todo = tuple(name for name in merged if name not in found)
    return _text_keys(found.values())


def _text_keys(rows: Iterable[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.text_key for row in rows))
