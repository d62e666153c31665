"""What searches read: the vectors of texts, the index of words, and changes since a revision.

Memories with the same text share a vector. The index of words (terms) stores users and terms as
hashes, and so contains no readable word. For each term, it lists the memories that contain the
term, in blocks of 128 by order of arrival. An entry is one memory in this list. It has 32 bits: 7
for the memory's position in the block, 8 for how often the memory contains the term, and 17 for the
memory's number of terms.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.tables import Prepared, ScopeValues, TableGroup, among, in_scope, scope_values_of
from memory.models import SCOPE_FIELDS, Scope, Vector, Vectors, VectorTable
from memory.text import search_terms, text_of


class Change(NamedTuple):
    """A memory that an index must read again, because it was written after a given revision.

    `text_key` is "" for a forgotten memory. `number` is the position in order of arrival.
    """

    id: str
    live: bool
    values: ScopeValues
    text_key: str
    revision: int
    number: int


class LiveRow(NamedTuple):
    """A live memory with the values that decide its scope.

    `number`: the memory's position in order of arrival.
    """

    id: str
    text_key: str
    values: ScopeValues
    number: int


_PAGE = 500
_MANY = 4
"""If more than 1/_MANY of all vectors are wanted, all are read, because that is faster."""
_OF_KEYS = Prepared(sa.select(t.vectors).where(among(t.vectors.c.text_key, "keys")))
_KNOWN = Prepared(sa.select(t.vectors.c.text_key).where(among(t.vectors.c.text_key, "keys")))
_HOLDERS = Prepared(
    sa.select(t.memories.c.id).where(
        among(t.memories.c.text_key, "keys"), t.memories.c.revision + 0 < sa.bindparam("revision")
    )
)
"""Ids of memories that have one of these text keys and were not written by this transaction.

