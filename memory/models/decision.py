"""Decisions about memories, questions to a language model, its answers, and reports of runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple, get_args

from pydantic import Field

from memory.errors import ModelError
from memory.models.memory import Embedded, Memory
from memory.models.values import Cleaned, Frozen
from memory.text import identity

Judge = Literal["offline", "model", "person"]
"""The judges that can rule that two texts state different things, the weakest first.

The verdict of a stronger judge replaces the verdict of a weaker judge.
"""
JUDGES: tuple[Judge, ...] = get_args(Judge)
OFFLINE = "offline"
"""The name of the built-in language model, which works by fixed rules, without a network."""
PERSON: Judge = "person"
"""The value of `Decision.model` if a person made the decision."""
Verified = Literal["by words", "by a second reading", "by a person"]
COPIES_FROM = 0.90
"""Two memories are near-copies if the cosine of their vectors is at least this value.

If a model fails to judge near-copies, one may still replace another that it covers.
"""
COMPARED = 5
"""A new memory is compared with this many of its nearest memories.

A batch finds all pairs from the upper threshold on, and below it this many pairs for each text.
"""


@dataclass(frozen=True)
class Rules:
    """The settings that say when one memory replaces another, and when a model is asked.

    `upper`: from this similarity on, a memory may replace another memory without a model.
    `guard`: if true, a memory replaces only memories that it covers. If false, the similarity is
    enough. `lower`: from this similarity on, a model is asked if no memory replaces the other.

    >>> old, new = (store.new_memory(text) for text in ("Mia has a cat.", "Mia has a red cat."))
    >>> for similarity in (0.96, 0.93, 0.89):
    ...     decided, _ = decide_new(new, [SearchResult(old, similarity)], Rules())
    ...     print(type(decided).__name__, decided.reason)
    Decision the newer states all of the older
    Question similarity between 0.90 and 0.95
    Decision nearest is below 0.90
    """

    upper: float = 0.95
    lower: float = 0.90
    guard: bool = True


class Action(StrEnum):
    """The effect of a decision. The values are stored, and shown to users.

    >>> outcome = memories.remember("Xia rows.", user="Xia")
    >>> memories.remember("Xia rows!", user="Xia").action is Action.REPLACE
    True
    >>> [decision.action.value for decision in memories.history(outcome.memory.id)]
    ['add', 'replace']
    """

    ADD = "add"
    REPLACE = "replace"
    MERGE = "merge"
    KEEP_BOTH = "keep_both"
    UPDATE = "update"
    SUPERSEDE = "supersede"
    EXPIRE = "expire"
    UNDO = "undo"
    FORGET = "forget"
    KNOWN = "already there"


class Usage(Frozen):
    """The number of calls and tokens that questions to a language model cost.

    `failed` counts the calls without a usable answer.

    >>> Usage(calls=1, input_tokens=900, output_tokens=40) + Usage(calls=1, failed=1)
    Usage(calls=2, input_tokens=900, output_tokens=40, failed=1)
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
    """The price of a million input tokens and of a million output tokens, in any currency.

    >>> night = Usage(calls=40, input_tokens=200_000, output_tokens=10_000)
    >>> round(Price(input=0.30, output=2.50).of(night), 3)
    0.085
    """

    input: float = Field(ge=0.0)
    output: float = Field(ge=0.0)

    def of(self, usage: Usage) -> float:
        return (self.input * usage.input_tokens + self.output * usage.output_tokens) / 1e6


Refuser = Literal["the program", "a second reading", "the model", "a person", "the agent"]
"""Who did not take a merged text; the agent: it was only proposed to it."""


class Refusal(Frozen):
    """A merged text that was proposed for some memories and refused.

    `members`: the ids of these memories, oldest first. `by`: who refused the text. `why`: what the
    text lost or added, or what it did not fit. `key`: a hash of the text and of its members' texts.
    The same text for the same memories is not read again.

    >>> from memory.decide import resolve
    >>> pets = tuple(store.new_memory(text) for text in ("Mia has a cat.", "Mia has a dog."))
    >>> verdict = Verdict(parts=(MergeGroup(members=(0, 1), text="Mia has a cat and 2 dogs."),))
    >>> [part] = resolve(Question(pets, "similar", similarity=0.9), verdict)
    >>> part.refusal.by, part.refusal.why
    ('the program', 'the merged text states what no memory states: 2')
    """

    members: tuple[str, ...]
    text: str
    by: Refuser
    why: str
    key: str


