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
"""The judges that can rule that two texts state different things, the weakest first.

The verdict of a stronger judge replaces the verdict of a weaker judge.
"""
JUDGES: tuple[Judge, ...] = get_args(Judge)
OFFLINE = "offline"
"""The name of the built-in language model that needs no key."""
PERSON: Judge = "person"
"""The value of `Decision.model` if a person made the decision."""
Verified = Literal["by words", "by a second reading", "by a person"]
COPIES_FROM = 0.90
"""The lowest cosine of two near-copies.

If a model fails to judge two memories that are not near-copies, both are kept. The offline judge
writes merged texts only for near-copies.
"""


@dataclass(frozen=True)
class Rules:
    """The settings of the decision policy.

    If two memories have a similarity of at least `upper`, one may replace the other without a
    model. If `guard` is true, it must also cover the other. In all other cases, a model is asked if
    the similarity is at least `lower`.

    `on_merge_failure`: what happens to near-copies if the model fails. With `replace`, a memory
    still replaces those that it covers; with `keep_both`, all are kept.
    """

    upper: float = 0.95
    lower: float = 0.90
    guard: bool = True
    on_merge_failure: OnMergeFailure = "replace"


class Action(StrEnum):
    """What a decision does. The values are stored, and shown to users."""

    ADD = "add"
    REPLACE = "replace"
    MERGE = "merge"
    KEEP_BOTH = "keep_both"
    UPDATE = "update"
    UNDO = "undo"
    FORGET = "forget"
    KNOWN = "already there"


class Usage(Frozen):
    """The number of calls and tokens that questions to a language model cost.

    `failed` counts the calls without a usable answer.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    failed: int = 0

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
    """A memory that is live after a decision, and the ids of the memories that it replaces.

    `version`: if the decision changes the memory's text, a retired memory with the former text.
    """

    memory: Memory
    stands_for: tuple[str, ...] = ()
    version: Memory | None = None


@dataclass(frozen=True)
class Decision:
    """A complete decision about some memories, ready to be applied.

    `members` are the memories that the decision is about, oldest first, as they were when read. A
    member that no survivor replaces stays as it is or, if new, is stored. `candidates` are the
    memories that a new memory was compared with: (id, similarity), most similar first. `distinct`
    holds pairs of ids whose texts were judged to state different things. If `pending` is true, a
    later batch asks a model about the members. `model` names the model that was asked; it is PERSON
    if a person decided, and None if the rules decided alone. `cosine` is the cosine from which
    `similarity` was computed; None if it equals `similarity`.
    """

    action: Action
    reason: str
    members: tuple[Memory, ...]
    survivors: tuple[Survivor, ...] = ()
    similarity: float | None = None
    candidates: tuple[tuple[str, float], ...] = ()
    distinct: tuple[tuple[str, str], ...] = ()
    pending: bool = False
    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    cosine: float | None = None
    verified: Verified | None = None

    @property
    def judge(self) -> Judge:
        if self.model == PERSON:
            return "person"
        return "offline" if self.model == OFFLINE else "model"

    @property
    def retired(self) -> tuple[str, ...]:
        return tuple(name for survivor in self.survivors for name in survivor.stands_for)


@dataclass(frozen=True)
class Question:
    """A question for a language model: which of these memories state the same fact?

    `members` are ordered oldest first. `reason` says why a model must decide. `similarity` is that
    of the two least similar members. `objection` says why the model's previous answer to this
    question was refused; it is empty at the first attempt.

    If `is_page` is true, the question is a page: up to 48 memories of one scope, to be sorted into
    groups. Each group in the answer to a page is accepted or refused separately.

    `copies` holds the pairs of members that are near-copies, as positions from 0: (lower, higher).
    If it is None, the property `are_copies` gives one answer for all pairs.
    """

    members: tuple[Memory, ...]
    reason: str
    similarity: float
    cosine: float | None = None
    objection: str = ""
    is_page: bool = False
    copies: frozenset[tuple[int, int]] | None = None

    @property
    def are_copies(self) -> bool:
        """Whether the two least similar members have a cosine of at least `COPIES_FROM`."""
        return (self.similarity if self.cosine is None else self.cosine) >= COPIES_FROM

    def are_copies_among(self, members: Sequence[int]) -> bool:
        """Return whether all of these members, given by position, are near-copies of each other."""
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
    """A language model's answer to a question.

    `parts` are the groups of memories to merge. All other memories stay as they are.
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
    """What the memories state and the merged text does not."""
    added: tuple[Cleaned, ...] = ()
    """What the merged text states and none of the memories does."""

    @property
    def accepted(self) -> bool:
        return not (self.lost or self.added)