`+ 0` makes SQLite use the index of text keys instead of the index of revisions.
"""
_EVERY = Prepared(sa.select(t.vectors))
_INSERT = Prepared(t.vectors.insert())


class TextVectors(TableGroup):
    def table(self, keys: Iterable[str], known: VectorTable | None = None) -> VectorTable:
        """Return a table of all vectors in `known` and the stored vectors of the text keys `keys`.

        Keys without a stored vector are left out.
        """
        known = known or VectorTable((), np.empty((0, self.dim() or 0), np.float32))
        wanted = sorted({key for key in keys if key not in known})
        matrix = np.empty((len(known) + len(wanted), known.matrix.shape[1]), np.float32)
        matrix[: len(known)] = known.matrix[: len(known)]
        if missing := self.fill(matrix[len(known) :], wanted):
            matrix = np.delete(matrix, [len(known) + row for row in missing], axis=0)
            wanted = np.delete(wanted, missing).tolist()
        return VectorTable([*known, *wanted], matrix)

    def of(self, keys: Iterable[str]) -> dict[str, Vector]:
        wanted = set(keys)
        rows = _OF_KEYS.rows(self._connection, keys=wanted) if wanted else ()
        return {key: np.frombuffer(vector, dtype=np.float32) for key, vector in rows}

    def of_dated(self, keys: Collection[str]) -> dict[str, Vector]:
        """Map the `dated_key`s in `keys` to the vectors of their texts, where these are stored."""
        found = self.of(map(text_of, keys))
        return {key: found[text_of(key)] for key in keys if text_of(key) in found}

    def fill(self, matrix: Vectors, keys: Sequence[str]) -> list[int]:
        """Read the vectors of these text keys into the first rows of `matrix`, in this order.

        Return the numbers of the rows whose key has no vector.

        Raises: ValueError if a vector is longer or shorter than the matrix's rows.
        """
        rows = {key: row for row, key in enumerate(keys)}
        is_known = np.zeros(len(keys), np.bool_)
        for page in self._pages_of(rows):
            found = [(rows[key], vector) for key, vector in page if key in rows]
            if found:
                positions = [row for row, _ in found]
                if any(len(vector) != 4 * matrix.shape[1] for _, vector in found):
                    raise ValueError("vectors of different lengths")
                values = np.frombuffer(b"".join(vector for _, vector in found), np.float32)
                matrix[positions] = values.reshape(len(found), matrix.shape[1])
                is_known[positions] = True
        if len(rows) < len(keys):  # a text that several have
            for row, key in enumerate(keys):
                matrix[row], is_known[row] = matrix[rows[key]], is_known[rows[key]]
        missing: list[int] = np.flatnonzero(~is_known).tolist()
        return missing

    def _pages_of(self, keys: Collection[str]) -> Iterator[Sequence[Any]]:
        """Yield lists of pairs (text key, vector) for these keys.

        If there are many keys, the pairs of all stored vectors are yielded, because this is faster.
        """
        if len(keys) > _PAGE:
            last = self._connection.scalar(sa.select(sa.func.max(t.memories.c.seq))) or 0
            if _MANY * len(keys) > last:
                yield from _EVERY.pages(self._connection, _PAGE)
                return
        wanted = list(keys)
        for start in range(0, len(wanted), _PAGE):
            yield _OF_KEYS.rows(self._connection, keys=wanted[start : start + _PAGE])

    def missing_texts(self) -> list[str]:
        query = (
            sa.select(sa.func.min(t.memories.c.content))
            .outerjoin(t.vectors, t.vectors.c.text_key == t.memories.c.text_key)
            .where(t.vectors.c.text_key.is_(None), t.memories.c.text_key != t.FORGOTTEN_KEY)
            .group_by(t.memories.c.text_key)
        )
        return list(self._connection.scalars(query))

    def dim(self) -> int | None:
        length = self._connection.scalar(sa.select(sa.func.length(t.vectors.c.vector)).limit(1))
        return None if length is None else int(length) // np.dtype(np.float32).itemsize

    def byte_lengths(self) -> dict[int, int]:
        """Count the stored vectors by their length in bytes. All should have the same length."""
        size = sa.func.length(t.vectors.c.vector)
        return self._transaction.counted(sa.select(size, sa.func.count()).group_by(size))

    def put(self, vectors: Mapping[str, Vector]) -> None:
        """Store vectors by text key, except for keys that have a vector already.

        Memories with a new vector get a new revision, so that indexes read the vector.
        """
        known = {row.text_key for row in _KNOWN.rows(self._connection, keys=vectors)}
        fresh = {key: vector for key, vector in vectors.items() if key not in known}
        if not fresh:
            return
        rows = [
            {"text_key": key, "vector": np.ascontiguousarray(vector, np.float32).tobytes()}
            for key, vector in fresh.items()
        ]
        _INSERT.run(self._connection, rows)
        revision = self._transaction.revision
        holders = _HOLDERS.rows(self._connection, keys=fresh, revision=revision)
        self._transaction.touched.update(row.id for row in holders)

    def replace_all(self, vectors: Mapping[str, Vector]) -> None:
        """Replace all vectors by those of another embedder; every memory gets a new revision.

        Vectors of texts that no memory has are not stored.
        """
        held = set(self._connection.scalars(sa.select(t.memories.c.text_key)))
        self._connection.execute(t.vectors.delete())
        revision = self._transaction.revision
        self._connection.execute(t.memories.update().values(revision=revision))
        self._transaction.numbered = True
        self.put({key: vectors[key] for key in sorted(held & {*vectors})})

    def drop_unused(self, keys: Collection[str]) -> set[str]:
        """Delete the vectors of texts that no memory has; return the text keys of these texts.

        Only texts whose keys are in `keys` are checked.
        """
        used = sa.select(t.memories.c.text_key).where(among(t.memories.c.text_key, keys))
        unused = set(keys) - set(self._connection.scalars(used))
        self._connection.execute(t.vectors.delete().where(among(t.vectors.c.text_key, unused)))
        return unused


# --- what an index needs to follow the ledger -----------------------------------------------------

_CHANGES = Prepared(
    sa.select(
        *(
            t.memories.c[name]
            for name in ("id", "live", "revision", "seq", "text_key", "metadata", *SCOPE_FIELDS)
        )
    )
    .where(
        t.memories.c.revision > sa.bindparam("after"), t.memories.c.revision <= sa.bindparam("last")
    )
    .order_by(t.memories.c.revision, t.memories.c.seq)
)
_ROWS_PAGE = 5_000
_SCOPES = sa.select(
    t.memories.c.id, t.memories.c.metadata, *(t.memories.c[name] for name in SCOPE_FIELDS)
).where(among(t.memories.c.id, "ids"), t.memories.c.live)


@cache
def _live(given: frozenset[str], missing: frozenset[str], *, with_metadata: bool) -> Prepared:
    c = t.memories.c
    metadata = c.metadata if with_metadata else sa.literal_column("'{}'")
    columns = (c.id, c.seq, c.text_key, metadata, *(c[name] for name in SCOPE_FIELDS))
    conditions = [c[name] == sa.bindparam(name) for name in sorted(given)]
    conditions += [c[name].is_(None) for name in sorted(missing)]
    return Prepared(sa.select(*columns).where(c.live, *conditions).order_by(c.seq))


class Followers(TableGroup):
    """The data that vector indexes need to stay up to date with the ledger.

    The data are the changed memories, the live memories, and the last revision that each index
    contains.
    """

    def changes(
        self, after: int, limit: int | None = None, fields: Collection[str] = ()
    ) -> list[Change]:
        """Return the memories written after the revision `after`, the lowest revision first.

        `limit`: stop after this many memories; None means no limit. More memories are returned if
        the last revision wrote several, because a revision is never split.
        `fields`: the metadata fields to include in each result's `values`.
        """
        last = None
        if limit is not None:
            revision = t.memories.c.revision
            at_limit = sa.select(revision).where(revision > after).order_by(revision)
            last = self._connection.scalar(at_limit.offset(limit - 1).limit(1))
        rows = _CHANGES.rows(self._connection, after=after, last=last or 2**63 - 1)
        return [
            Change(name, live, scope_values_of(metadata, scope, fields), key, revision, number)
            for name, live, revision, number, key, metadata, *scope in rows
        ]

    def count(self, owner: Scope) -> int:
        return self._transaction.count(t.memories, sa.and_(t.memories.c.live, *in_scope(owner)))

    def live(self, owner: Scope, fields: Collection[str] = ()) -> Iterator[list[LiveRow]]:
        """Yield all live memories in the scope `owner`, in lists, in order of arrival.

        `owner` must have no metadata fields. `fields`: as for `changes`.
        """
        known: dict[tuple[Any, ...], ScopeValues] = {}
        values = {name: value for name, value in owner.values if value is not None}
        missing = frozenset(name for name, value in owner.values if value is None)
        query = _live(frozenset(values), missing, with_metadata=bool(fields))
        for page in query.pages(self._connection, _ROWS_PAGE, **values):
            for scope in {row[3:] for row in page} - known.keys():
                known[scope] = scope_values_of(scope[0], scope[1:], fields)
            yield [LiveRow(row[0], row[2], known[row[3:]], row[1]) for row in page]

    def live_values(self, ids: Collection[str]) -> dict[str, ScopeValues]:
        """Return a mapping from memory id to the values that decide the memory's scope.

        Memories that are not live are left out. The values include all metadata fields.
        """
        found = self._connection.execute(_SCOPES, {"ids": list(ids)}) if ids else ()
        return {name: scope_values_of(metadata, scope) for name, metadata, *scope in found}

    def lag(self, after: int) -> int:
        """Count the memories that an index at the revision `after` must still read."""
        return self._transaction.count(t.memories, t.memories.c.revision > after)

    def state(self, collection: str) -> tuple[int, bool]:
        """Return how far a vector index has followed the ledger; (0, True) if nothing is recorded.

        The first value is the last revision that the index contains. The second is whether the
        index may still hold vectors of forgotten memories.
        """
        state = t.index_state.c
        query = sa.select(state.watermark, state.stale).where(state.collection == collection)
        watermark, stale = self._connection.execute(query).first() or (0, True)
        return watermark, stale

    def locations(self) -> list[str]:
        return list(self._connection.scalars(sa.select(t.index_state.c.place).distinct()))

    def stale(self) -> list[str]:
        locations = sa.select(t.index_state.c.place).distinct()
        return list(self._connection.scalars(locations.where(t.index_state.c.stale)))

    def note(self, collection: str, location: str, watermark: int) -> None:
        """Record that a collection contains all changes up to the revision `watermark`.

        `collection`: the name of a vector index. `location`: where the index is stored.
        """
        values = {"place": location, "watermark": watermark}
        statement = self._transaction.upsert(t.index_state).values(collection=collection, **values)
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=["collection"], set_=values)
        )

    def mark_clean(self, collection: str) -> None:
        this_collection = t.index_state.c.collection == collection
        self._connection.execute(t.index_state.update().where(this_collection).values(stale=False))

    def mark_all_stale(self) -> None:
        self._connection.execute(t.index_state.update().values(stale=True))

    def start_all_again(self) -> None:
        """Record that every index must read all memories from the beginning.

        Call this after all vectors were replaced.
        """
        self._connection.execute(t.index_state.update().values(watermark=0, stale=True))

    def drop_others(self, location: str, collection: str) -> None:
        """Delete the records of all vector indexes at `location` except `collection`."""
        state = t.index_state.c
        gone = t.index_state.delete().where(state.place == location, state.collection != collection)
        self._connection.execute(gone)


# --- an inverted index of the words (terms) of live memories --------------------------------------

Ints = npt.NDArray[np.int64]
_HASH = 8
_BLOCK = 128
_MOST_OFTEN, _LONGEST = 2**8 - 1, 2**17 - 1
_READ_AT_ONCE = 50_000
"""The limit `_MOST_ENTRIES` applies only to searches over more memories than this."""
_MOST_ENTRIES = 150_000
"""The most entries that a search over more than `_READ_AT_ONCE` memories reads.