@dataclass(frozen=True)
class Survivor:
    """A memory that is live after a decision, and the ids of the memories that it replaces.

    `version`: a retired memory that keeps the former text of `memory`; None if the text of `memory`
    stays the same.

    >>> old, new = (store.new_memory(text) for text in ("Mia has a cat.", "Mia has a red cat."))
    >>> decision, _ = decide_new(new, [SearchResult(old, similarity=0.96)], Rules())
    >>> [(one.memory.content, one.stands_for == (old.id,)) for one in decision.survivors]
    [('Mia has a red cat.', True)]
    """

    memory: Memory
    stands_for: tuple[str, ...] = ()
    version: Memory | None = None


@dataclass(frozen=True)
class Condition:
    """A state of the ledger that a decision needs when it is applied; by default, any.

    It is checked in the transaction that applies the decision. Each field that is set adds a check:

    - `revision`: no stored member has changed after this revision of the ledger, at which the
      members were read. Changes of a member's links do not count.
    - `bound_by`: neither a person nor one of these judges called two members distinct that the
      decision joins.
    - `min_similarity`: no memory with the new memory's text, or at least this similar to it, was
      written after `revision`. Memories in `Decision.candidates` do not count.
    - `is_answer`: the decision is a person's answer, and does not repeat an earlier answer that
      keeps all members apart, or leaves them all for later.

    >>> old = memories.remember("Yan has a cat.", user="Yan").memory
    >>> with store.ledger.reading() as reader:
    ...     condition = Condition(revision=reader.revision())
    >>> new = memories.update(old.id, "Yan has two cats.")
    >>> conflict = store.apply(Decision(Action.KEEP_BOTH, "", (old,), condition=condition))
    >>> conflict.why == f"{old.id} changed"
    True
    """

    revision: int | None = None
    bound_by: tuple[Judge, ...] | None = None
    min_similarity: float | None = None
    is_answer: bool = False


class Succession(NamedTuple):
    """The ids of two memories of which, a model says, the newer ends the older, and why.

    >>> from memory.decide import successions
    >>> homes = store.new_memory("Mia lives in Porto."), store.new_memory("Mia lives in Faro now.")
    >>> verdict = Verdict(updates=(NamedUpdate(older=0, newer=1, reason="she moved"),))
    >>> [found] = successions(Question(homes, "similar", similarity=0.9), verdict)
    >>> found.older_id == homes[0].id, found.why
    (True, 'she moved')
    """

    older_id: str
    newer_id: str
    why: str


@dataclass(frozen=True)
class Decision:
    """A complete decision about some memories, ready to be applied.

    `members`: the memories that the decision is about, oldest first, in their state before the
    decision. One of them may be a new memory, which is stored with the decision. `survivors`: the
    memories that replace members or get new values. The decision changes no other members.

    `candidates`: the memories that a new memory was compared with, as (id, similarity), most
    similar first. `distinct`: pairs of ids of memories whose texts were judged to state different
    things. `pending`: whether the question about the members stays open. `model`: the name of the
    model that was asked; PERSON if a person decided; None if neither was asked.

    `similarity` and `cosine` are those of the compared memories on which the decision is based. For
    more than two memories, they are the lowest. Each of them is None if it was not recorded.

    `refused`: the merged texts about these memories that were refused on the way to this decision.
    `successions`: what the model named besides, to be read when this decision is applied.

    `arrival`: the member that is not stored yet, with its vector; None if all members are stored.
    `condition`: what must still hold when the decision is applied. A decision about a new memory
    also fails if this memory was stored meanwhile, or if another memory took its id.

    >>> old, new = (store.new_memory(text) for text in ("Mia has a cat.", "Mia has a red cat."))
    >>> decision, _ = decide_new(new, [SearchResult(old, similarity=0.96)], Rules())
    >>> decision.action.value, decision.reason, decision.retired == (old.id,)
    ('replace', 'the newer states all of the older', True)
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
    refused: tuple[Refusal, ...] = ()
    successions: tuple[Succession, ...] = ()
    arrival: Embedded | None = field(default=None, compare=False, repr=False)
    condition: Condition = Condition()

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

    `members` are ordered oldest first. `reason` says why a model must decide. `objection` says why
    the model's previous answer to this question was refused; it is "" at the first attempt.

    `is_page`: whether the memories form a page. A page shows up to 48 memories of one scope, also
    dissimilar ones. Only the instructions for the model differ; the answer has the same form.

    `similarity` is the lowest similarity of two members, or 0.0 for a page. `cosine` is the lowest
    cosine of two members; None if it was not recorded.

    >>> cats = tuple(store.new_memory(text) for text in ("Mia has a cat.", "Mia really has a cat!"))
    >>> Question(cats, "similar", similarity=0.92, cosine=0.80).are_copies
    False
    >>> (await model.judge(Question(cats, "similar", similarity=0.92))).parts[0].members
    (0, 1)
    """

    members: tuple[Memory, ...]
    reason: str
    similarity: float
    cosine: float | None = None
    objection: str = ""
    is_page: bool = False

    @property
    def are_copies(self) -> bool:
        """Whether the two least similar members have a cosine of at least `COPIES_FROM`."""
        return (self.similarity if self.cosine is None else self.cosine) >= COPIES_FROM


