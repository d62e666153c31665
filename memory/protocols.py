"""What the parts promise each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
        """List what each merged text loses and adds; at most 16 merges, all of one scope.

        Raises: ModelError, with the reason.
        """

    async def extract(
        self,
        turns: Sequence[Turn],
        *,
        context: Sequence[Turn] = (),
        remembered: Sequence[Memory] = (),
    ) -> Extraction:
        """What is worth remembering in these turns, oldest first; the bot's give context only.

        `context` was said just before and is extracted already; `remembered` is known already.

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


@dataclass(frozen=True)
class Shortlist:
    """Ids of live memories in scope, nearest first, for exact comparison by the ledger.

    `complete` is False where the index cannot rule out a nearer one it did not see.
    """

    ids: tuple[str, ...]
    complete: bool = True


class Index(Protocol):
    """Nearest neighbours over the ledger's live memories, as of the latest commit."""

    def nearest(self, queries: Sequence[Query]) -> list[Shortlist]:
        """The answer to each query; many at once cost much less than one by one.

        Raises: IndexFault.
        """

    def follow(self) -> None:
        """Take in what the ledger has committed, so that the next query need not.

        Raises: IndexFault, LedgerError.
        """

    @property
    def name(self) -> str:
        """As people are shown it."""

    def disagreement(self) -> str:
        """How it differs from the ledger; empty where it does not.

        Raises: IndexFault.
        """

    def rebuild(self, on_progress: Callable[[int, int], None] | None = None) -> None:
        """Make it again from the ledger's vectors; told how much is done, and of how much.

        Raises: IndexFault.
        """

    def scrub(self) -> None:
        """Clear what is held on disk of forgotten memories, where this process may write it.

        Raises: IndexFault.
        """

    def close(self) -> None:
        """Leave what is on disk complete. May be called twice."""
