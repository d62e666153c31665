"""An inverted index of the words (terms) of live memories, for ranking memories by words.

Users and terms are stored as hashes, so that the index contains no readable word. `owner` is the
hash of a user. The memories that contain a term are stored in blocks of 128, by their number, which
is their order of arrival. An entry in a block holds the memory's position in the block, how often
it contains the term, and how many terms it has in total.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.records import ScopeValues
from memory.ledger.statements import Prepared, TableGroup, among
from memory.models import SCOPE_FIELDS, Vector
from memory.text import search_terms

Ints = npt.NDArray[np.int64]
_HASH = 8
"""Length of a hash, in characters."""
_BLOCK = 128
_MOST_OFTEN, _LONGEST = 2**8 - 1, 2**17 - 1
_READ_AT_ONCE = 50_000
"""If a search covers at most this many memories, it reads all entries of its terms.

For more memories, it first counts the entries, to leave out terms that are too frequent.
"""
_MOST_ENTRIES = 150_000
"""The most entries to read for one query. If it has more, its most frequent terms are left out."""

_TOTAL = sa.select(t.term_totals).where(among(t.term_totals.c.owner, "owners"))
_OF = (among(t.postings.c.owner, "owners"), among(t.postings.c.term, "terms"))
_SIZES = (
    sa.select(t.postings.c.term, sa.func.sum(sa.func.length(t.postings.c.entries)))
    .where(*_OF)
    .group_by(t.postings.c.term)
)
_READ = Prepared(sa.select(t.postings.c.term, t.postings.c.block, t.postings.c.entries).where(*_OF))
_STATES = Prepared(
    sa.select(
        *(t.memories.c[name] for name in ("seq", "live", "user", "content")),
        t.term_lists.c.owner,
        t.term_lists.c.terms,
    )
    .outerjoin(t.term_lists, t.term_lists.c.memory == t.memories.c.seq)
    .where(among(t.memories.c.id, "ids"))
)


_LIVE = (
    sa.select(
        *(t.memories.c[name] for name in ("seq", "id", "metadata")),
        t.vectors.c.vector,
        *(t.memories.c[name] for name in SCOPE_FIELDS),
    )
    .join(t.vectors, t.vectors.c.text_key == t.memories.c.text_key)
    .where(t.memories.c.live)
)


class RankedRow(NamedTuple):
    """A live memory with the values that ranking needs.

    `number` is its position in the order in which memories arrived.
    """

    number: int
    id: str
    values: ScopeValues
    """The values from which the memory's scope is made, by field name."""
    vector: Vector


class Postings(NamedTuple):
    """Which live memories, of one or more users, contain the terms (words) of a query.

    There are n entries; each says that one memory contains one term. Each array has shape (n,) and
    holds one value for each entry.
    """

    memories: int
    """The number of live memories of these users."""
    mean_length: float
    """The mean number of terms in one of these memories."""
    terms: Ints
    """A number for the entry's term, equal for all entries of the same term.

    The terms that occur are numbered from 0, in any order.
    """
    numbers: Ints
    """The number of the entry's memory, in the order in which memories arrived."""
    counts: Ints
    """How often the entry's memory contains the term."""
    lengths: Ints
    """How many terms the entry's memory has in total."""


class Terms(TableGroup):
    """Read access to the index of terms (words), and to the live memories that a search ranks."""

    def postings(self, terms: Collection[str], user: str | None, *, everyone: bool) -> Postings:
        """Return which live memories of a user contain these terms, and how often.

        `user` None means memories without a user; with `everyone`, the memories of all users are
        included instead. If there are very many memories, the most frequent terms are left out.
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
        """Return the rarest terms: as many as have at most `_MOST_ENTRIES` entries together.

        At least one term is returned if any of them occurs. `owners` and `terms` are hashes: of the
        users whose memories are searched, and of the terms.
        """
        sizes = self._connection.execute(_SIZES, {"owners": owners, "terms": terms})
        bytes_left, kept = 4 * _MOST_ENTRIES, list[str]()
        for term, size in sorted(sizes, key=lambda row: int(row[1])):
            bytes_left -= int(size)
            if bytes_left < 0 and kept:
                break
            kept.append(term)
        return kept

    def candidates(self, ids: Collection[str], numbers: Collection[int]) -> list[RankedRow]:
        """Return the live memories that have a vector and one of these ids or numbers.

        A memory's number is its position in the order in which memories arrived.
        """
        found = list(self._connection.execute(_LIVE.where(among(t.memories.c.id, ids))))
        known = {row.seq for row in found}
        if others := [number for number in numbers if number not in known]:
            found += self._connection.execute(_LIVE.where(t.memories.c.seq.in_(others)))
        return list(map(_ranked_row, found))

    def sample(self, size: int, user: str | None, *, everyone: bool) -> list[RankedRow]:
        """Return up to `size` live memories that have a vector, in no particular order.

        They belong to `user` (None: to no user), or with `everyone` to any user.
        """
        query = _LIVE.limit(size)
        if not everyone:
            query = query.where(t.memories.c.user == user)
        return list(map(_ranked_row, self._connection.execute(query)))


class TermsWriter(Terms):
    def follow(self, ids: Collection[str]) -> None:
        """Update the index of terms for the memories that this transaction wrote.

        `ids`: these memories. Call it after all other writes of the transaction.
        """
        if ids:
            _take_in(self._connection, _STATES.rows(self._connection, ids=ids))


def fill_terms(connection: sa.Connection) -> None:
    """Add the terms of all live memories to a ledger whose index of terms is empty."""
    memories = sa.table("memories", *map(sa.column, ("seq", "live", "user", "content")))
    last = -1
    end = int(connection.scalar(sa.select(sa.func.max(memories.c.seq))) or 0)
    while last < end:
        block = sa.and_(memories.c.seq > last, memories.c.seq <= last + 16 * _BLOCK)
        rows = connection.execute(sa.select(memories).where(block, memories.c.live)).all()
        _take_in(connection, ((*row, None, None) for row in rows))
        last += 16 * _BLOCK


def _take_in(connection: sa.Connection, states: Iterable[Sequence[Any]]) -> None:
    """Update the index of terms for the memories in `states`.

    Each state has six values. The first four describe the memory: its number, whether it is live,
    its user and its text. The last two are what the index holds for the memory now: the owner (the
    hash of the user), and the hashes of the terms as one string. Both are None if it holds nothing.
    """
    old, new = list[_Listed](), list[_Listed]()
    for number, live, user, content, owner_before, before in states:
        owner, terms = _hashed(user), list(map(_hashed, search_terms(content))) if live else None
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
    _put(connection, _APPEND, [(*key, entries[key]) for key in sorted(entries)])
    _put(connection, _NOTE, [(number, owner, "".join(terms)) for number, owner, terms in new])
    _count(connection, old, new)


_Listed = tuple[int, str, list[str]]
"""A memory in the index of terms: its number, its owner, and the hashes of its terms.