class MergeGroup(Frozen):
    """Memories of a question that state the same fact, and one text that replaces their texts.

    `members` are positions in `Question.members`, from 0. `reason`: why, in a few words.

    >>> cats = tuple(store.new_memory(text) for text in ("Mia has a cat.", "Mia really has a cat!"))
    >>> verdict = await model.judge(Question(cats, "similar", similarity=0.97))
    >>> [(group.members, group.text) for group in verdict.parts]
    [((0, 1), 'Mia really has a cat!')]
    """

    members: tuple[int, ...] = Field(min_length=2)
    text: Cleaned
    reason: Cleaned = ""


class NamedUpdate(Frozen):
    """Two memories of a question of which the newer ends the older: nothing of it holds any more.

    Both are positions in `Question.members`, from 0. `reason`: why, in a few words.

    >>> homes = store.new_memory("Mia lives in Porto."), store.new_memory("Mia lives in Faro now.")
    >>> verdict = Verdict(updates=(NamedUpdate(older=0, newer=1, reason="she moved"),))
    >>> [homes[update.older].content for update in verdict.updates]  # what would be superseded
    ['Mia lives in Porto.']
    """

    older: int
    newer: int
    reason: Cleaned = ""


class Verdict(Frozen):
    """A language model's answer to a question.

    `parts` are the groups of memories to merge, and `updates` the memories that newer ones end. All
    other memories stay as they are.

    >>> pets = tuple(store.new_memory(text) for text in ("Mia has a cat.", "Mia has no cat."))
    >>> (await model.judge(Question(pets, "similar", similarity=0.93))).parts  # both stay
    ()
    """

    parts: tuple[MergeGroup, ...] = ()
    updates: tuple[NamedUpdate, ...] = ()
    reason: Cleaned = ""
    usage: Usage = Usage(calls=1)


MOST_ON_PAGE = 48
"""The most memories of a page, which a model reads at once."""
NEIGHBOURS = 10
"""A page is grown from this many nearest neighbours of each memory."""
MOST_READ = 16
"""The maximum number of merges in one `LanguageModel.reread` call."""


@dataclass(frozen=True)
class ProposedMerge:
    """Memories, oldest first, and the one text that is proposed to replace them.

    `ends`: whether the text is that of the newest memory, which is proposed to supersede the others
    because nothing of them holds any more.

    >>> old, new = store.new_memory("Mia rows."), store.new_memory("Mia rows and sails.")
    >>> ProposedMerge((old, new), "Mia rows and sails!").unchanged == new
    True
    >>> ProposedMerge((old, new), "Mia sails and rows.").unchanged is None
    True
    """

    members: tuple[Memory, ...]
    text: str
    ends: bool = False

    @property
    def unchanged(self) -> Memory | None:
        """The newest member that has the text already; None if no member has it."""
        texts = [identity(member.content) for member in self.members]
        same = [
            one for one, own in zip(self.members, texts, strict=True) if own == identity(self.text)
        ]
        return same[-1] if same else None

    @property
    def said(self) -> datetime | None:
        """The moment from which relative words of the merged text will count.

        It is that of the newest member, unless a member stays because it has the text already.
        """
        return (self.unchanged or self.members[-1]).said


