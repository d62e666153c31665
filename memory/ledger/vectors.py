"""Vectors by text key. Memories with the same text share a vector, which is computed once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.statements import Prepared, TableGroup, among
from memory.models import Vector, Vectors

_PAGE = 500
_MANY = 4
"""If more than one in four memories' vectors is wanted, all vectors are read, which is faster."""
_OF_KEYS = Prepared(sa.select(t.vectors).where(among(t.vectors.c.text_key, "keys")))
_KNOWN = Prepared(sa.select(t.vectors.c.text_key).where(among(t.vectors.c.text_key, "keys")))
_HOLDERS = Prepared(
    sa.select(t.memories.c.id).where(
        among(t.memories.c.text_key, "keys"), t.memories.c.revision + 0 < sa.bindparam("revision")
    )
)
"""Memories with one of these text keys that this transaction has not written yet.

`+ 0` makes SQLite use the index of text keys instead of the index of revisions.
"""
_EVERY = Prepared(sa.select(t.vectors))
_INSERT = Prepared(t.vectors.insert())


class VectorTable(Mapping[str, Vector]):
    """A read-only mapping from text key to vector; all vectors are rows of one array (n, dim)."""

    def __init__(self, keys: Sequence[str], matrix: Vectors) -> None:
        """`matrix` has shape (m, dim), m >= len(keys): row i is the vector of `keys[i]`."""
        self._position = {key: n for n, key in enumerate(keys)}
        self.matrix = matrix

    def positions(self, keys: Iterable[str]) -> npt.NDArray[np.int64]:
        """Return, for each key, the number of its row in `matrix`, as an array of shape (n,).

        Raises: KeyError if a key is not in the table.
        """
        return np.fromiter((self._position[key] for key in keys), np.int64)

    def of(self, keys: Sequence[str]) -> Vectors:
        """Return the vectors of these keys, shape (n, dim): a view if their rows are adjacent."""
        found = self.positions(keys)
        if len(found) and np.array_equal(found, np.arange(found[0], found[0] + len(found))):
            return self.matrix[found[0] : found[0] + len(found)]
        return self.matrix[found]

    def __getitem__(self, key: str) -> Vector:
        vector: Vector = self.matrix[self._position[key]]
        return vector

    def __contains__(self, key: object) -> bool:
        return key in self._position

    def __iter__(self) -> Iterator[str]:
        return iter(self._position)

    def __len__(self) -> int:
        return len(self._position)


class TextVectors(TableGroup):
    """Read access to the vectors of texts."""

    def table(self, keys: Iterable[str], known: VectorTable | None = None) -> VectorTable:
        """Return a table of the vectors in `known` and the stored vectors of these text keys.

        Keys without a stored vector are left out. `known` itself does not change.
        """
        known = known or VectorTable((), np.empty((0, self.dim() or 0), np.float32))
        wanted = sorted({key for key in keys if key not in known})
        matrix = np.empty((len(known) + len(wanted), known.matrix.shape[1]), np.float32)
        matrix[: len(known)] = known.matrix[: len(known)]
        found = list(known)
        for start in range(0, len(wanted), _PAGE):
            some = wanted[start : start + _PAGE]
            for key, vector in sorted(_OF_KEYS.rows(self._connection, keys=some)):
                matrix[len(found)] = np.frombuffer(vector, dtype=np.float32)
                found.append(key)
        return VectorTable(found, matrix)

    def of(self, keys: Iterable[str]) -> dict[str, Vector]:
        """Return the vectors of these text keys, by key; unknown keys are left out."""
        wanted = set(keys)
        rows = _OF_KEYS.rows(self._connection, keys=wanted) if wanted else ()
        return {key: np.frombuffer(vector, dtype=np.float32) for key, vector in rows}

    def fill(self, matrix: Vectors, keys: Sequence[str]) -> list[int]:
        """Read the vectors of these text keys into the first rows of `matrix`, in the given order.

        Return the numbers of the rows whose key has no stored vector.

        Raises: ValueError if a vector's length is not that of the matrix's rows.
        """
        rows = {key: row for row, key in enumerate(keys)}
        is_known = np.zeros(len(keys), np.bool_)
        for page in self._pages_of(rows):
            found = [(rows[key], vector) for key, vector in page if key in rows]
            if found:
                positions = [row for row, _ in found]
                matrix[positions] = _matrix([vector for _, vector in found], matrix.shape[1])
                is_known[positions] = True
        if len(rows) < len(keys):  # a text that several have
            for row, key in enumerate(keys):
                matrix[row], is_known[row] = matrix[rows[key]], is_known[rows[key]]
        missing: list[int] = np.flatnonzero(~is_known).tolist()
        return missing

    def _pages_of(self, keys: Collection[str]) -> Iterator[Sequence[Any]]:
        """Yield lists of pairs (text key, vector), for all of these keys that have a vector.

        If there are many keys, all stored vectors are yielded, since reading them is faster.
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
        """Return the texts that have no vector. Of several texts with the same key, return one."""
        query = (
            sa.select(sa.func.min(t.memories.c.content))
            .outerjoin(t.vectors, t.vectors.c.text_key == t.memories.c.text_key)
            .where(t.vectors.c.text_key.is_(None), t.memories.c.text_key != t.FORGOTTEN_KEY)
            .group_by(t.memories.c.text_key)
        )
        return list(self._connection.scalars(query))

    def dim(self) -> int | None:
        """Return the dimension of the stored vectors; None if there are none."""
        one = self._connection.scalar(sa.select(sa.func.length(t.vectors.c.vector)).limit(1))
        return None if one is None else int(one) // np.dtype(np.float32).itemsize

    def byte_lengths(self) -> dict[int, int]:
        """Map lengths in bytes to numbers of vectors. All vectors should have the same length."""
        size = sa.func.length(t.vectors.c.vector)
        return self._transaction.counted(sa.select(size, sa.func.count()).group_by(size))


class TextVectorsWriter(TextVectors):
    """Write access to the vectors of texts."""

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
        """Delete the vectors of the keys in `keys` that no memory has; return these unused keys."""
        used = sa.select(t.memories.c.text_key).where(among(t.memories.c.text_key, keys))
        unused = set(keys) - set(self._connection.scalars(used))
        self._connection.execute(t.vectors.delete().where(among(t.vectors.c.text_key, unused)))
        return unused


def _matrix(vectors: Sequence[bytes], dim: int) -> Vectors:
    """Convert n vectors from binary form (float32) into an array of shape (n, dim).

    Raises: ValueError if a vector has another length than `dim`.
    """
    if any(len(vector) != 4 * dim for vector in vectors):
        raise ValueError("vectors of different lengths")
    return np.frombuffer(b"".join(vectors), np.float32).reshape(len(vectors), dim)
