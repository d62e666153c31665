"""Vectors by the key of their text, so that no text is embedded twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from memory.ledger import tables as t
from memory.ledger.transaction import TableGroup, among
from memory.models import Vector, Vectors

_PAGE = 500
_IN_PAGES = {"yield_per": 5_000}
_MANY = 4
"""From the share of one in so many on, all are read: it costs less than to look each up."""
_OF_KEYS = sa.select(t.vectors).where(among(t.vectors.c.text_key, "keys"))
_KNOWN = sa.select(t.vectors.c.text_key).where(among(t.vectors.c.text_key, "keys"))
_HOLDERS = sa.select(t.memories.c.id).where(
    among(t.memories.c.text_key, "keys"), t.memories.c.revision + 0 < sa.bindparam("revision")
)
"""+ 0: few have the text and nearly all came before, whatever a database thinks it knows."""


class VectorTable(Mapping[str, Vector]):
    """Vectors by text key, all in one array (n, dim)."""

    def __init__(self, keys: Sequence[str], matrix: Vectors) -> None:
        """The rows of the matrix are those of the keys; what it has besides does not count."""
        self._place = {key: n for n, key in enumerate(keys)}
        self.matrix = matrix

    def places(self, keys: Iterable[str]) -> npt.NDArray[np.int64]:
        """The rows of these keys, all of which are known."""
        return np.fromiter((self._place[key] for key in keys), np.int64)

    def of(self, keys: Sequence[str]) -> Vectors:
        """The vectors of these keys (n, dim); no copy where they lie side by side."""
        places = self.places(keys)
        if len(places) and np.array_equal(places, np.arange(places[0], places[0] + len(places))):
            return self.matrix[places[0] : places[0] + len(places)]
        return self.matrix[places]

    def __getitem__(self, key: str) -> Vector:
        vector: Vector = self.matrix[self._place[key]]
        return vector

    def __contains__(self, key: object) -> bool:
        return key in self._place

    def __iter__(self) -> Iterator[str]:
        return iter(self._place)

    def __len__(self) -> int:
        return len(self._place)


class TextVectors(TableGroup):
    """What has been embedded."""

    def table(self, keys: Iterable[str], known: VectorTable | None = None) -> VectorTable:
        """All of `known`, and the vectors of these keys, read straight into one array."""
        known = known or VectorTable((), np.empty((0, self.dim() or 0), np.float32))
        wanted = sorted({key for key in keys if key not in known})
        matrix = np.empty((len(known) + len(wanted), known.matrix.shape[1]), np.float32)
        matrix[: len(known)] = known.matrix[: len(known)]
        found = list(known)
        for start in range(0, len(wanted), _PAGE):
            some = wanted[start : start + _PAGE]
            for key, vector in sorted(self._connection.execute(_OF_KEYS, {"keys": some})):
                matrix[len(found)] = np.frombuffer(vector, dtype=np.float32)
                found.append(key)
        return VectorTable(found, matrix)

    def of(self, keys: Iterable[str]) -> dict[str, Vector]:
        """Known vectors by text key; unknown ones are left out."""
        wanted = set(keys)
        rows = self._connection.execute(_OF_KEYS, {"keys": wanted}) if wanted else ()
        return {key: np.frombuffer(vector, dtype=np.float32) for key, vector in rows}

    def fill(self, matrix: Vectors, keys: Sequence[str]) -> list[int]:
        """Read the vectors of these keys into the first rows; gives the rows that have none.

        Raises: ValueError where one has another length than the matrix's rows.
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
        """Where many are wanted, all in the order in which they lie on the disk."""
        if len(keys) > _PAGE:
            last = self._connection.scalar(sa.select(sa.func.max(t.memories.c.seq))) or 0
            if _MANY * len(keys) > last:
                every = self._connection.execute(sa.select(t.vectors), execution_options=_IN_PAGES)
                yield from every.partitions()
                return
        wanted = list(keys)
        for start in range(0, len(wanted), _PAGE):
            keys_of_page = {"keys": wanted[start : start + _PAGE]}
            yield self._connection.execute(_OF_KEYS, keys_of_page).all()

    def missing_texts(self) -> list[str]:
        """One text for each key that no vector is known for."""
        query = (
            sa.select(sa.func.min(t.memories.c.content))
            .outerjoin(t.vectors, t.vectors.c.text_key == t.memories.c.text_key)
            .where(t.vectors.c.text_key.is_(None), t.memories.c.text_key != t.FORGOTTEN_KEY)
            .group_by(t.memories.c.text_key)
        )
        return list(self._connection.scalars(query))

    def dim(self) -> int | None:
        """Of the vectors here; None where there are none."""
        one = self._connection.scalar(sa.select(sa.func.length(t.vectors.c.vector)).limit(1))
        return None if one is None else int(one) // np.dtype(np.float32).itemsize

    def byte_lengths(self) -> dict[int, int]:
        """How many vectors there are of each length in bytes."""
        size = sa.func.length(t.vectors.c.vector)
        return self._transaction.counted(sa.select(size, sa.func.count()).group_by(size))


class TextVectorsWriter(TextVectors):
    """Vectors, to be remembered and dropped."""

    def put(self, vectors: Mapping[str, Vector]) -> None:
        """Remember vectors by text key; known ones stay. Whoever follows reads their rows again."""
        known = set(self._connection.scalars(_KNOWN, {"keys": vectors}))
        fresh = [key for key in vectors if key not in known]
        if not fresh:
            return
        rows = [{"text_key": key, "vector": _blob(vectors[key])} for key in fresh]
        self._connection.execute(t.vectors.insert(), rows)
        revision = self._transaction.revision
        holders = self._connection.scalars(_HOLDERS, {"keys": fresh, "revision": revision})
        self._transaction.touched |= set(holders)

    def replace_all(self, vectors: Mapping[str, Vector]) -> None:
        """Another embedder's in place of all there are, of the texts that a memory still has.

        Every memory counts as written.
        """
        held = set(self._connection.scalars(sa.select(t.memories.c.text_key)))
        rows = [
            {"text_key": key, "vector": _blob(vectors[key])} for key in sorted(held & {*vectors})
        ]
        self._connection.execute(t.vectors.delete())
        if rows:
            self._connection.execute(t.vectors.insert(), rows)
        revision = self._transaction.revision
        self._connection.execute(t.memories.update().values(revision=revision))
        self._transaction.numbered = True

    def drop_unused(self, keys: Collection[str]) -> set[str]:
        """Forget those of texts that no memory has any more; gives their keys."""
        used = sa.select(t.memories.c.text_key).where(among(t.memories.c.text_key, keys))
        unused = set(keys) - set(self._connection.scalars(used))
        self._connection.execute(t.vectors.delete().where(among(t.vectors.c.text_key, unused)))
        return unused


def _matrix(vectors: Sequence[bytes], dim: int) -> Vectors:
    """Raises: ValueError where one has another length."""
    if any(len(vector) != 4 * dim for vector in vectors):
        raise ValueError("vectors of different lengths")
    return np.frombuffer(b"".join(vectors), np.float32).reshape(len(vectors), dim)


def _blob(vector: Vector) -> bytes:
    return np.ascontiguousarray(vector, dtype=np.float32).tobytes()