class MergeReading(Frozen):
    """The result of comparing a merged text with the memories that it would replace.

    >>> MergeReading().accepted, MergeReading(lost=("the dog's name",)).accepted
    (True, False)
    """

    lost: tuple[Cleaned, ...] = ()
    """What the memories state and the merged text does not."""
    added: tuple[Cleaned, ...] = ()
    """What the merged text states and none of the memories does."""

    @property
    def accepted(self) -> bool:
        return not (self.lost or self.added)


class Rereading(Frozen):
    """A language model's check of several proposed merges.

    `readings` has one item for each merge, in order. The item is None if the model did not check
    the merge. Such a merge is refused.

    >>> checked = Rereading(readings=(MergeReading(), MergeReading(added=("in 2019",)), None))
    >>> [reading is not None and reading.accepted for reading in checked.readings]
    [True, False, False]
    """

    readings: tuple[MergeReading | None, ...] = ()
    usage: Usage = Usage(calls=1)


@dataclass(frozen=True)
class Outcome:
    """The result of a decision that was applied.

    `memory` is the new memory that the decision was about. If all its memories were stored before,
    `memory` is the newest of them. If the memory is retired now, its live successor is given.
    `pending`: whether a later batch will ask a model about the memory. `model`: as in `Decision`.
    `number`: the number of the decision in the ledger, which `undo` takes; 0 if nothing was
    decided, because the memory was already stored. `retired`: the memories that another one
    replaces since this decision.

    >>> outcome = memories.remember("Otto rows.", user="Otto")
    >>> outcome.action.value, outcome.memory.content, outcome.retired
    ('add', 'Otto rows.', ())
    """

    memory: Memory
    action: Action
    reason: str
    usage: Usage = field(default_factory=Usage)
    pending: bool = False
    model: str | None = None
    number: int = 0
    retired: tuple[Memory, ...] = ()

    def __repr__(self) -> str:
        gone = f", retired={[one.id for one in self.retired]}" if self.retired else ""
        said = f"{self.action.value!r}, {self.reason!r}, number={self.number}"
        return f"Outcome({said}, memory={self.memory!r}{gone})"


# --- the report of a run over the whole store -------------------------------------------------


class MemberReport(Frozen):
    """A memory of a group, and its `fate` in a run.

    The fate is "keep" if the memory stays live, "retire" if another memory replaces it, and "judge"
    if a model must decide. In a group of which a run joined other members, it is "beside".

    >>> copies = [store.new_memory(text, user="Amy") for text in ("Amy rows.", "Amy rows!")]
    >>> count = store.add_batch(copies)
    >>> [group] = [one for one in memories.clean(dry_run=True).groups if one.user == "Amy"]
    >>> [(member.content, member.fate) for member in group.members]
    [('Amy rows.', 'retire'), ('Amy rows!', 'keep')]
    """

    id: str
    content: str
    timestamp: datetime
    fate: str


class GroupReport(Frozen):
    """A group of similar memories, and what a run over the whole store does with them.

    `members` are ordered oldest first. `similarities` holds triples (a, b, similarity); a and b are
    positions in `members`, from 0. `differences` say how members differ from the newest; a group
    that a run leaves as it is has none. `made`: the texts of the survivors. `refused`: the merged
    texts that were refused.

    >>> copies = [store.new_memory(text, user="Ada") for text in ("Ada rows.", "Ada rows!")]
    >>> count = store.add_batch(copies)
    >>> [group] = [one for one in memories.clean(dry_run=True).groups if one.user == "Ada"]
    >>> group.action, group.reason, group.similarities
    ('replace', 'same text', ())
    """

    user: str | None
    is_private: bool
    action: str
    reason: str
    members: tuple[MemberReport, ...]
    similarities: tuple[tuple[int, int, float], ...]
    differences: tuple[str, ...]
    made: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()


class JustBelow(Frozen):
    """The number of `pairs` of memories that are just too dissimilar for a question to the model.

    A pair is counted if its similarity is at least `low` and less than `high`. `high` is the
    setting `Rules.lower`. `low` is at most 0.05 less.

    >>> below = memories.clean(dry_run=True).just_below
    >>> f"from {below.low} to less than {below.high}"
    'from 0.85 to less than 0.9'
    """

    low: float
    high: float
    pairs: int


