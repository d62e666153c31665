"""Values that the ledger returns: memories, decisions, runs and turns as stored."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from memory.models import PERSON, Action, KeptCandidate, Memory, Turn, Usage

REVERSIBLE = (Action.REPLACE, Action.MERGE, Action.UPDATE)
"""Actions that retire memories and can be undone."""


class KnownPair(NamedTuple):
    """A pair of texts and its verdict; `reason` and `by` are None if there is none."""

    scope: str
    low_key: str
    high_key: str
    reason: str | None
    by: str | None

    @property
    def pair(self) -> tuple[str, str, str]:
        """The scope and both text keys."""
        return self.scope, self.low_key, self.high_key

    def quotes(self, reasons: Collection[str], keys: Collection[str]) -> bool:
        """Whether its reason is one of these, and one of its texts too."""
        return self.reason in reasons and (self.low_key in keys or self.high_key in keys)


ScopeValues = Mapping[str, Any]
"""The values of a memory that scopes compare, by field name."""
NOTHING_BEFORE = '{"rows": {}, "links": []}'
"""The image of a decision that undo need not restore anything for."""
FORGOTTEN_REASON = "forgotten"
"""The reason of a decision about a memory since forgotten."""
VERDICTS = "distinct"
"""The key, in the image of a person's decision, of the earlier verdicts on its pairs."""


def with_verdicts(image: str, verdicts: Sequence[KnownPair]) -> str:
    """Return an image with earlier verdicts added."""
    return json.dumps({**json.loads(image), VERDICTS: verdicts})


@dataclass(frozen=True)
class Row:
    """A memory as stored; `seq` is its order of arrival."""

    memory: Memory
    live: bool
    successor_id: str | None
    text_key: str
    identity_hash: str
    seq: int
    revision: int

    @property
    def forgotten(self) -> bool:
        """Whether it is a tombstone."""
        return not self.text_key


class Change(NamedTuple):
    """The current state of a row that was written; `number` is its order of arrival."""

    id: str
    live: bool
    values: ScopeValues
    text_key: str
    """The key of its vector; empty if it was forgotten."""
    revision: int
    number: int


class LiveRow(NamedTuple):
    """A live row with the values that scopes compare; `number` is its order of arrival."""

    id: str
    text_key: str
    values: ScopeValues
    number: int


@dataclass(frozen=True)
class DecisionRecord:
    """A decision as stored; `before` is the state that undo restores, as JSON."""

    number: int
    run: str | None
    at: datetime
    action: Action
    reason: str
    similarity: float | None
    members: tuple[str, ...]
    survivors: tuple[tuple[str, tuple[str, ...]], ...]
    """Ids of the survivors, each with the ids of the memories it stands for."""
    before: str
    pending: bool
    undone: bool
    model: str | None
    cosine: float | None = None
    verified: str | None = None

    @property
    def scrubbed(self) -> bool:
        """Whether a member has been forgotten."""
        image = json.loads(self.before)
        return None in image["rows"].values() or image.get(VERDICTS, ()) is None

    @property
    def by_person(self) -> bool:
        """Whether a person decided it."""
        return self.model == PERSON

    @property
    def left_for_later(self) -> bool:
        """Whether a person has only postponed its question."""
        return self.by_person and not self.survivors and not self.verdicts

    @property
    def reversible(self) -> bool:
        """Whether it can be undone: it retired a memory, or a person made it."""
        return self.action in REVERSIBLE or (self.by_person and self.action is Action.KEEP_BOTH)

    @property
    def verdicts(self) -> tuple[KnownPair, ...]:
        """The earlier verdicts on the pairs that a person called distinct."""
        return tuple(KnownPair(*one) for one in json.loads(self.before).get(VERDICTS) or ())

    @property
    def created(self) -> tuple[str, ...]:
        """Ids of the rows that this decision created."""
        named = [name for survivor, retired in self.survivors for name in (survivor, *retired)]
        return tuple(name for name in dict.fromkeys(named) if name not in self.members)

    @property
    def joined(self) -> tuple[str, ...]:
        """Ids of the members that it joined, without those that stayed as they were."""
        named = {name for end, stands_for in self.survivors for name in (end, *stands_for)}
        return tuple(name for name in self.members if name in named) or self.members

    @property
    def involved(self) -> tuple[str, ...]:
        """Ids of its members and of the rows that it created."""
        return (*self.members, *self.created)


class Step(NamedTuple):
    """The effect of a decision on the number of memories, and its cost."""

    at: datetime
    action: Action
    members: tuple[str, ...]
    survivors: tuple[tuple[str, tuple[str, ...]], ...]
    undone: bool
    usage: Usage


class Attempt(NamedTuple):
    """A pair of texts that a model failed at, and when it is asked again; None means never."""

    low_key: str
    high_key: str
    model: str
    attempts: int
    next_at: str | None


@dataclass(frozen=True)
class Run:
    """The decisions of one batch or import, counted by action."""

    name: str
    began_at: datetime
    decisions: dict[str, int]
    pending: int
    undone: int


@dataclass(frozen=True)
class IndexState:
    """How far an index has followed, and whether it may still hold forgotten memories."""

    watermark: int
    stale: bool


@dataclass(frozen=True)
class PendingTurn:
    """A turn that waits for extraction, under the name by which it is recognised.

    `candidates` is what a model found in it, None before it was asked. A forgotten candidate is
    None too, so that the others keep their positions.
    """

    seq: int
    name: str
    turn: Turn
    attempts: int
    candidates: tuple[KeptCandidate | None, ...] | None


@dataclass(frozen=True)
class Waiting:
    """A conversation with turns to extract, and how long the first has waited."""

    conversation: str
    turns: int
    waited_s: float


@dataclass(frozen=True)
class Lease:
    """The right to extract a conversation while the ledger holds this token."""

    conversation: str
    token: str


@dataclass(frozen=True)
class StoredItem:
    """A value stored under a key of a namespace, as JSON, byte for byte as given."""

    namespace: tuple[str, ...]
    key: str
    value: str
    memory_id: str | None
    """The memory made of its text, if any."""
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Counts:
    """The numbers of rows in the ledger; `turns` are those that wait for extraction."""

    live: int
    retired: int
    users: dict[str | None, int]
    decisions: dict[str, int]
    pending: int
    turns: int
