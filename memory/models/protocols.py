"""The interfaces that the program depends on: clock, embedder, language model and vector index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from memory.models.conversation import Extraction, Reply, Turn
from memory.models.decision import ProposedMerge, Question, Rereading, Usage, Verdict
from memory.models.memory import Memory, Scope
from memory.models.values import Vector, Vectors

Clock = Callable[[], datetime]
"""A function that returns the current time in UTC, with its time zone set."""
Progress = Callable[[int, int], None]
"""A callback that is called with two numbers: how many items are done, and how many there are."""


class Embedder(Protocol):
    """A model that turns texts into unit vectors, which are compared by cosine.

    >>> from memory.assembly import build_embedder
    >>> build_embedder(config).embed(["Mia has a cat.", "Mia rows."]).shape
    (2, 256)
    """

    @property
    def fingerprint(self) -> str:
        """Optional. Return a text that identifies the embedder (default: the name of its class).

        It names the model, the dimension and the preparation of texts. Vectors with different
        fingerprints cannot be compared. Reading this property must not load the model.
        """
        return type(self).__qualname__

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one float32 unit vector per text, in the given order, as shape (len(texts), dim).

        The texts have already been passed through `memory.text.normalise`.

        Raises: EmbeddingError.
        """


class LanguageModel(Protocol):
    """A model that judges near-copies, checks merged texts, extracts memories and replies.

    Its methods raise ModelError, which names the reason. A model of your own may leave out
    `page_size` and `reread`.

    >>> from memory.assembly import build_model
    >>> build_model(config).name
    'offline'
    """

    @property
    def name(self) -> str:
        """Return the model's name, which is recorded with each decision."""

    @property
    def page_size(self) -> int:
        """Optional. Return how many memories one question may show (default: 0, meaning eight)."""
        return 0

    async def judge(self, question: Question) -> Verdict:
        """Return groups of memories that state the same fact, with one text for each group.

        `Verdict.updates` may name pairs of which the newer memory ends the older one.
        """

    async def reread(self, merges: Sequence[ProposedMerge]) -> Rereading:
        """Optional. Compare the text of each merge with its memories; return what it lost or added.

        By default, the program compares the words instead.

        `merges` has at most 16 items. The result has one reading for each merge, in order. If
        `ends` of a merge is true, its text is that of the newest memory, which is to supersede the
        others; "lost" then has whatever in them may still hold.

        The memories in one call belong together. In a batch, all memories have the same scope. In
        an extraction, the memories are about people who speak in the turns. Before a model is
        trusted, one extra call tests it with invented memories.
        """
        return Rereading(readings=(None,) * len(merges), usage=Usage())

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

        A fact may repeat or change memories in `remembered` that are about the same user. Then
        `Candidate.replaces` has the positions of these memories, from 0. `Candidate.merged` is one
        text to store instead of the fact and these memories; without it, nothing is replaced.
        `Candidate.ends` has the positions of memories of which nothing holds any more.
        """

    async def reply(self, turns: Sequence[Turn], recalled: Sequence[Memory]) -> Reply:
        """Return the bot's answer to these turns, given the memories recalled for them."""

    async def aclose(self) -> None:
        """Close the model's connections. May be called twice."""


class Query(NamedTuple):
    """A search for the `k` live memories of a scope that are most similar to a vector.

    Results with a lower cosine than `min_cosine` may be left out.

    >>> from memory.assembly import build_embedder
    >>> [vector] = build_embedder(config).embed(["Mia has a cat."])
    >>> Query(vector, Scope.of_user("Mia"), 5).min_cosine
    -1.0
    """

    vector: Vector
    scope: Scope
    k: int
    min_cosine: float = -1.0


class VectorIndex(Protocol):
    """An approximate index of vectors, for users whose vectors do not fit into RAM.

    It stores each vector under the id of its memory. It never receives texts. The store updates the
    index from the ledger, and can rebuild the index at any time. Only one thread calls the index at
    a time. Each method raises IndexFault if it fails; the store then searches the ledger instead.

    >>> store.index.name  # while exact search is enough
    'exact search'
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

        For each identifier, the ledger records up to which revision the index is filled. An index
        with an unknown identifier is cleared and filled again. Once the index exists, only `clear`
        may change the identifier. The new identifier must never have been used before.
        """

    @property
    def shared(self) -> bool:
        """Return whether several processes may use the index at the same time.

        This decides how the vectors of forgotten memories are erased. From a shared index, the
        store removes these vectors with `remove`. An index that is not shared is cleared completely
        with `clear`, because its files may still contain vectors that were removed.
        """

    def put(self, ids: Sequence[str], vectors: Vectors) -> None:
        """Store unit vectors, shape (n, dim), under n ids; replace earlier vectors of these ids."""

    def remove(self, ids: Sequence[str]) -> None:
        """Delete the vectors of these ids; ignore unknown ids."""

    def nearest(self, vector: Vector, k: int) -> Sequence[tuple[str, float]]:
        """Return about `k` pairs (id, cosine): the vectors nearest to `vector`, nearest first.

        Return no pairs if the index contains no vectors.
        """

    def pages(self) -> Iterator[tuple[Sequence[str], Vectors]]:
        """Yield all stored vectors in batches: n ids, and the n vectors as shape (n, dim)."""

    def clear(self) -> None:
        """Delete all vectors, also from disk. Vectors stored later may have another dimension."""

    def close(self) -> None:
        """Close the index, so that its files are complete. May be called twice."""
