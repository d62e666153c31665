"""The interfaces that the program depends on: clock, embedder, language model and vector index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

Clock = Callable[[], datetime]
"""A function that returns the current time in UTC, with its time zone set."""


class Embedder(Protocol):
    """A model that turns texts into unit vectors, which are compared by cosine."""

    @property
    def fingerprint(self) -> str:
        """Return a text that identifies the embedder: model name, dimension and normalisation.

        This must not load the model. Vectors with different fingerprints cannot be compared.
        """

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one float32 unit vector per text, in the given order, as shape (len(texts), dim).

        The caller has normalised the texts already.

        Raises: EmbeddingError.
        """


class LanguageModel(Protocol):
    """A model that judges near-copies, checks merged texts, extracts memories and replies.

    Its methods raise ModelError, which names the reason.
    """

    @property
    def name(self) -> str:
        """Return the model's name, which is recorded with each decision."""

    @property
    def page_size(self) -> int:
        """Return how many memories a page (a question about many memories) may show this model.

        0 means that the model reads no pages. Each question then contains at most eight memories,
        and `reread` is never called.
        """

    async def judge(self, question: Question) -> Verdict:
        """Return groups of memories that state the same fact, with one text for each group."""

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        """Return what the text of each merge leaves out and adds, in the order of `merges`.

        `merges` has at most 16 items. In a batch, all memories of these merges belong to one scope.
        In an extraction, they belong to people who speak in the extracted turns.
        """

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        """Return the facts in `turns` that are worth remembering; turns are ordered oldest first.

        No facts are taken from the bot's own turns. `context`: turns said just before, whose facts
        are extracted already. `remembered`: stored memories that may concern the same facts.

        If a fact repeats, updates or extends memories in `remembered` about the same user,
        `Candidate.replaces` has the positions of these memories, from 0. `Candidate.merged` may
        then have one text that states the fact and these memories.
        """

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        """Return the bot's answer to these turns, given the memories recalled for them."""

    async def aclose(self) -> None:
        """Close the model's connections. May be called twice."""


class Query(NamedTuple):
    """A search for the `k` live memories of a scope that are most similar to a vector.

    Results with a lower cosine than `min_cosine` may be left out.
    """

    vector: Vector
    scope: Scope
    k: int
    min_cosine: float = -1.0


class VectorIndex(Protocol):
    """An approximate index of vectors by memory id, used if a user's vectors do not fit into RAM.

    It never receives texts. The store updates it from the ledger, and can rebuild it at any time.
    Only one thread calls it at a time. Each method raises IndexFault if it fails; the store then
    searches without the index.
    """

    @property
    def name(self) -> str:
        """Return the index's name, which is shown to people."""

    @property
    def place(self) -> str:
        """Return the folder or the name under which the index is stored; this never changes."""

    @property
    def id(self) -> str:
        """Return an identifier of the index; "" if the index does not exist yet.

        The store records under this identifier which changes of the ledger the index has received.
        Once the index exists, only `clear` may change the identifier. The new identifier must never
        have been used before.
        """

    @property
    def shared(self) -> bool:
        """Return whether several processes may use the index at the same time.

        If they may, the store removes the vectors of forgotten memories one by one. Otherwise the
        store clears the whole index, so that its files keep no trace of such vectors.
        """

    def put(self, ids: Sequence[str], vectors: Vectors) -> None:
        """Store unit vectors, shape (n, dim), under n ids; replace earlier vectors of these ids."""

    def remove(self, ids: Sequence[str]) -> None:
        """Delete the vectors of these ids; ignore unknown ids."""

    def nearest(self, vector: Vector, k: int) -> Sequence[tuple[str, float]]:
        """Return about `k` pairs (id, cosine): the vectors nearest to `vector`, nearest first.

        Return no pairs if the index is empty, or never had a vector.
        """

    def pages(self) -> Iterator[tuple[Sequence[str], Vectors]]:
        """Yield everything stored, in batches: n ids, and their vectors of shape (n, dim)."""

    def clear(self) -> None:
        """Delete all vectors, also from disk. Vectors stored later may have another dimension."""

    def close(self) -> None:
        """Close the index, so that its files are complete. May be called twice."""
