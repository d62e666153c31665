"""What the parts promise each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from memory.models import (
    Extraction,
    Memory,
    ProposedMerge,
    Question,
    Reply,
    Rereading,
    Scope,
    Turn,
    Vector,
    Vectors,
    Verdict,
)


class Clock(Protocol):
    """The time, behind a seam."""

    def __call__(self) -> datetime:
        """Now, aware, in UTC."""


class Embedder(Protocol):
    """Text to unit vectors."""

    @property
    def fingerprint(self) -> str:
        """Name, dimension and normalisation: vectors of another fingerprint are not comparable.

        Known without loading anything.
        """

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One float32 unit vector per normalised text, shape `(len(texts), dim)`.

        Raises: EmbeddingError.
        """


class LanguageModel(Protocol):
    """What only a model can do."""

    @property
    def name(self) -> str:
        """As it is recorded with each decision."""

    @property
    def page_size(self) -> int:
        """Memories that one question may show it.

        0: it reads neither pages nor merged texts. One question shows it at most eight memories,
        and `reread` is never called.
        """

    async def judge(self, question: Question) -> Verdict:
        """Which of the members tell the same fact, and in what one text.

        Raises: ModelError, with the reason.
        """

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        """List what each merged text loses and adds; at most 16 merges.

        All are of one scope, or of those who speak in one extraction.

        Raises: ModelError, with the reason.
        """

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        """Find what is worth remembering in these turns, oldest first; the bot's give context only.

        `context` was said just before and is extracted already; `remembered` is known already. A
        candidate may name, by position, remembered memories of its own user that it repeats,
        updates or extends, with one text for all.

        Raises: ModelError, with the reason.
        """

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        """What the bot says after these turns, given what it remembers.

        Raises: ModelError, with the reason.
        """

    async def aclose(self) -> None:
        """Let go of connections. May be called twice."""


class Query(NamedTuple):
    """Which live memories are looked for: those of the scope that are most like a vector."""

    vector: Vector
    scope: Scope
    k: int
    """How many at most."""
    min_cosine: float = -1.0
    """Those less alike may be left out."""


class VectorIndex(Protocol):
    """An approximate index of vectors by id, for users whose vectors do not fit into memory.

    It is told no text. The store keeps it up with the ledger, compares what it names with the
    ledger's vectors, and can fill it again at any time. It is called by one thread at a time; each
    method raises IndexFault where it fails, and then all is searched without it.
    """

    @property
    def name(self) -> str:
        """As people are shown it."""

    @property
    def place(self) -> str:
        """Where it is: the same text each time it is opened there."""

    @property
    def id(self) -> str:
        """Which making of it this is: another text once it was cleared; "" where there is none."""

    @property
    def shared(self) -> bool:
        """Whether several processes use it at once.

        Of one that is shared, forgotten vectors are removed. One of a single process is cleared
        instead, so that no file of its own keeps them.
        """

    def put(self, ids: Sequence[str], vectors: Vectors) -> None:
        """Store unit vectors (n, dim) under these ids, in place of those that have the ids now."""

    def remove(self, ids: Sequence[str]) -> None:
        """Delete vectors; ids that are not there are ignored."""

    def nearest(self, vector: Vector, k: int) -> Sequence[tuple[str, float]]:
        """The ids of about the k nearest with their cosines, nearest first."""

    def pages(self) -> Iterator[tuple[Sequence[str], Vectors]]:
        """All ids and vectors, some at a time."""

    def clear(self) -> None:
        """Hold nothing any more, also on disk; vectors of any dimension may follow."""

    def close(self) -> None:
        """Leave what is on disk complete. May be called twice."""
