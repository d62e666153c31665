"""Values that the ledger returns: memories, decisions, runs and turns as stored."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from memory.models import PERSON, Action, KeptCandidate, Memory, Turn, Usage

REVERSIBLE = (Action.REPLACE, Action.MERGE, Action.UPDATE)
"""The actions that retire memories and can be undone."""


class KnownPair(NamedTuple):
    """A pair of texts in a scope, and the verdict that they are distinct.

    `by` is the judge who gave it (person, model or offline). `reason` and `by` are None if there is
    no verdict.
    """

    scope: str
    low_key: str
    high_key: str
    reason: str | None
    by: str | None

    @property
    def pair(self) -> tuple[str, str, str]:
        """The scope's key and both text keys, which identify the pair."""
        return self.scope, self.low_key, self.high_key

    def quotes(self, reasons: Collection[str], keys: Collection[str]) -> bool:
        """Whether the verdict has one of these reasons, and the pair one of these text keys."""
        return self.reason in reasons and (self.low_key in keys or self.high_key in keys)


ScopeValues = Mapping[str, Any]
"""The values of a memory from which its scope is made, by field name."""
NOTHING_BEFORE = '{"rows": {}, "links": []}'
"""An empty image. An image is JSON with the rows and links that undo restores."""
FORGOTTEN_REASON = "forgotten"
"""The reason of a decision or verdict about a memory that was forgotten afterwards."""
VERDICTS = "distinct"
"""Key in the image of a person's decision: the earlier verdicts on pairs that it concerns."""


def with_verdicts(image: str, verdicts: Sequence[KnownPair]) -> str:
    """Add earlier verdicts to an image, the JSON with the state that undo restores."""
    return json.dumps({**json.loads(image), VERDICTS: verdicts})


@dataclass(frozen=True)
class Row:
    """A memory as stored. `seq` numbers the rows in order of arrival.

    `text_key` is the same for equal texts. `identity_hash` recognises a memory that arrives again.
    """

    memory: Memory
    live: bool
    successor_id: str | None
    text_key: str
    identity_hash: str
    seq: int
    revision: int

    @property
    def forgotten(self) -> bool:
        """Whether the row is a tombstone: the memory was forgotten, and only its id is left."""
        return not self.text_key


class Change(NamedTuple):
    """The current state of a row that was written after a given revision.

    `number` numbers the rows in order of arrival.
    """

    id: str
    live: bool
    values: ScopeValues
    text_key: str
    """The key of the memory's text, and so of its vector; empty if the memory was forgotten."""
    revision: int
    number: int


class LiveRow(NamedTuple):
    """A live memory with the values from which its scope is made.

    `number` numbers the rows in order of arrival.
    """

    id: str
    text_key: str
    values: ScopeValues
    number: int


@dataclass(frozen=True)
class DecisionRecord:
    """A decision as stored.

    `number` identifies it and counts up. `run` names its batch or import. `before` is its image:
    JSON with the rows and links that undo restores.
    """

    number: int
    run: str | None
    at: datetime
    action: Action
    reason: str
    similarity: float | None
    members: tuple[str, ...]
    survivors: tuple[tuple[str, tuple[str, ...]], ...]
    """The id of each memory that stayed or was made, and of the retired ones that it replaces."""
    before: str
    pending: bool
    undone: bool
    model: str | None
    cosine: float | None = None
    verified: str | None = None

    @property
    def scrubbed(self) -> bool:
        """Whether a memory in the image was forgotten, so that undo cannot restore it."""
        image = json.loads(self.before)
        return None in image["rows"].values() or image.get(VERDICTS, ()) is None

    @property
    def by_person(self) -> bool:
        """Whether a person made the decision."""
        return self.model == PERSON

    @property
    def left_for_later(self) -> bool:
        """Whether a person postponed the question instead of answering it."""
        return self.by_person and not self.survivors and not self.verdicts

    @property
    def reversible(self) -> bool:
        """Whether it can be undone: the decision retired a memory, or a person kept all members."""
        return self.action in REVERSIBLE or (self.by_person and self.action is Action.KEEP_BOTH)

    @property
    def verdicts(self) -> tuple[KnownPair, ...]:
        """The verdicts, before a person's decision, on the pairs that it called distinct."""
        return tuple(KnownPair(*one) for one in json.loads(self.before).get(VERDICTS) or ())

    @property
    def created(self) -> tuple[str, ...]:
        """Ids of the rows that the decision created: survivors and old versions, but no members."""
        named = [name for survivor, retired in self.survivors for name in (survivor, *retired)]
        return tuple(name for name in dict.fromkeys(named) if name not in self.members)

    @property
    def joined(self) -> tuple[str, ...]:
        """Ids of the members that became one memory with others; all members if none did."""
        named = {name for end, stands_for in self.survivors for name in (end, *stands_for)}
        return tuple(name for name in self.members if name in named) or self.members

    @property
    def involved(self) -> tuple[str, ...]:
        """Ids of the members and of the rows that the decision created."""
        return (*self.members, *self.created)


class Step(NamedTuple):
    """A decision without its image: how it changed the number of memories, and what it cost.

    `survivors`: the id of each memory that stayed or was made, and of those that it replaces.
    """

    at: datetime
    action: Action
    members: tuple[str, ...]
    survivors: tuple[tuple[str, tuple[str, ...]], ...]
    undone: bool
    usage: Usage


class Attempt(NamedTuple):
    """A pair of texts that a model failed to judge `attempts` times.

    `next_at` is when the model is asked again, in UTC; None means never.
    """

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
    """How far a vector index has followed the ledger."""

    watermark: int
    """The last revision that the index contains."""
    stale: bool
    """Whether the index may still hold vectors of forgotten memories."""


@dataclass(frozen=True)
class PendingTurn:
    """A turn that waits for extraction.

    `name` and the text recognise it if it is sent again. `attempts` counts failed extractions.
    `candidates` is what a model found in the turn; None if it was not asked yet. A forgotten
    candidate is replaced by None, so that the others keep their positions.
    """

    seq: int
    name: str
    turn: Turn
    attempts: int
    candidates: tuple[KeptCandidate | None, ...] | None


@dataclass(frozen=True)
class Waiting:
    """A conversation with the number of its waiting turns, and how long the first has waited."""

    conversation: str
    turns: int
    waited_s: float


@dataclass(frozen=True)
class Lease:
    """The right to extract a conversation, valid while the ledger holds this token for it."""

    conversation: str
    token: str


@dataclass(frozen=True)
class StoredItem:
    """A value stored under a key of a namespace. `value` is JSON, byte for byte as given."""

    namespace: tuple[str, ...]
    key: str
    value: str
    memory_id: str | None
    """The memory that was made from the value's text; None if none was."""
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Counts:
    """Numbers of rows in the ledger.

    `users`: live memories of each user; `decisions`: decisions by action; `pending`: decisions made
    without a model's answer; `turns`: turns that wait for extraction.
    """

    live: int
    retired: int
    users: dict[str | None, int]
    decisions: dict[str, int]
    pending: int
    turns: int
