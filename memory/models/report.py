"""The report of a run over the whole store."""

from __future__ import annotations

from datetime import datetime

from memory.models.decision import Usage
from memory.models.values import Frozen


class MemberReport(Frozen):
    """A memory of a group, and its fate: `keep`, `retire` or `judge`."""

    id: str
    content: str
    timestamp: datetime
    fate: str


class GroupReport(Frozen):
    """A group of similar memories, oldest first, and what is done about them."""

    user: str | None
    is_private: bool
    action: str
    reason: str
    members: tuple[MemberReport, ...]
    similarities: tuple[tuple[int, int, float], ...]
    differences: tuple[str, ...]
    needs_model: bool


class JustBelow(Frozen):
    """Pairs that a slightly lower threshold would find too."""

    low: float
    high: float
    """The lower threshold."""
    pairs: int


class SimilarityHistogram(Frozen):
    """A histogram of the similarities of pairs within scopes."""

    counts: tuple[int, ...]
    """Pairs in equal steps of similarity from 0 to 1; the first step includes those below 0."""
    pairs: int
    exact: bool
    """False if the counts are estimated from a sample."""


class DeduplicationReport(Frozen):
    """A run over the whole store, done or (with `dry_run`) planned."""

    dry_run: bool
    run: str = ""
    """Its name in the ledger; empty in a dry run."""
    memories: int
    """Live memories before the run."""
    memories_after: int
    """Live memories after the run; as before it in a dry run."""
    pairs: dict[str, int]
    """Pairs in one scope at or above each similarity, counted before the run."""
    just_below: JustBelow | None
    """Only in a dry run."""
    rounds: int
    found: int
    """The number of groups, of which `groups` may hold only the least certain."""
    groups: tuple[GroupReport, ...]
    decisions: dict[str, int]
    """Decisions by action."""
    reasons: dict[str, int]
    """Decisions by reason."""
    retired: int
    """Memories retired; in a dry run, those that no model is needed for."""
    merged: int
    """Memories made from several."""
    pending: int
    """Questions that the model failed to answer, left for a later run."""
    left: int
    """Groups that the budget of calls left for the next run."""
    pages: int = 0
    """Pages read; in a dry run, pages to read."""
    pages_left: int = 0
    """Pages left for the next run, because the budget was spent or the model failed."""
    characters: int = 0
    """In a dry run: characters of memories that would be sent to the model."""
    failure: str = ""
    """Why no call of the model succeeded; else empty."""
    undecided: int
    """Pairs that a model failed at, which wait for a pause, a person or another model."""
    usage: Usage
    questions: int = 0
    """Questions that a dry run would ask, pages among them."""
    estimated_model_calls: int
    """Calls that these questions would take, second readings among them; 0 where they are free."""
    estimated: Usage = Usage()
    """The estimated cost of its questions, a token for 4 characters; zeros if they are free."""
    money: float | None = None
    """Money spent or, in a dry run, to be spent; None if no price is known."""
    model: str
    seconds: float
