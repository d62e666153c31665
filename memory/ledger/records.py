"""Values that the ledger returns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from memory.models import PERSON, Action, KeptCandidate, Memory, Refusal, Turn

REVERSIBLE = (Action.REPLACE, Action.MERGE, Action.UPDATE, Action.SUPERSEDE)
"""The actions that retire memories and can be undone."""


class KnownPair(NamedTuple):
    """A pair of texts in a scope, and the verdict that the two texts are distinct.

    `scope`: the key of the scope. `low_key` and `high_key`: the `dated_key` of the two texts, in
    sorted order; in decisions of schema 8, their `text_key`. `by`: the judge who called the texts
    distinct. `reason`: why. `by` and `reason` are None if there is no verdict.
    """

    scope: str
    low_key: str
    high_key: str
    reason: str | None
    by: str | None

    @property
    def pair(self) -> tuple[str, str, str]:
        return self.scope, self.low_key, self.high_key


ScopeValues = Mapping[str, Any]
"""A memory's values in the fields that can define a scope, by field name."""
NOTHING_BEFORE = '{"rows": {}, "links": []}'
"""The saved state of a decision that has nothing to restore."""
FORGOTTEN_REASON = "forgotten"
"""The text that replaces the reason of a decision or verdict about a forgotten memory."""
VERDICTS = "distinct"


def with_verdicts(image: str, verdicts: Sequence[KnownPair]) -> str:
    """Return `image`, the JSON that a decision saves for undo, with `verdicts` added."""
    return json.dumps({**json.loads(image), VERDICTS: verdicts})


@dataclass(frozen=True)
class Row:
    """A memory as stored. `seq` numbers the rows in order of arrival.

    `text_key`: a key made from the text alone; "" if the memory was forgotten. `dated_key`: the key
    of the text and of the dates that it means, under which verdicts are stored. `identity_hash`: a
    hash that recognises the memory if it arrives again. `revision`: the number of the transaction
    that wrote the row last. `until`: when what a superseded memory states ceased to hold; None for
    all others. Its successor supersedes it.
    """

    memory: Memory
    live: bool
    successor_id: str | None
    text_key: str
    dated_key: str
    identity_hash: str
    seq: int
    revision: int
    until: datetime | None = None

    @property
    def forgotten(self) -> bool:
        return not self.text_key


class Change(NamedTuple):
    """A memory that an index must read again, because it was written after a given revision.

    `text_key` is "" for a forgotten memory. `number` is the position in order of arrival.
    """

    id: str
    live: bool
    values: ScopeValues
    text_key: str
    revision: int
    number: int


class LiveRow(NamedTuple):
    """A live memory with the values that decide its scope.

    `number`: the memory's position in order of arrival.
    """

    id: str
    text_key: str
    values: ScopeValues
    number: int


