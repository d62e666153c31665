"""Interfaces: the clock, the embedder, the language model and the vector index."""

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
    """The current time."""

    def __call__(self) -> datetime:
        """Return the current time, aware, in UTC."""


class Embedder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def fingerprint(self) -> str:
        """Return name, dimension and normalisation, without loading the model.

        Vectors of different fingerprints are not comparable.
        """

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one float32 unit vector per normalised text, shape `(len(texts), dim)`.

        Raises: EmbeddingError.
        """


class LanguageModel(Protocol):
    """Judges, checks, extracts and replies."""

    @property
    def name(self) -> str:
        """Return the name that is recorded with each decision."""

    @property
    def page_size(self) -> int:
        """Return how many memories one question may show.

        0: the model reads neither pages nor merged texts. A question shows it at most eight
        memories, and `reread` is never called.
        """

    async def judge(self, question: Question) -> Verdict:
        """Group the members that tell the same fact, with one text for each group.

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
        """Return what the bot says after these turns, given what it remembers.

        Raises: ModelError, with the reason.
        """

    async def aclose(self) -> None:
        """Close connections. May be called twice."""


class Query(NamedTuple):
    """A search for the live memories of a scope that are most similar to a vector."""

    vector: Vector
    scope: Scope
    k: int
    """The most results."""
    min_cosine: float = -1.0
    """Results with a lower cosine may be left out."""


class VectorIndex(Protocol):
    """An approximate index of vectors by id, for users whose vectors do not fit into memory.

    It gets no text. The store keeps it up to date with the ledger, computes the similarity of its
    results from the ledger's vectors, and can fill it again at any time. One thread calls it at a
    time. Each method raises IndexFault if it fails; the store then searches without it.
    """

    @property
    def name(self) -> str:
        """Return the name that people are shown."""

    @property
    def place(self) -> str:
        """Return where it is stored: the same text each time that it is opened there."""

    @property
    def id(self) -> str:
        """Identify its present content: another text after `clear`; "" if it does not exist."""

    @property
    def shared(self) -> bool:
        """Whether several processes use it at once.

        Forgotten vectors are removed from a shared index. The index of a single process is cleared
        instead, so that its files do not keep them.
        """

    def put(self, ids: Sequence[str], vectors: Vectors) -> None:
        """Store unit vectors (n, dim) under these ids, replacing earlier ones."""

    def remove(self, ids: Sequence[str]) -> None:
        """Delete vectors; ignore unknown ids."""

    def nearest(self, vector: Vector, k: int) -> Sequence[tuple[str, float]]:
        """Return the ids of about the k nearest with their cosines, nearest first."""

    def pages(self) -> Iterator[tuple[Sequence[str], Vectors]]:
        """Yield all ids and vectors, in batches."""

    def clear(self) -> None:
        """Delete everything, also on disk; later vectors may have another dimension."""

    def close(self) -> None:
        """Close the index; its files are then complete. May be called twice."""
