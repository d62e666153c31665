"""Decisions about memories, questions for a model, and its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from typing import Literal, get_args

from pydantic import (
    Field,
)

from memory.errors import ModelError
from memory.models.memory import Memory
from memory.models.values import Cleaned, Frozen

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
        """Return the cost of a question that failed."""
        return cls(
            calls=exc.calls,
            input_tokens=exc.input_tokens,
            output_tokens=exc.output_tokens,
            failed=exc.calls,
        )

    def put_upon(self, exc: ModelError) -> None:
        """Write the cost into an error, for the code that catches it."""
        exc.calls = self.calls
        exc.input_tokens = self.input_tokens
        exc.output_tokens = self.output_tokens


class Price(Frozen):
    """The price of a million tokens, in any currency."""

    input: float = Field(ge=0.0)
    output: float = Field(ge=0.0)

    def of(self, usage: Usage) -> float:
        """Return the price of these tokens."""
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
