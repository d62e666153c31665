"""What is decided about memories, what only a model can say, and what it answered."""

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
"""Who may tell two texts apart; the word of a later one stands over that of an earlier one."""
JUDGES: tuple[Judge, ...] = get_args(Judge)
OFFLINE = "offline"
"""The name of the model that needs no key."""
PERSON: Judge = "person"
"""What stands in a decision for the name of a model where a person decided."""
Verified = Literal["by words", "by a second reading", "by a person"]
COPIES_FROM = 0.90
"""The cosine below which nothing is replaced for want of a model, nor joined by the offline one."""


@dataclass(frozen=True)
class Rules:
    """The thresholds, in 0..1 and including their own value, and the switches of the policy."""

    upper: float = 0.95
    lower: float = 0.90
    guard: bool = True
    """Whether a replacement needs that one text covers the other."""
    on_merge_failure: OnMergeFailure = "replace"


class Action(StrEnum):
    """What was done, as it is stored and shown."""

    ADD = "add"
    REPLACE = "replace"
    MERGE = "merge"
    KEEP_BOTH = "keep_both"
    UPDATE = "update"
    UNDO = "undo"
    FORGET = "forget"
    KNOWN = "already there"


class Usage(Frozen):
    """What asking the model cost."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    failed: int = 0
    """How many of the calls gave no answer that could be used."""

    @property
    def all_failed(self) -> bool:
        """Whether something was asked and nothing was answered."""
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
        """What a question cost that has no answer to take."""
        return cls(
            calls=exc.calls,
            input_tokens=exc.input_tokens,
            output_tokens=exc.output_tokens,
            failed=exc.calls,
        )

    def put_upon(self, exc: ModelError) -> None:
        """Whoever catches it can tell what it cost."""
        exc.calls = self.calls
        exc.input_tokens = self.input_tokens
        exc.output_tokens = self.output_tokens


class Price(Frozen):
    """What a million tokens cost, in whatever currency they are paid."""

    input: float = Field(ge=0.0)
    output: float = Field(ge=0.0)

    def of(self, usage: Usage) -> float:
        """Of so many tokens."""
        return (self.input * usage.input_tokens + self.output * usage.output_tokens) / 1e6


@dataclass(frozen=True)
class Survivor:
    """A memory that lives after a decision, and the ids of those it stands for."""

    memory: Memory
    stands_for: tuple[str, ...] = ()
    version: Memory | None = None
    """Its former wording, to be kept as a retired memory; then one of those it stands for."""


@dataclass(frozen=True)
class Decision:
    """What to do with some memories, complete: applying it needs no further thought.

    `members` are the memories it is about, oldest to newest, as they were when it was made.
    Members that no survivor stands for stay, or are stored, as they are. `distinct` are the pairs
    of ids, of members or survivors, that were judged to say different things.
    """

    action: Action
    reason: str
    members: tuple[Memory, ...]
    survivors: tuple[Survivor, ...] = ()
    similarity: float | None = None
    candidates: tuple[tuple[str, float], ...] = ()
    """What a new memory was compared with: ids and similarities, most similar first."""
    distinct: tuple[tuple[str, str], ...] = ()
    pending: bool = False
    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    cosine: float | None = None
    """What `similarity` was before the scale; None where that is the same."""
    verified: Verified | None = None
    """How a merged text was found true; None where none was written."""

    @property
    def judge(self) -> Judge:
        """Whose word its distinct pairs are."""
        if self.model == PERSON:
            return "person"
        return "offline" if self.model == OFFLINE else "model"

    @property
    def retired(self) -> tuple[str, ...]:
        return tuple(name for survivor in self.survivors for name in survivor.stands_for)


@dataclass(frozen=True)
class Question:
    """What only a model can say: which of these, oldest to newest, tell the same fact?"""

    members: tuple[Memory, ...]
    reason: str
    similarity: float
    """Of the two members that are least alike."""
    cosine: float | None = None
    """Of the same two, before the scale; None where that is the similarity."""
    objection: str = ""
    """Why the last answer could not be believed; empty the first time."""
    is_page: bool = False
    """Whether they are a page: then each group of the answer stands or falls by itself."""
    copies: frozenset[tuple[int, int]] | None = None
    """The members, by position, that the vectors call near-copies; None: all or none of them."""

    @property
    def are_copies(self) -> bool:
        """Whether the vectors alone say that these are near-copies, whatever the scale."""
        return (self.similarity if self.cosine is None else self.cosine) >= COPIES_FROM

    def are_copies_among(self, members: Sequence[int]) -> bool:
        """The same of some members, by position, whatever the others are."""
        if self.copies is None:
            return self.are_copies
        return self.copies.issuperset(combinations(sorted(members), 2))


class MergeGroup(Frozen):
    """Members that tell the same fact, by position from 0, and the one text that tells it."""

    members: tuple[int, ...] = Field(min_length=2)
    text: Cleaned


class Verdict(Frozen):
    """A model's answer: the members in no part stay as they are."""

    parts: tuple[MergeGroup, ...] = ()
    reason: Cleaned = ""
    usage: Usage = Usage(calls=1)


MOST_READ = 16
"""Merges that one second reading is shown."""


@dataclass(frozen=True)
class ProposedMerge:
    """Members, oldest to newest, and the one text that is to stand for them."""

    members: tuple[Memory, ...]
    text: str


class MergeReading(Frozen):
    """What a model found on reading a proposed merge beside its members."""

    lost: tuple[Cleaned, ...] = ()
    """What a reader of the merged text would not learn."""
    added: tuple[Cleaned, ...] = ()
    """What the merged text states and no member does."""

    @property
    def accepted(self) -> bool:
        return not (self.lost or self.added)


class Rereading(Frozen):
    """A model's second reading of merges: one reading for each, in their order.

    A merge without a reading, None, is refused.
    """

    readings: tuple[MergeReading | None, ...] = ()
    usage: Usage = Usage(calls=1)


@dataclass(frozen=True)
class Outcome:
    """What became of one new memory: the one that now lives for it, and why."""

    memory: Memory
    action: Action
    reason: str
    usage: Usage = field(default_factory=Usage)
    pending: bool = False
    """Whether its question stays open for a later batch."""
