"""An inverted index of the words (terms) of live memories, for ranking memories by words.

It stores users and terms as hashes, and so contains no readable word. For each term, it lists the
memories that contain the term, in blocks of 128 by order of arrival. An entry is one memory in this
list. It has 32 bits: 7 for the memory's position in the block, 8 for how often the memory contains
the term, and 17 for the memory's number of terms.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.tables import Prepared, ScopeValues, TableGroup, among, scope_values_of
from memory.models import SCOPE_FIELDS, Vector
from memory.text import search_terms

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
        found = list(self._connection.execute(_LIVE.where(among(t.memories.c.id, ids))))
        known = {row.seq for row in found}
        if others := [number for number in numbers if number not in known]:
            found += self._connection.execute(_LIVE.where(t.memories.c.seq.in_(others)))
        return list(map(_ranked_row, found))

    def sample(self, size: int, user: str | None, *, everyone: bool) -> list[RankedRow]:
        """Return up to `size` live memories that have a vector, in no particular order.

        `user` and `everyone`: as for `postings`.
        """
        query = _LIVE.limit(size)
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
