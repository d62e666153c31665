"""Decisions about memories, questions to a language model, its answers, and reports of runs."""

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
"""Who can judge that two texts are distinct (state different things), weakest judge first.

A verdict of a stronger judge replaces that of a weaker one.
"""
JUDGES: tuple[Judge, ...] = get_args(Judge)
OFFLINE = "offline"
"""The name of the built-in language model that needs no key."""
PERSON: Judge = "person"
"""The value of `Decision.model` if a person made the decision."""
Verified = Literal["by words", "by a second reading", "by a person"]
COPIES_FROM = 0.90
"""The lowest cosine of two near-copies.

Two memories with a lower cosine are both kept if a model fails to judge them. The offline judge
does not merge them either.
"""


@dataclass(frozen=True)
class Rules:
    """The settings of the decision policy.

    `upper` and `lower` are similarities from 0 to 1. From `upper` on, one memory may replace
    another without a model; from `lower` on, a model is asked. Each threshold includes its own
    value. `on_merge_failure` says what happens if the model fails: "replace" retires each near-copy
    whose text another memory states completely, "keep_both" keeps all memories.
    """

    upper: float = 0.95
    lower: float = 0.90
    guard: bool = True
    """Whether a memory may replace another only if it states everything that the other states."""
    on_merge_failure: OnMergeFailure = "replace"


class Action(StrEnum):
    """The effect of a decision, under the name that is stored and shown to users."""

    ADD = "add"
    REPLACE = "replace"
    MERGE = "merge"
    KEEP_BOTH = "keep_both"
    UPDATE = "update"
    UNDO = "undo"
    FORGET = "forget"
    KNOWN = "already there"


class Usage(Frozen):
    """The number of calls and tokens that questions to a language model cost."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    failed: int = 0
    """The number of calls that gave no usable answer."""

    @property
    def all_failed(self) -> bool:
        """Whether there was at least one call, and no call gave a usable answer."""
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
    """The price of a million input tokens and of a million output tokens, in any currency."""

    input: float = Field(ge=0.0)
    output: float = Field(ge=0.0)

    def of(self, usage: Usage) -> float:
        return (self.input * usage.input_tokens + self.output * usage.output_tokens) / 1e6


@dataclass(frozen=True)
class Survivor:
    """A memory that is live after a decision, and the ids of the memories that it replaces."""

    memory: Memory
    stands_for: tuple[str, ...] = ()
    version: Memory | None = None
    """A retired memory with the survivor's former text; None if the text does not change.

    `stands_for` contains the id of this retired memory.
    """


@dataclass(frozen=True)
class Decision:
    """A complete decision about some memories, ready to be applied.

    `members` are the memories that the decision is about, oldest first, as they were when they were
    read. A survivor is a memory that is live after the decision and may replace members. A stored
    member that no survivor replaces does not change. A new member that no survivor replaces is
    stored unchanged.

    `distinct` holds pairs of ids, of members or survivors, whose texts were judged to state
    different things. If `pending` is true, a later batch asks a model about the members. `model` is
    the name of the model that was asked, PERSON if a person decided, or None if the rules decided
    alone.
    """

    action: Action
    reason: str
    members: tuple[Memory, ...]
    survivors: tuple[Survivor, ...] = ()
    similarity: float | None = None
    candidates: tuple[tuple[str, float], ...] = ()
    """The memories that the new memory was compared with: (id, similarity), most similar first."""
    distinct: tuple[tuple[str, str], ...] = ()
    pending: bool = False
    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    cosine: float | None = None
    """The cosine from which `similarity` was computed; None if it equals `similarity`."""
    verified: Verified | None = None
    """How a merged text was compared with the members; None if there is no merged text."""

    @property
    def judge(self) -> Judge:
        """The judge of the pairs in `distinct`: a person, a model or the offline judge."""
        if self.model == PERSON:
            return "person"
        return "offline" if self.model == OFFLINE else "model"

    @property
    def retired(self) -> tuple[str, ...]:
        return tuple(name for survivor in self.survivors for name in survivor.stands_for)


@dataclass(frozen=True)
class Question:
    """A question for a language model: which of these memories state the same fact?

    `members` are the memories, oldest first. `reason` says why a model must decide.
    """

    members: tuple[Memory, ...]
    reason: str
    similarity: float
    """The similarity of the two least similar members."""
    cosine: float | None = None
    """The cosine from which `similarity` was computed; None if it equals `similarity`."""
    objection: str = ""
    """Why the model's previous answer to this question was refused; empty at the first attempt."""
    is_page: bool = False
    """Whether the question is a page: many memories of one scope, to be sorted into groups.

    Each group in the answer to a page is accepted or refused separately.
    """
    copies: frozenset[tuple[int, int]] | None = None
    """Which pairs of members are near-copies by cosine, as positions (lower, higher).

    None means that no pairs are given: if `are_copies` is true, all pairs are near-copies,
    otherwise none is.
    """

    @property
    def are_copies(self) -> bool:
        """Whether the two least similar members have a cosine of at least `COPIES_FROM`."""
        return (self.similarity if self.cosine is None else self.cosine) >= COPIES_FROM

    def are_copies_among(self, members: Sequence[int]) -> bool:
        """Return whether all of these members are near-copies of one another.

        `members` are positions in `Question.members`.
        """
        if self.copies is None:
            return self.are_copies
        return self.copies.issuperset(combinations(sorted(members), 2))


class MergeGroup(Frozen):
    """Memories of a question that state the same fact, and one text that replaces their texts.

    `members` are positions in `Question.members`, from 0.
    """

    members: tuple[int, ...] = Field(min_length=2)
    text: Cleaned