class SimilarityHistogram(Frozen):
    """The distribution of similarities over all pairs of memories in the same scope.

    >>> copies = [store.new_memory(text, user="Abe") for text in ("Abe rows.", "Abe rows!")]
    >>> count = store.add_batch(copies)
    >>> found = similarity_histogram(store.snapshot(), store.scope_of, store.scale)
    >>> found.counts[-1] > 0, found.exact  # the last range has the pairs of equal texts
    (True, True)
    """

    counts: tuple[int, ...]
    """The number of pairs in each of n equal ranges of similarity from 0 to 1, lowest first.

    The first range includes negative similarities.
    """
    pairs: int
    exact: bool
    """Whether all pairs were counted; False if the counts are estimated from a sample."""


RunStage = Literal["rules", "questions", "pages"]


class RunEvent(Frozen):
    """The progress of a run over the whole store.

    `done` of the `total` steps of the present `stage` are finished. A step of `rules` or
    `questions` is a group; a step of `pages` is a page. `left_s`: about how many seconds the stage
    will still take; None if unknown.

    So far in this run, the model named `groups` groups on pages, compared merged texts with their
    memories in `readings` calls, and was asked once more about refused texts in `retries` calls.
    `usage` is the cost of all calls, `money` its price; None if no price is configured.

    >>> copies = [store.new_memory(text, user="Abe") for text in ("Abe rows.", "Abe rows!")]
    >>> count = store.add_batch(copies)
    >>> events: list[RunEvent] = []
    >>> report = await deduplicator.deduplicate_all(on_event=events.append)
    >>> events[-1].stage, events[-1].done == events[-1].total
    ('rules', True)
    """

    stage: RunStage
    done: int
    total: int
    groups: int = 0
    readings: int = 0
    retries: int = 0
    usage: Usage = Usage()
    money: float | None = None
    left_s: float | None = None


class DeduplicationReport(Frozen):
    """The report of a run over the whole store.

    If `dry_run` is true, nothing was changed, and the report says what a run would do. Then
    `retired` counts only the memories that can be retired without a model, and `memories_after`
    equals `memories`.

    Only a dry run sets `just_below`, `characters` and `estimated_model_calls`. `characters` is the
    number of characters in the memories of all questions for the model. `estimated` is the forecast
    for the first round; a real run sets it only if `on_plan` was given.

    `left` is the number of groups that wait for the next run, and `pages_left` is the number of
    pages that do. The usual reason is that this run had no model calls left.

    >>> copies = [store.new_memory(text, user="Alf") for text in ("Alf rows.", "Alf rows!")]
    >>> count = store.add_batch(copies)
    >>> report = memories.clean(dry_run=True)
    >>> report.memories - report.memories_after, report.retired > 0
    (0, True)
    >>> report = memories.clean()
    >>> report.memories - report.memories_after == report.retired
    True
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
    """The number of groups that a dry run found, or that a real run decided about.

    In a dry run, `groups` may list only some of the groups that were found.
    """
    groups: tuple[GroupReport, ...] = Field(repr=False)  # asyncio.run writes its result out
    decisions: dict[str, int]
    reasons: dict[str, int]
    retired: int
    merged: int
    pending: int
    """The number of questions that the model failed to answer; a later run repeats them."""
    left: int
    refused: int = 0
    """The number of merged texts that were refused and that nothing replaced."""
    pages: int = 0
    readings: int = 0
    """The number of calls in which the model compared merged texts with their memories."""
    retries: int = 0
    """The number of calls in which the model was asked once more about refused texts."""
    pages_left: int = 0
    characters: int = 0
    failure: str = ""
    """Why every call of the model failed; empty if a call succeeded or none was made."""
    undecided: int
    """The number of pairs of texts that the model is not asked about for now.

    The model failed to judge these texts. It is asked again after a pause, but not after five
    failures.
    """
    usage: Usage
    questions: int = 0
    estimated_model_calls: int
    estimated: Usage = Usage()
    money: float | None = None
    model: str
    seconds: float

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield what `repr` shows: what a run found and did, and no zeros."""
        for name, value in super().__repr_args__():
            if value and value not in (self.just_below, Usage()):
                yield name, value