class Rereading(Frozen):
    """A language model's check of several proposed merges.

    `readings` has one item for each merge, in order. None means that the merge is refused.
    """

    readings: tuple[MergeReading | None, ...] = ()
    usage: Usage = Usage(calls=1)


@dataclass(frozen=True)
class Outcome:
    """The result of storing one new memory.

    `memory` is the new memory or, if the new memory was retired, its live successor. `pending`:
    whether a later batch will ask a model about the new memory.
    """

    memory: Memory
    action: Action
    reason: str
    usage: Usage = field(default_factory=Usage)
    pending: bool = False


# --- the report of a run over the whole store -------------------------------------------------


class MemberReport(Frozen):
    """A memory of a group, and its `fate` in a run.

    The fate is "keep" if the memory stays live, "retire" if another memory replaces it, and "judge"
    if a model must decide.
    """

    id: str
    content: str
    timestamp: datetime
    fate: str


class GroupReport(Frozen):
    """A group of similar memories, and what a run over the whole store does with them.

    `members` are ordered oldest first. `similarities` holds triples (a, b, similarity); a and b are
    positions in `members`, from 0. `differences` say how members differ from the newest.
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
    """The number of `pairs` of memories whose similarity is at least `low` and less than `high`.

    `high` is the run's lower threshold.
    """

    low: float
    high: float
    pairs: int


class SimilarityHistogram(Frozen):
    """The distribution of similarities over all pairs of memories in the same scope."""

    counts: tuple[int, ...]
    """The number of pairs in each of n equal ranges of similarity from 0 to 1, lowest first.

    The first range includes negative similarities.
    """
    pairs: int
    exact: bool
    """Whether all pairs were counted; False if the counts are estimated from a sample."""


class DeduplicationReport(Frozen):
    """The report of a run over the whole store.

    If `dry_run` is true, nothing was changed, and the report says what a run would do. Then
    `retired` counts only the memories that can be retired without a model, and `memories_after`
    equals `memories`.

    Only a dry run sets `just_below`, `characters`, `estimated` and `estimated_model_calls`.
    `characters` is the total length of the memories in all questions for the model.

    Some groups (`left`) and pages (`pages_left`) wait for the next run, mostly because this run had
    no model calls left.
    """

    dry_run: bool
    run: str = ""
    memories: int
    memories_after: int
    pairs: dict[str, int]
    """The number of pairs at or above each threshold before the run, such as {"0.90": 12}.

    Both memories of a pair are of the same scope.
    """
    just_below: JustBelow | None
    rounds: int
    found: int
    """The number of groups found. `groups` may hold only the least certain of them."""
    groups: tuple[GroupReport, ...]
    decisions: dict[str, int]
    reasons: dict[str, int]
    retired: int
    merged: int
    pending: int
    """The number of questions that the model failed to answer; a later run repeats them."""
    left: int
    pages: int = 0
    pages_left: int = 0
    characters: int = 0
    failure: str = ""
    """Why every call of the model failed; empty if a call succeeded or none was made."""
    undecided: int
    """The number of text pairs not asked about: the model failed at them recently or too often."""
    usage: Usage
    questions: int = 0
    estimated_model_calls: int
    estimated: Usage = Usage()
    money: float | None = None
    model: str
    seconds: float