class Verdict(Frozen):
    """A language model's answer to a question: which of the question's memories to merge.

    Each of the `parts` is a group of memories that one text replaces. Memories that are in no part
    stay as they are.
    """

    parts: tuple[MergeGroup, ...] = ()
    reason: Cleaned = ""
    usage: Usage = Usage(calls=1)


MOST_READ = 16
"""The maximum number of merges in one `LanguageModel.reread` call."""


@dataclass(frozen=True)
class ProposedMerge:
    """Memories, oldest first, and the one text that is proposed to replace them."""

    members: tuple[Memory, ...]
    text: str


class MergeReading(Frozen):
    """The result of comparing a merged text with the memories that it would replace."""

    lost: tuple[Cleaned, ...] = ()
    """Statements that a memory makes, but not the merged text."""
    added: tuple[Cleaned, ...] = ()
    """Statements that the merged text makes, but none of the memories."""

    @property
    def accepted(self) -> bool:
        return not (self.lost or self.added)


class Rereading(Frozen):
    """A language model's check of several proposed merges.

    `readings` has one item for each merge, in the order in which the merges were sent. None as an
    item means that the merge is refused.
    """

    readings: tuple[MergeReading | None, ...] = ()
    usage: Usage = Usage(calls=1)


@dataclass(frozen=True)
class Outcome:
    """The result of storing one new memory.

    `memory` is the new memory or, if that was retired, its live successor.
    """

    memory: Memory
    action: Action
    reason: str
    usage: Usage = field(default_factory=Usage)
    pending: bool = False
    """Whether a question about the memory is still open. A later batch asks it."""


# --- the report of a run over the whole store -------------------------------------------------


class MemberReport(Frozen):
    """A memory of a group, and its `fate`: what a run does with the memory.

    The fate is "keep" if the memory stays live, "retire" if another memory replaces it, and "judge"
    if a model must decide.
    """

    id: str
    content: str
    timestamp: datetime
    fate: str


class GroupReport(Frozen):
    """A group of similar memories, and what a run over the whole store does with them.

    `members` are ordered oldest first. `similarities` holds triples (position of a member, position
    of another member, their similarity). `differences` are short descriptions of how members differ
    from the newest member.
    """

    user: str | None
    is_private: bool
    action: str
    reason: str
    members: tuple[MemberReport, ...]
    similarities: tuple[tuple[int, int, float], ...]
    differences: tuple[str, ...]
    needs_model: bool


class JustBelow(Frozen):
    """The number of `pairs` whose similarity is slightly below a run's lower threshold.

    The similarity of these pairs of memories is at least `low` and less than `high`.
    """

    low: float
    high: float
    """The run's lower threshold."""
    pairs: int


class SimilarityHistogram(Frozen):
    """The distribution of similarities over all pairs of memories in the same scope."""

    counts: tuple[int, ...]
    """The number of pairs in each step of similarity.

    All steps are equal; together they cover 0 to 1. The first step includes pairs with a similarity
    below 0.
    """
    pairs: int
    exact: bool
    """Whether all pairs were counted; False if the counts are estimated from a sample."""


class DeduplicationReport(Frozen):
    """The report of a run over the whole store or, if `dry_run` is true, of what it would do."""

    dry_run: bool
    run: str = ""
    """The run's name in the ledger; empty in a dry run."""
    memories: int
    """The number of live memories before the run."""
    memories_after: int
    """The number of live memories after the run; in a dry run, the same as before."""
    pairs: dict[str, int]
    """The number of similar pairs of memories before the run, for several thresholds.

    A key is a threshold as text, such as "0.90". Its value counts the pairs at or above it. Only
    memories of the same scope form a pair.
    """
    just_below: JustBelow | None
    """Pairs that only a slightly lower threshold would find; None unless this is a dry run."""
    rounds: int
    found: int
    """The number of groups found. `groups` may hold only the least certain of them."""
    groups: tuple[GroupReport, ...]
    decisions: dict[str, int]
    """The number of decisions by action."""
    reasons: dict[str, int]
    """The number of decisions by reason."""
    retired: int
    """The number of memories retired; in a dry run, of those that need no model."""
    merged: int
    """The number of memories that got a new text, merged from the texts of several memories."""
    pending: int
    """The number of questions that the model failed to answer; a later run repeats them."""
    left: int
    """The number of groups left for the next run because the budget of model calls was spent."""
    pages: int = 0
    """The number of pages (questions about many memories) that the model read.

    In a dry run, the number of pages that it would read.
    """
    pages_left: int = 0
    """The number of pages left for the next run: the budget was spent, or the model failed."""
    characters: int = 0
    """In a dry run, the number of characters of memories that would be sent to the model."""
    failure: str = ""
    """Why every call of the model failed; empty if a call succeeded or none was made."""
    undecided: int
    """The number of pairs of texts that a model failed to judge.

    They wait until the model's pause is over, or until a person or another model judges them.
    """
    usage: Usage
    questions: int = 0
    """The number of questions that a dry run would ask, including pages."""
    estimated_model_calls: int
    """The estimated number of model calls that a real run would make; 0 if the model is free.

    Calls in which the model reads merged texts a second time are included.
    """
    estimated: Usage = Usage()
    """The estimated cost of a dry run's questions, at 4 characters per token.

    All numbers are 0 if the model is free.
    """
    money: float | None = None
    """The money spent or, in a dry run, to be spent; None if no price is known."""
    model: str
    seconds: float
