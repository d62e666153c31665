"""Decisions about memories, questions for a model and its answers, the report of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import combinations
from typing import Literal, get_args

from pydantic import (
    Field,
)

from memory.errors import ModelError
from memory.models.memory import Cleaned, Frozen, Memory

OnMergeFailure = Literal["replace", "keep_both"]
Judge = Literal["offline", "model", "person"]
"""Who may call two texts distinct, lowest first; a higher verdict replaces a lower one."""
JUDGES: tuple[Judge, ...] = get_args(Judge)
OFFLINE = "offline"
"""The name of the model that needs no key."""
PERSON: Judge = "person"
"""The model of a decision that a person made."""
Verified = Literal["by words", "by a second reading", "by a person"]
COPIES_FROM = 0.90
"""Below this cosine nothing is replaced after a model failed, nor joined by the offline judge."""


@dataclass(frozen=True)
class Rules:
    """The thresholds, in 0..1 and including their own value, and the switches of the policy."""

    upper: float = 0.95
    lower: float = 0.90
    guard: bool = True
    """Whether a replacement requires that one text covers the other."""
    on_merge_failure: OnMergeFailure = "replace"


class Action(StrEnum):
    """The kind of a decision, as stored and shown."""

    ADD = "add"
    REPLACE = "replace"
    MERGE = "merge"
    KEEP_BOTH = "keep_both"
    UPDATE = "update"
    UNDO = "undo"
    FORGET = "forget"
    KNOWN = "already there"


class Usage(Frozen):
    """The cost of asking a model."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    failed: int = 0
    """Calls without a usable answer."""

    @property
    def all_failed(self) -> bool:
        """Whether there were calls and none gave a usable answer."""
        return 0 < self.calls == self.failed

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            failed=self.failed + other.failed,
        )

    @classmethod
    def of_failure(cls, exc: ModelError) -> Usage:
        paid = {"input_tokens": exc.input_tokens, "output_tokens": exc.output_tokens}
        return cls(calls=exc.calls, failed=exc.calls, **paid)


class Price(Frozen):
    """The price of a million tokens, in any currency."""

    input: float = Field(ge=0.0)
    output: float = Field(ge=0.0)

    def of(self, usage: Usage) -> float:
        return (self.input * usage.input_tokens + self.output * usage.output_tokens) / 1e6


@dataclass(frozen=True)
class Survivor:
    """A memory that is live after a decision, and the ids of the retired ones it stands for."""

    memory: Memory
    stands_for: tuple[str, ...] = ()
    version: Memory | None = None
    """Its former wording, kept as a retired memory that it stands for."""


@dataclass(frozen=True)
class Decision:
    """A complete decision about some memories, ready to be applied.

    `members` are the memories it is about, oldest first, as they were when it was made. Members
    that no survivor stands for stay, or are stored, as they are. `distinct` holds pairs of ids, of
    members or survivors, that were judged distinct.
    """

    action: Action
    reason: str
    members: tuple[Memory, ...]
    survivors: tuple[Survivor, ...] = ()
    similarity: float | None = None
    candidates: tuple[tuple[str, float], ...] = ()
    """Ids and similarities of what a new memory was compared with, most similar first."""
    distinct: tuple[tuple[str, str], ...] = ()
    pending: bool = False
    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    cosine: float | None = None
    """The cosine before the scale; None if that is the similarity."""
    verified: Verified | None = None
    """How a merged text was verified; None if there is none."""

    @property
    def judge(self) -> Judge:
        """Who called its distinct pairs distinct."""
        if self.model == PERSON:
            return "person"
        return "offline" if self.model == OFFLINE else "model"

    @property
    def retired(self) -> tuple[str, ...]:
        return tuple(name for survivor in self.survivors for name in survivor.stands_for)


@dataclass(frozen=True)
class Question:
    """A question for a model: which of these members, oldest first, tell the same fact?"""

    members: tuple[Memory, ...]
    reason: str
    similarity: float
    """Of the two least similar members."""
    cosine: float | None = None
    """The cosine before the scale; None if that is the similarity."""
    objection: str = ""
    """Why the last answer was refused; empty the first time."""
    is_page: bool = False
    """Whether this is a page: then each group of the answer is accepted or refused by itself."""
    copies: frozenset[tuple[int, int]] | None = None
    """Pairs of members, by position, that are near-copies by cosine; None means all or none."""

    @property
    def are_copies(self) -> bool:
        """Whether the members are near-copies by cosine, whatever the scale."""
        return (self.similarity if self.cosine is None else self.cosine) >= COPIES_FROM

    def are_copies_among(self, members: Sequence[int]) -> bool:
        """Return the same for some members, given by position."""
        if self.copies is None:
            return self.are_copies
        return self.copies.issuperset(combinations(sorted(members), 2))


class MergeGroup(Frozen):
    """Members that tell the same fact, by position from 0, and one text for it."""

    members: tuple[int, ...] = Field(min_length=2)
    text: Cleaned


class Verdict(Frozen):
    """The answer of a model; members in no part stay as they are."""

    parts: tuple[MergeGroup, ...] = ()
    reason: Cleaned = ""
    usage: Usage = Usage(calls=1)


MOST_READ = 16
"""Most merges in one second reading."""


@dataclass(frozen=True)
class ProposedMerge:
    """Members, oldest first, and one text proposed for them."""

    members: tuple[Memory, ...]
    text: str


class MergeReading(Frozen):
    """What a model found when it compared a proposed merge with its members."""

    lost: tuple[Cleaned, ...] = ()
    """What a reader of the merged text would not learn."""
    added: tuple[Cleaned, ...] = ()
    """What the merged text states although no member does."""

    @property
    def accepted(self) -> bool:
        return not (self.lost or self.added)


class Rereading(Frozen):
    """A model's second reading of merges, one for each in order; None refuses the merge."""

    readings: tuple[MergeReading | None, ...] = ()
    usage: Usage = Usage(calls=1)


@dataclass(frozen=True)
class Outcome:
    """The result for one new memory: its live successor (or itself), and why."""

    memory: Memory
    action: Action
    reason: str
    usage: Usage = field(default_factory=Usage)
    pending: bool = False
    """Whether its question waits for a later batch."""


# --- the report of a run over the whole store -------------------------------------------------


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