A term has one entry for each memory that contains the term. To keep the limit, the search leaves
out its most frequent terms. It always reads its rarest term, even if this term exceeds the limit.
"""

_OF = (among(t.postings.c.owner, "owners"), among(t.postings.c.term, "terms"))
_TOTAL = sa.select(t.term_totals).where(among(t.term_totals.c.owner, "owners"))
_READ = Prepared(sa.select(t.postings.c.term, t.postings.c.block, t.postings.c.entries).where(*_OF))
_IN_BLOCK = Prepared(
    sa.select(t.postings.c.term, t.postings.c.entries).where(
        t.postings.c.owner == sa.bindparam("of_owner"),
        t.postings.c.block == sa.bindparam("of_block"),
        among(t.postings.c.term, "terms"),
    )
)
TERM_STATES = Prepared(
    sa.select(
        *(t.memories.c[name] for name in ("seq", "live", "user", "content")),
        t.term_lists.c.owner,
        t.term_lists.c.terms,
    )
    .outerjoin(t.term_lists, t.term_lists.c.memory == t.memories.c.seq)
    .where(among(t.memories.c.id, "ids"))
)


_RANKED = (
    sa.select(
        *(t.memories.c[name] for name in ("seq", "id", "metadata")),
        t.vectors.c.vector,
        *(t.memories.c[name] for name in SCOPE_FIELDS),
    )
    .join(t.vectors, t.vectors.c.text_key == t.memories.c.text_key)
    .where(t.memories.c.live)
)


class RankedRow(NamedTuple):
    """A live memory that a search ranks.

    `number`: the memory's position in order of arrival. `values`: the values that decide its scope.
    """

    number: int
    id: str
    values: ScopeValues
    vector: Vector


class Postings(NamedTuple):
    """The live memories that contain terms of a query, with the numbers of occurrences.

    The arrays have shape (n,). Each i stands for one term in one memory: the term numbered
    `terms[i]` occurs `counts[i]` times in memory `numbers[i]`, which has `lengths[i]` terms in all.
    A memory's number is its position in order of arrival. Terms are numbered from 0 in any order.
    `memories`: the number of memories searched. `mean_length`: how many terms they have on average.
    """

    memories: int
    mean_length: float
    terms: Ints
    numbers: Ints
    counts: Ints
    lengths: Ints


class Terms(TableGroup):
    """The index of terms (words), and the live memories that a search ranks."""

    def postings(self, terms: Collection[str], user: str | None, *, everyone: bool) -> Postings:
        """Return which live memories of a user contain these terms, and how often.

        If `user` is None, memories without a user are searched. With `everyone`, all memories are
        searched, and `user` is ignored. If more than `_READ_AT_ONCE` memories are searched, the
        most frequent terms may be left out.
        """
        owners = [_hashed(user)]
        if everyone:
            owners = list(self._connection.scalars(sa.select(t.term_totals.c.owner)))
        totals = self._connection.execute(_TOTAL, {"owners": owners}).all()
        memories, length = sum(row.memories for row in totals), sum(row.terms for row in totals)
        if not memories or not terms:
            return Postings(memories, 0.0, *[np.empty(0, np.int64)] * 4)
        wanted = sorted({_hashed(term) for term in terms})
        if memories > _READ_AT_ONCE:
            wanted = self._rare(owners, wanted)
        term_of: dict[str, int] = {}
        found = _READ.run(self._connection, [{"owners": owners, "terms": wanted}])
        rows = found.fetchall()  # plain tuples: there may be very many blocks
        terms_of = [term_of.setdefault(row[0], len(term_of)) for row in rows]
        blocks, parts = [row[1] for row in rows], [row[2] for row in rows]
        entries = np.frombuffer(b"".join(parts), "<u4").astype(np.int64)
        sizes = [len(part) // 4 for part in parts]
        first = np.repeat(np.array(blocks, np.int64) * _BLOCK, sizes)
        return Postings(
            memories,
            length / memories,
            np.repeat(np.array(terms_of, np.int64), sizes),
            first + (entries >> 25),
            entries >> 17 & _MOST_OFTEN,
            entries & _LONGEST,
        )

    def _rare(self, owners: Sequence[str], terms: Sequence[str]) -> list[str]:
        """Return the rarest terms, which together have at most `_MOST_ENTRIES` entries.

        A term has one entry for each memory that contains the term. The rarest term is always
        returned, even if it exceeds the limit.
        """
        term = t.postings.c.term
        length = sa.func.sum(sa.func.length(t.postings.c.entries))
        query = sa.select(term, length).where(*_OF).group_by(term)
        sizes = self._connection.execute(query, {"owners": owners, "terms": terms})
        bytes_left, kept = 4 * _MOST_ENTRIES, list[str]()
        for term_hash, size in sorted(sizes, key=lambda row: int(row[1])):
            bytes_left -= int(size)
            if bytes_left < 0 and kept:
                break
            kept.append(term_hash)
        return kept

    def candidates(self, ids: Collection[str], numbers: Collection[int]) -> list[RankedRow]:
        """Return the live memories that have a vector and one of these ids or numbers.

        A number is a position in order of arrival.
        """
        found = list(self._connection.execute(_RANKED.where(among(t.memories.c.id, ids))))
        known = {row.seq for row in found}
        if others := [number for number in numbers if number not in known]:
            found += self._connection.execute(_RANKED.where(t.memories.c.seq.in_(others)))
        return list(map(_ranked_row, found))

    def sample(self, size: int, user: str | None, *, everyone: bool) -> list[RankedRow]:
        """Return up to `size` live memories that have a vector, in no particular order.

        `user` and `everyone`: as for `postings`.
        """
        query = _RANKED.limit(size)
        if not everyone:
            query = query.where(t.memories.c.user == user)
        return list(map(_ranked_row, self._connection.execute(query)))


def fill_terms(connection: sa.Connection) -> None:
    memories = sa.table("memories", *map(sa.column, ("seq", "live", "user", "content")))
    last = int(connection.scalar(sa.select(sa.func.max(memories.c.seq))) or 0)
    for start in range(0, last + 1, 16 * _BLOCK):
        block = sa.and_(memories.c.seq >= start, memories.c.seq < start + 16 * _BLOCK)
        rows = connection.execute(sa.select(memories).where(block, memories.c.live)).all()
        update_index(connection, ((*row, None, None) for row in rows))


TermsOf = Mapping[str, Sequence[str]]
"""The hashed terms of texts."""


def terms_of(texts: Iterable[str]) -> TermsOf:
    return {text: list(map(_hashed, search_terms(text))) for text in texts}


def update_index(
    connection: sa.Connection, states: Iterable[Sequence[Any]], read: TermsOf = MappingProxyType({})
) -> None:
    """Update the index of terms for memories, after all other writes of the transaction.

    Each of `states` holds six values about a memory. The first four are its number, whether it is
    live, its user and its text. The last two are what the index holds for the memory now: the
    hashed user, and the joined hashes of the terms. Both are None if the index lacks the memory.
    """
    old, new = list[_Listed](), list[_Listed]()
    for number, live, user, content, owner_before, before in states:
        terms = (read.get(content) or terms_of([content])[content]) if live else None
        owner = _hashed(user)
        joined = None if terms is None else "".join(terms)
        if (owner_before, before) == (owner, joined) or before is joined is None:
            continue
        if before is not None:
            known = [before[start : start + _HASH] for start in range(0, len(before), _HASH)]
            old.append((number, owner_before, known))
        if terms is not None:
            new.append((number, owner, terms))
    if old:
        _remove(connection, old)
    entries: dict[tuple[str, str, int], bytes] = defaultdict(bytes)
    for number, owner, terms in new:
        # 7 bits of position in the block, 8 of count, 17 of length
        rest = (number % _BLOCK) << 25 | min(len(terms), _LONGEST)
        for term, count in Counter(terms).items():
            entry = rest | min(count, _MOST_OFTEN) << 17
            entries[owner, term, number // _BLOCK] += entry.to_bytes(4, "little")
    _put(
        connection,
        "INSERT INTO postings VALUES (?, ?, ?, ?) ON CONFLICT (owner, term, block) "
        "DO UPDATE SET entries = CAST(postings.entries || excluded.entries AS BLOB)",
        [(*key, entries[key]) for key in sorted(entries)],
    )
    _put(
        connection,
        "INSERT INTO term_lists VALUES (?, ?, ?)",
        [(number, owner, "".join(terms)) for number, owner, terms in new],
    )
    _update_totals(connection, old, new)


_Listed = tuple[int, str, Sequence[str]]


def _update_totals(
    connection: sa.Connection, old: Sequence[_Listed], new: Sequence[_Listed]
) -> None:
    memories, found = Counter[str](), Counter[str]()
    for sign, changes in ((-1, old), (1, new)):
        for _, owner, terms in changes:
            memories[owner] += sign
            found[owner] += sign * len(terms)
    changed = sorted(owner for owner in memories if memories[owner] or found[owner])
    _put(
        connection,
        "INSERT INTO term_totals VALUES (?, ?, ?) ON CONFLICT (owner) DO UPDATE SET "
        "memories = term_totals.memories + excluded.memories, "
        "terms = term_totals.terms + excluded.terms",
        [(owner, memories[owner], found[owner]) for owner in changed],
    )
    if any(memories[owner] < 0 for owner in changed):
        connection.execute(t.term_totals.delete().where(t.term_totals.c.memories <= 0))


def _remove(connection: sa.Connection, old: Sequence[_Listed]) -> None:
    leaving: dict[tuple[str, int], dict[str, set[int]]] = {}
    for number, owner, terms in old:
        for term in terms:
            of_block = leaving.setdefault((owner, number // _BLOCK), {})
            of_block.setdefault(term, set()).add(number % _BLOCK)
    shorter, empty = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for (owner, block), of_terms in leaving.items():
        found = _IN_BLOCK.rows(connection, of_owner=owner, of_block=block, terms=of_terms)
        for term, entries in found:
            known = np.frombuffer(entries, "<u4")
            kept = known[~np.isin(known >> 25, list(of_terms[term]))]
            if len(kept):
                shorter.append((kept.tobytes(), owner, term, block))
            else:
                empty.append((owner, term, block))
    of_term = "WHERE owner = ? AND term = ? AND block = ?"
    _put(connection, f"UPDATE postings SET entries = ? {of_term}", shorter)  # noqa: S608
    _put(connection, f"DELETE FROM postings {of_term}", empty)  # noqa: S608
    _put(connection, "DELETE FROM term_lists WHERE memory = ?", [(number,) for number, _, _ in old])


def _put(connection: sa.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Execute a statement once for each tuple in `rows`, whose values replace the marks `?`.

    The driver is called directly to save time.
    """
    if rows:
        if connection.dialect.name == "postgresql":
            statement = statement.replace("?", "%s").replace("BLOB", "BYTEA")
        connection.exec_driver_sql(statement, list(rows))


def _ranked_row(row: Any) -> RankedRow:
    vector = np.frombuffer(row.vector, np.float32)
    return RankedRow(row.seq, row.id, scope_values_of(row.metadata, row[4:]), vector)


@lru_cache(maxsize=65_536)
def _hashed(word: str | None) -> str:
    if word is None:
        return ""
    return b64encode(blake2b(word.encode(), digest_size=6).digest()).decode()
