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
    """A pair of texts in a scope, and the verdict that they are distinct (state different things).

    `scope` is the key of the scope; `low_key` and `high_key` are the keys of the texts, in sorted
    order. `by` is the judge who gave the verdict: person, model or offline. `reason` and `by` are
    None if there is no verdict.
    """

    scope: str
    low_key: str
    high_key: str
    reason: str | None
    by: str | None

    @property
    def pair(self) -> tuple[str, str, str]:
        return self.scope, self.low_key, self.high_key

    def quotes(self, reasons: Collection[str], keys: Collection[str]) -> bool:
        """Return whether `reasons` contains the reason, and `keys` the key of at least one text."""
        return self.reason in reasons and (self.low_key in keys or self.high_key in keys)


ScopeValues = Mapping[str, Any]
"""The values of a memory from which its scope is made, by field name."""
NOTHING_BEFORE = '{"rows": {}, "links": []}'
"""The saved state of a decision that has nothing to restore.

Each decision saves the rows and links that it changes, as JSON, so that undo can restore them.
"""
FORGOTTEN_REASON = "forgotten"
"""The text that replaces the reason of a decision or verdict about a forgotten memory."""
VERDICTS = "distinct"
"""Key of a list of verdicts in the JSON that a person's decision saves for undo.

They are the verdicts, before the decision, on the pairs of texts that it calls distinct.
"""


def with_verdicts(image: str, verdicts: Sequence[KnownPair]) -> str:
    """Return `image`, the JSON that a decision saves for undo, with `verdicts` added to it."""
    return json.dumps({**json.loads(image), VERDICTS: verdicts})


@dataclass(frozen=True)
class Row:
    """A memory as stored. `seq` numbers the rows in order of arrival.

    `successor_id`: the memory that replaced this one, if it is retired. `text_key`: a key made from
    the text alone; "" if the memory was forgotten. `identity_hash`: a hash of external id, user,
    privacy, time and text, by which the same memory is recognised if it arrives a second time.
    `revision`: the number of the transaction that wrote the row last.
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
    """A memory that was written after a given revision, for an index that follows the ledger.

    `values` are the values from which the memory's scope is made. `number` is its position in the
    order in which memories arrived.
    """

    id: str
    live: bool
    values: ScopeValues
    text_key: str
    """The key of the memory's text, under which its vector is stored; "" for a forgotten memory."""
    revision: int
    number: int


class LiveRow(NamedTuple):
    """A live memory with the values from which its scope is made.

    `number` is its position in the order in which memories arrived.
    """

    id: str
    text_key: str
    values: ScopeValues
    number: int


@dataclass(frozen=True)
class DecisionRecord:
    """A decision as stored.

    `number` identifies the decision and increases with each new one. `run` names the batch or
    import that made it, if any. `members` are the ids of the memories that it is about. `before` is
    the state before it: JSON with the rows and links that undo restores. `model` names the model,
    or is "person".
    """

    number: int
    run: str | None
    at: datetime
    action: Action
    reason: str
    similarity: float | None
    members: tuple[str, ...]
    survivors: tuple[tuple[str, tuple[str, ...]], ...]
    """Pairs of the id of a memory that stayed or was made, and the ids of memories it replaces."""
    before: str
    pending: bool
    undone: bool
    model: str | None
    cosine: float | None = None
    """The cosine from which `similarity` was computed; None if it equals `similarity`."""
    verified: str | None = None
    """How a merged text was checked: by words, by a second reading or by a person.

    None if there is no merged text.
    """

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
        """Whether a person postponed the question instead of answering it."""
        return self.by_person and not self.survivors and not self.verdicts

    @property
    def reversible(self) -> bool:
        """Whether this kind of decision can be undone.

        That is so if it retires memories, or if a person decided to keep them all.
        """
        return self.action in REVERSIBLE or (self.by_person and self.action is Action.KEEP_BOTH)

    @property
    def verdicts(self) -> tuple[KnownPair, ...]:
        """The pairs of texts that a person called distinct by this decision.

        Each pair comes with the verdict on it from before the decision, which undo restores. Empty
        if no person made the decision.
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
        """Ids of the members that `survivors` names, as survivor or as replaced memory.

        If `survivors` names no member, the ids of all members.
        """
        named = {name for end, stands_for in self.survivors for name in (end, *stands_for)}
        return tuple(name for name in self.members if name in named) or self.members

    @property
    def involved(self) -> tuple[str, ...]:
        """Ids of the members and of the rows that the decision created."""
        return (*self.members, *self.created)


class Step(NamedTuple):
    """A decision without the state that undo restores, for counting memories and costs over time.

    `members`: ids of the memories that it was about. `survivors`: pairs of the id of a memory that
    stayed or was made, and the ids of the memories that it replaces. `usage`: the model calls and
    tokens that the decision cost.
    """

    at: datetime
    action: Action
    members: tuple[str, ...]
    survivors: tuple[tuple[str, tuple[str, ...]], ...]
    undone: bool
    usage: Usage


class Attempt(NamedTuple):
    """A pair of texts that a model failed to judge `attempts` times.

    `low_key` and `high_key` are the keys of the texts, in sorted order. `next_at` is the time, in
    UTC, from which the model may be asked about the pair again; None means never.
    """

    low_key: str
    high_key: str
    model: str
    attempts: int
    next_at: str | None


@dataclass(frozen=True)
class Run:
    """A batch or import, with the numbers of its decisions.

    `decisions`: all its decisions, counted by action. `pending`: how many of them wait for a
    model's answer. `undone`: how many of them were undone. `began_at`: the time of the first
    decision.
    """

    name: str
    began_at: datetime
    decisions: dict[str, int]
    pending: int
    undone: int


@dataclass(frozen=True)
class IndexState:
    """How far a vector index has followed the ledger."""

    watermark: int
    """The last revision of the ledger that the index contains."""
    stale: bool
    """Whether the index may still hold vectors of forgotten memories."""


@dataclass(frozen=True)
class PendingTurn:
    """A turn that waits for extraction.

    `name` is the turn's id, or its position or time if it has no id; with the text, it identifies a
    turn that is sent a second time. `attempts` counts failed extractions. `candidates` are the
    facts that a model found in the turn; None if no model was asked yet. A fact that was forgotten
    is replaced by None, so that the other facts keep their positions.
    """

    seq: int
    name: str
    turn: Turn
    attempts: int
    candidates: tuple[KeptCandidate | None, ...] | None


@dataclass(frozen=True)
class Waiting:
    """A conversation with turns that wait for extraction.

    `turns` is their number, and `waited_s` how many seconds the first of them has waited.
    """

    conversation: str
    turns: int
    waited_s: float


@dataclass(frozen=True)
class Lease:
    """The right of one process to extract memories from a conversation.

    The lease is valid as long as the ledger stores its `token` for the conversation.
    """

    conversation: str
    token: str


@dataclass(frozen=True)
class StoredItem:
    """A value stored under a namespace and a key. `value` is JSON, byte for byte as given."""

    namespace: tuple[str, ...]
    key: str
    value: str
    memory_id: str | None
    """The id of the memory that was made from the value's text; None if there is none."""
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Counts:
    """Numbers of rows in the ledger.

    `live`, `retired`: memories in this state; `users`: live memories of each user; `decisions`:
    decisions by action; `pending`: decisions made without a model's answer; `turns`: turns that
    wait for extraction.
    """

    live: int
    retired: int
    users: dict[str | None, int]
    decisions: dict[str, int]
    pending: int
    turns: int