@dataclass(frozen=True)
class DecisionRecord:
    """A decision as stored. Its `number` increases with each new decision.

    `run`: the batch or import that made the decision, if any. `members`: the ids of the memories
    that the decision is about. `survivors` has pairs: the id of a memory that the decision kept
    live, and the ids of the memories that it replaced. `before`: JSON with the state that undo
    restores: rows of the table `memories`, links and verdicts. `model`: the model's name, or
    "person"; None if rules decided alone. `refused`: the merged texts that were refused.

    `similarity` and `cosine`: those of the compared memories on which the decision is based. For
    more than two memories, they are the lowest. Each of them is None if it was not recorded.

    `verified`: how merged texts were checked: "by words", which is a comparison of their words with
    those of the members; "by a second reading" of a model; or "by a person". None if no check is
    recorded.

    >>> outcome = memories.remember("Ari rows.", user="Ari")
    >>> newer = memories.remember("Ari rows!", user="Ari")
    >>> [record] = store.history(newer.memory.id)[-1:]
    >>> record.reason, record.reversible, record.number == newer.number
    ('same text', True, True)
    """

    number: int
    run: str | None
    at: datetime
    action: Action
    reason: str
    similarity: float | None
    members: tuple[str, ...]
    survivors: tuple[tuple[str, tuple[str, ...]], ...]
    before: str
    pending: bool
    undone: bool
    model: str | None
    cosine: float | None = None
    verified: str | None = None
    refused: tuple[Refusal, ...] = ()

    @property
    def scrubbed(self) -> bool:
        """Whether a memory in `before` was forgotten later, so that undo cannot restore it."""
        image = json.loads(self.before)
        return None in image["rows"].values() or image.get(VERDICTS, ()) is None

    @property
    def by_person(self) -> bool:
        return self.model == PERSON

    @property
    def left_for_later(self) -> bool:
        return self.by_person and not self.survivors and not self.verdicts

    @property
    def reversible(self) -> bool:
        """Whether undo accepts this kind of decision.

        Undo accepts decisions that retire memories, and a person's decisions to keep all members.
        """
        return self.action in REVERSIBLE or (self.by_person and self.action is Action.KEEP_BOTH)

    @property
    def verdicts(self) -> tuple[KnownPair, ...]:
        """The pairs of texts that a person called distinct in this decision.

        Each pair comes with the earlier verdict on the pair, not with this person's verdict. Undo
        restores the earlier verdict. There are no pairs if a model or rules decided, or if the
        earlier verdicts were erased.
        """
        return tuple(KnownPair(*verdict) for verdict in json.loads(self.before).get(VERDICTS) or ())

    @property
    def created(self) -> tuple[str, ...]:
        """Ids of the rows that the decision created.

        These are new memories, and retired copies that keep the earlier text of a changed memory.
        """
        named = [name for survivor, retired in self.survivors for name in (survivor, *retired)]
        return tuple(name for name in dict.fromkeys(named) if name not in self.members)

    @property
    def joined(self) -> tuple[str, ...]:
        """Ids of the members that the decision kept live or replaced, as `survivors` records.

        If `survivors` names no member, the result has all members.
        """
        named = {name for end, stands_for in self.survivors for name in (end, *stands_for)}
        return tuple(name for name in self.members if name in named) or self.members

    @property
    def involved(self) -> tuple[str, ...]:
        return (*self.members, *self.created)


class Attempt(NamedTuple):
    """How often a model failed to judge a pair of texts.

    `next_at`: the time, in UTC, from which the model may be asked again; None means never.
    """

    low_key: str
    high_key: str
    model: str
    attempts: int
    next_at: str | None


@dataclass(frozen=True)
class Run:
    """A batch or import. `began_at` is the time of its first decision.

    `decisions`: the number of its decisions by action. `pending` and `undone`: how many of its
    decisions are pending or undone.
    """

    name: str
    began_at: datetime
    decisions: dict[str, int]
    pending: int
    undone: int


@dataclass(frozen=True)
class PendingTurn:
    """A turn that waits for extraction.

    `name`: the turn's id, or its position or time. `attempts`: the number of failed extractions.
    `candidates`: the facts that a model found in the turn, with None in place of each forgotten
    fact; None if no model has answered yet.
    """

    seq: int
    name: str
    turn: Turn
    attempts: int
    candidates: tuple[KeptCandidate | None, ...] | None


@dataclass(frozen=True)
class Waiting:
    """A conversation, the number of its turns that wait, and how long the first has waited."""

    conversation: str
    turns: int
    waited_s: float


@dataclass(frozen=True)
class Lease:
    """The right of one process to extract memories from a conversation.

    It is valid as long as the ledger stores its `token` for the conversation.
    """

    conversation: str
    token: str


@dataclass(frozen=True)
class StoredItem:
    """A value stored under a namespace and a key. `value` is JSON, byte for byte as given.

    It is deleted at `expires_at`, and kept for `ttl_minutes` after each access; None is for ever.

    >>> with store.ledger.writing() as writer:
    ...     writer.items.put(("app",), "k", '{"a":  1}', None, datetime.now(UTC))
    ...     writer.items.get(("app",), "k").value
    '{"a":  1}'
    """

    namespace: tuple[str, ...]
    key: str
    value: str
    memory_id: str | None
    created_at: datetime
    updated_at: datetime
    ttl_minutes: float | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True)
class Counts:
    """Numbers of rows. `users`: live memories of each user. `decisions`: decisions by action.

    `pending`: decisions whose question is still open. `refused`: decisions that refused a merged
    text. `turns`: turns that wait for extraction.
    """

    live: int
    retired: int
    users: dict[str | None, int]
    decisions: dict[str, int]
    pending: int
    refused: int
    turns: int
