"""Memories as the ledger holds them: rows, vectors by text key, and all of one revision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt

from memory.models.memory import Memory
from memory.models.values import Vector, Vectors

TextPair = tuple[str, str, str]
"""The key of a scope, and the `dated_key` of two texts in sorted order."""
ScopedText = tuple[str, str]
"""The key of a scope and the `dated_key` of a text."""


class VectorTable(Mapping[str, Vector]):
    """A read-only mapping from text key to vector; the vectors are rows of one array.

    >>> table = VectorTable(["a", "b"], np.array([[1, 0], [0, 1]], np.float32))
    >>> table.positions(["b"]), table["a"]
    (array([1]), array([1., 0.], dtype=float32))
    """

    def __init__(self, keys: Sequence[str], matrix: Vectors) -> None:
        """`matrix` has shape (m, dim), m >= len(keys): row i is the vector of `keys[i]`."""
        self._position = {key: n for n, key in enumerate(keys)}
        self.matrix = matrix

    def positions(self, keys: Iterable[str]) -> npt.NDArray[np.int64]:
        """Return the number of each key's row in `matrix`, shape (n,). Raises: KeyError."""
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


@dataclass(frozen=True)
class Row:
    """A memory as stored. `seq` numbers the rows in order of arrival.

    `text_key`: a key made from the text alone; "" if the memory was forgotten. `dated_key`: the key
    of the text and of the dates that it means, under which verdicts are stored. `identity_hash`: a
    hash that recognises the memory if it arrives again. `revision`: the number of the transaction
    that wrote the row last. `until`: when what a superseded memory states ceased to hold; None for
    all others. Its successor supersedes it.

    >>> outcome = memories.remember("Ivo rows.", user="Ivo")
    >>> [row] = [row for row in store.snapshot().rows if row.memory.user == "Ivo"]
    >>> row.live, row.successor_id, row.forgotten
    (True, None, False)
    """

    memory: Memory
    live: bool
    successor_id: str | None
    text_key: str
    dated_key: str
    identity_hash: str
    seq: int
    revision: int
    until: datetime | None = None

    @property
    def forgotten(self) -> bool:
        return not self.text_key


@dataclass(frozen=True)
class Snapshot:
    """All live memories at one revision, oldest first, with the verdicts on their texts.

    - `ancestors`: maps a memory's id to the text keys of the memories that were merged into it,
      directly or in several steps. If the snapshot was taken with `whole_lineage`, and the memory
      has replaced others, its id is mapped to the text keys of all these retired memories instead.
    - `judged`: pairs of texts that a judge called distinct before the snapshot was taken.
    - `distinct`: pairs that the model is not asked about. These are the pairs in `judged`, and the
      pairs that the model failed to judge recently or too often.
    - `waiting`: the number of pairs that the model failed to judge recently or too often.
    - `kept_apart`: pairs that a person keeps as two memories.
    - `stands_for`: maps a memory's id to the `dated_key` of all retired memories that it has
      replaced, directly or in several steps. It is empty if `kept_apart` is empty.
    - `read`: texts that the model has already read on a page, a question about many memories.

    >>> outcome = memories.remember("Uma rows.", user="Uma")
    >>> snapshot = store.snapshot()
    >>> outcome.memory.id in {row.memory.id for row in snapshot.rows}, snapshot.waiting
    (True, 0)
    """

    rows: tuple[Row, ...]
    vectors: VectorTable
    ancestors: Mapping[str, tuple[str, ...]]
    distinct: frozenset[TextPair]
    revision: int
    waiting: int = 0
    judged: frozenset[TextPair] = frozenset()
    kept_apart: frozenset[TextPair] = frozenset()
    stands_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    read: frozenset[ScopedText] = frozenset()
