"""What the ledger answers with: memories, decisions, runs, turns, as it holds them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from memory.models import PERSON, Action, KeptCandidate, Memory, Turn, Usage

REVERSIBLE = (Action.REPLACE, Action.MERGE, Action.UPDATE)
"""What retires something, and can be taken back."""


class KnownPair(NamedTuple):
    """A pair of texts, and what was said of it, by whom; None where nothing was."""

    scope: str
    low_key: str
    high_key: str
    reason: str | None
    by: str | None

    @property
    def pair(self) -> tuple[str, str, str]:
        """Without what was said of it."""
        return self.scope, self.low_key, self.high_key

    def quotes(self, reasons: Collection[str], keys: Collection[str]) -> bool:
        """Whether one of these reasons was given for it, and it has one of these texts."""
        return self.reason in reasons and (self.low_key in keys or self.high_key in keys)


ScopeValues = Mapping[str, Any]
"""What scopes compare of a memory, by the names of their fields."""
NOTHING_BEFORE = '{"rows": {}, "links": []}'
"""The image of what was before a decision that nothing need be taken back of."""
FORGOTTEN_REASON = "forgotten"
"""The reason that stays of a decision about a memory since forgotten."""
VERDICTS = "distinct"
"""In the image of what was before a person's decision: what was known of the pairs it parts."""


def with_verdicts(image: str, verdicts: Sequence[KnownPair]) -> str:
    """An image of what was before, with what was known of some pairs."""
    return json.dumps({**json.loads(image), VERDICTS: verdicts})


@dataclass(frozen=True)
class Row:
    """A memory as the ledger holds it."""

    memory: Memory
    live: bool
    successor_id: str | None
    text_key: str
    identity_hash: str
    seq: int
    """Order of arrival."""
    revision: int

    @property
    def forgotten(self) -> bool:
        """Whether only the id is left of it."""
        return not self.text_key


class Change(NamedTuple):
    """The current state of a row that was written, for whoever follows."""

    id: str
    live: bool
    values: ScopeValues
    """The fields a scope can be made of."""
    text_key: str
    """By which its vector is found; empty where it was forgotten."""
    revision: int
    number: int
    """Order of arrival."""


class LiveRow(NamedTuple):
    """A live row, and the fields a scope can be made of."""

    id: str
    text_key: str
    values: ScopeValues
    number: int
    """Order of arrival."""


@dataclass(frozen=True)
class DecisionRecord:
    """A decision as the ledger holds it; `before` is the state that undo goes back to, as JSON."""

    number: int
    run: str | None
    at: datetime
    action: Action
    reason: str
    similarity: float | None
    members: tuple[str, ...]
    survivors: tuple[tuple[str, tuple[str, ...]], ...]
    """Ids of those that lived on, each with the ids of those it stands for."""
    before: str
    pending: bool
    undone: bool
    model: str | None
    cosine: float | None = None
    verified: str | None = None

    @property
    def scrubbed(self) -> bool:
        """Whether a member was forgotten since."""
        image = json.loads(self.before)
        return None in image["rows"].values() or image.get(VERDICTS, ()) is None

    @property
    def by_person(self) -> bool:
        """Whether a person decided it."""
        return self.model == PERSON

    @property
    def left_for_later(self) -> bool:
        """Whether a person has only put its question off."""
        return self.by_person and not self.survivors and not self.verdicts

    @property
    def reversible(self) -> bool:
        """Whether it can be taken back: it retired something, or a person said it."""
        return self.action in REVERSIBLE or (self.by_person and self.action is Action.KEEP_BOTH)

    @property
    def verdicts(self) -> tuple[KnownPair, ...]:
        """What was known of the pairs that a person told apart, before that."""
        return tuple(KnownPair(*one) for one in json.loads(self.before).get(VERDICTS) or ())

    @property
    def created(self) -> tuple[str, ...]:
        """Ids of the rows that this decision made and its members did not have before."""
        named = [name for survivor, retired in self.survivors for name in (survivor, *retired)]
        return tuple(name for name in dict.fromkeys(named) if name not in self.members)

    @property
    def joined(self) -> tuple[str, ...]:
        """Ids of the members that it made one, without those that stayed beside them."""
        named = {name for end, stands_for in self.survivors for name in (end, *stands_for)}
        return tuple(name for name in self.members if name in named) or self.members

    @property
    def involved(self) -> tuple[str, ...]:
        """Ids of its members, and of all that it made."""
        return (*self.members, *self.created)


class Step(NamedTuple):
    """What a decision did to the number of memories, and what it cost."""

    at: datetime
    action: Action
    members: tuple[str, ...]
    survivors: tuple[tuple[str, tuple[str, ...]], ...]
    undone: bool
    usage: Usage


class Attempt(NamedTuple):
    """A pair of texts that a model failed at, and when it is asked again; None: not by itself."""

    low_key: str
    high_key: str
    model: str
    attempts: int
    next_at: str | None


@dataclass(frozen=True)
class Run:
    """What one batch or import decided."""

    name: str
    began_at: datetime
    decisions: dict[str, int]
    """How many of each action."""
    pending: int
    undone: int


@dataclass(frozen=True)
class IndexState:
    """How far an index has followed, and whether it may still hold what was forgotten."""

    watermark: int
    stale: bool


@dataclass(frozen=True)
class PendingTurn:
    """A turn that waits to be extracted, under the name that makes it known again.

    `candidates` is what a model found in it, once one was asked; None stands for one that was
    forgotten, so that the others keep their positions.
    """

    seq: int
    name: str
    turn: Turn
    attempts: int
    candidates: tuple[KeptCandidate | None, ...] | None


@dataclass(frozen=True)
class Waiting:
    """A conversation with turns to extract, and how long the first of them has waited."""

    conversation: str
    turns: int
    waited_s: float


@dataclass(frozen=True)
class Lease:
    """The right to extract a conversation, for as long as the ledger holds this token of it."""

    conversation: str
    token: str


@dataclass(frozen=True)
class StoredItem:
    """What was put under a key of a namespace, as JSON; byte for byte as it was put."""

    namespace: tuple[str, ...]
    key: str
    value: str
    memory_id: str | None
    """The memory that its text arrived as; None where it has none."""
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Counts:
    """What the ledger holds."""

    live: int
    retired: int
    users: dict[str | None, int]
    decisions: dict[str, int]
    pending: int
    turns: int
    """Turns that wait to be extracted."""