If a term occurs several times, its hash does too. A table stores the hashes as one string.
"""


def _count(connection: sa.Connection, old: Sequence[_Listed], new: Sequence[_Listed]) -> None:
    """Update the totals of each owner in the index: the numbers of memories and of their terms.

    `old`: the memories that are removed from the index. `new`: the memories that are added. An
    owner is the hash of a user.
    """
    memories, found = Counter[str](), Counter[str]()
    for sign, changes in ((-1, old), (1, new)):
        for _, owner, terms in changes:
            memories[owner] += sign
            found[owner] += sign * len(terms)
    changed = sorted(owner for owner in memories if memories[owner] or found[owner])
    _put(connection, _ADD, [(owner, memories[owner], found[owner]) for owner in changed])
    if any(memories[owner] < 0 for owner in changed):
        connection.execute(t.term_totals.delete().where(t.term_totals.c.memories <= 0))


def _remove(connection: sa.Connection, old: Sequence[_Listed]) -> None:
    leaving: dict[tuple[str, int], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for number, owner, terms in old:
        for term in terms:
            leaving[owner, number // _BLOCK][term].add(number % _BLOCK)
    table = t.postings
    shorter, empty = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
    for (owner, block), of_terms in leaving.items():
        in_block = sa.and_(table.c.owner == owner, table.c.block == block)
        query = sa.select(table.c.term, table.c.entries).where(
            in_block, among(table.c.term, list(of_terms))
        )
        for term, entries in connection.execute(query).all():
            known = np.frombuffer(entries, "<u4")
            kept = known[~np.isin(known >> 25, list(of_terms[term]))]
            if len(kept):
                shorter.append((kept.tobytes(), owner, term, block))
            else:
                empty.append((owner, term, block))
    _put(connection, _SHORTEN, shorter)
    _put(connection, _DROP, empty)
    _put(connection, "DELETE FROM term_lists WHERE memory = ?", [(number,) for number, _, _ in old])


def _put(connection: sa.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Execute a statement once for each row, directly through the database's driver.

    `statement` has the placeholder `?` for each value. The driver is called directly to save time,
    since a memory has about ten rows.
    """
    if rows:
        if connection.dialect.name == "postgresql":
            statement = statement.replace("?", "%s").replace("BLOB", "BYTEA")
        connection.exec_driver_sql(statement, list(rows))


_SHORTEN = "UPDATE postings SET entries = ? WHERE owner = ? AND term = ? AND block = ?"
_DROP = "DELETE FROM postings WHERE owner = ? AND term = ? AND block = ?"
_APPEND = (
    "INSERT INTO postings VALUES (?, ?, ?, ?) ON CONFLICT (owner, term, block) "
    "DO UPDATE SET entries = CAST(postings.entries || excluded.entries AS BLOB)"
)
_NOTE = "INSERT INTO term_lists VALUES (?, ?, ?)"
_ADD = (
    "INSERT INTO term_totals VALUES (?, ?, ?) ON CONFLICT (owner) DO UPDATE SET "
    "memories = term_totals.memories + excluded.memories, "
    "terms = term_totals.terms + excluded.terms"
)


def _ranked_row(row: Any) -> RankedRow:
    vector = np.frombuffer(row.vector, np.float32)
    return RankedRow(row.seq, row.id, t.scope_values_of(row.metadata, row[4:]), vector)


@lru_cache(maxsize=65_536)
def _hashed(word: str | None) -> str:
    """Return a hash of 8 characters for a term or a user, so that the index reveals neither.

    No user, None, has the hash "".
    """
    if word is None:
        return ""
    return b64encode(blake2b(word.encode(), digest_size=6).digest()).decode()
