"""What a run over the whole store did, or would do."""

from __future__ import annotations

from datetime import datetime

from memory.models.decision import Usage
from memory.models.values import Frozen


class MemberReport(Frozen):
    """One memory of a group, and what becomes of it: `keep`, `retire` or `judge`."""

    id: str
    content: str
    timestamp: datetime
    fate: str


class GroupReport(Frozen):
    """Memories close enough to be one, oldest to newest, and what is done about them."""

    user: str | None
    is_private: bool
    action: str
    reason: str
    members: tuple[MemberReport, ...]
    similarities: tuple[tuple[int, int, float], ...]
    differences: tuple[str, ...]
    needs_model: bool


class JustBelow(Frozen):
    """Pairs that a slightly lower threshold would find."""

    low: float
    high: float
    """The lower threshold."""
    pairs: int


class Spread(Frozen):
    """How alike the memories of a store are to those that they may be compared with."""

    counts: tuple[int, ...]
    """Pairs in each of equal steps of similarity from 0 to 1; what is below 0 is in the first."""
    pairs: int
    """All of them."""
    exact: bool
    """Counted; else estimated from some of the memories."""


class DeduplicationReport(Frozen):
    """A run over the whole store, done or (with `dry_run`) planned."""

    dry_run: bool
    run: str = ""
    """Its name in the ledger; none in a dry run."""
    memories: int
    """Live memories before the run."""
    memories_after: int
    """Live memories after it; the same as before in a dry run."""
    pairs: dict[str, int]
    """Pairs in one scope at or above each similarity, counted before the run."""
    just_below: JustBelow | None
    """Of a dry run only."""
    rounds: int
    found: int
    """How many groups there are; `groups` may be only the least certain of them."""
    groups: tuple[GroupReport, ...]
    decisions: dict[str, int]
    """How many decisions of each action."""
    reasons: dict[str, int]
    """How many decisions for each reason."""
    retired: int
    """Memories that were retired or, in a dry run, would be without a model."""
    merged: int
    """Memories that were synthesised from several."""
    pending: int
    """Questions the model could not answer, left for a later run."""
    left: int
    """Groups whose questions the budget of calls left for the next run."""
    pages: int = 0
    """Pages that were read or, in a dry run, would be."""
    pages_left: int = 0
    """Pages that wait for the next run: calls spent, or the model failed."""
    characters: int = 0
    """Of a dry run: of memories that would be sent to the model, as often as they are shown."""
    failure: str = ""
    """Why the model answered nothing at all, where it was asked; empty otherwise."""
    undecided: int
    """Pairs that a model failed at, and that wait or are not asked about by themselves any more."""
    usage: Usage
    questions: int = 0
    """Questions that a dry run would ask, pages among them."""
    estimated_model_calls: int
    """Calls that these questions would take, second readings among them; 0 where they are free."""
    estimated: Usage = Usage()
    """What its questions would cost, by characters / 4; all zeros where they are free."""
    money: float | None = None
    """What was spent or, in a dry run, would be; None where no price is known."""
    model: str
    seconds: float
